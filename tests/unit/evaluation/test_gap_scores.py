"""Figures of predictive distributions of gaps, with and without metals."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from bandgap.evaluation.calibration import coverage_curve, pit
from bandgap.evaluation.calibrators import fit_calibrator
from bandgap.evaluation.gap_scores import area_under_roc, gap_figures, metal_figures
from bandgap.evaluation.heldout import HeldOut, crps_each, figures_at
from bandgap.evaluation.metrics import crps_mixture, nll_mixture
from bandgap.evaluation.reliability import coverage_of
from bandgap.foundation.errors import InputError
from bandgap.predictions.gap_distribution import GapDistribution
from bandgap.predictions.table import LEVELS, predictions_from_draws

RNG = np.random.default_rng(5)
N = 600
P = RNG.uniform(0.02, 0.98, N)
CENTRES = RNG.uniform(0.5, 4.0, (3, N))
SDS = RNG.uniform(0.2, 0.5, (3, N))
DISTRIBUTION = GapDistribution(CENTRES, SDS, P)
LEVEL_OF_GAP = RNG.uniform(size=N)


def gaps_of(distribution: GapDistribution) -> np.ndarray:
    """Return one gap of each structure, by its quantile at a random probability."""
    return distribution.quantiles(np.clip(LEVEL_OF_GAP, 1e-6, 1 - 1e-6)[None])[0]


GAPS = gaps_of(DISTRIBUTION)


@pytest.fixture(scope="module")
def heldout() -> HeldOut:
    texts = [""] * N
    predictions = predictions_from_draws(
        DISTRIBUTION.mean_eV() * RNG.uniform(0.9, 1.1, (20, N)),
        SDS,
        centres=CENTRES,
        ids=[str(i) for i in range(N)],
        files=texts,
        formulas=["X"] * N,
        domain=["ok"] * N,
        status=["ok"] * N,
        problem=texts,
        p_metal=P,
    )
    return HeldOut(predictions, GAPS)


def test_area_equals_scikit_learns_with_ties():
    score = np.round(P, 1)
    assert area_under_roc(GAPS == 0, score) == pytest.approx(roc_auc_score(GAPS == 0, score))
    with pytest.raises(InputError, match="found 0 metals"):
        area_under_roc(np.zeros(3, dtype=bool), np.zeros(3))


def test_metal_figures_are_the_mean_square_and_the_area():
    figures = metal_figures(GAPS, P)
    assert figures["brier_metal"] == pytest.approx(np.mean((P - (GAPS == 0)) ** 2))
    assert set(metal_figures([1.0, 2.0], [0.1, 0.2])) == {"brier_metal"}


def test_figures_with_metals_are_those_of_the_distribution():
    lower, upper = DISTRIBUTION.interval(0.95)
    figures = gap_figures(
        GAPS, DISTRIBUTION, lower=lower, upper=upper, point=DISTRIBUTION.mean_eV()
    )
    assert figures["crps_eV"] == pytest.approx(DISTRIBUTION.crps_eV(GAPS).mean())
    assert figures["nll"] == pytest.approx(-DISTRIBUTION.log_scores(GAPS).mean())
    assert 0.93 < figures["coverage_95"] < 0.99 and "auc_metal" in figures


def test_figures_without_metals_are_those_of_the_mixture_cut_at_zero():
    y = np.abs(RNG.normal(1.0, 0.5, N))
    plain = GapDistribution(CENTRES - 1.0, SDS)
    lower, upper = plain.interval(0.95)
    figures = gap_figures(y, plain, lower=lower, upper=upper, point=y + 0.1)
    assert figures["rmse_eV"] == pytest.approx(0.1)
    assert figures["nll"] == nll_mixture(y, CENTRES - 1.0, sds=SDS)
    assert figures["crps_eV"] < crps_mixture(y, CENTRES - 1.0, sds=SDS)


def test_coverage_of_a_calibrated_model_are_those_of_chance(heldout):
    curve = coverage_of(heldout, "prediction")
    # one false alarm in 1,000 seeds: 0.06 is 3.1 standard errors at 50 %, and the curve has one
    # maximum
    assert np.abs(curve.coverages - curve.levels).max() < 0.08
    narrow = GapDistribution(CENTRES, 0.3 * SDS, 0.3 * P)
    wrong = coverage_curve(GAPS, narrow.quantiles(LEVELS), p_metal=0.3 * P)
    assert np.abs(wrong.coverages - wrong.levels).max() > 0.08


def test_pit_from_stored_quantiles_is_the_distribution_function_above_zero(heldout):
    values = pit(GAPS, heldout.predictions.quantiles_new, p_metal=P)
    is_inside = (GAPS > 0) & (values > 0.01) & (values < 0.99)
    np.testing.assert_allclose(values[is_inside], LEVEL_OF_GAP[is_inside], atol=2e-3)
    assert (values[GAPS == 0] <= P[GAPS == 0]).all()


def test_figures_from_stored_quantiles_are_near_the_exact_ones(heldout):
    exact = DISTRIBUTION.crps_eV(GAPS).mean()
    # without the tails outside the stored probabilities
    assert crps_each(heldout).mean() == pytest.approx(exact, rel=0.01)
    figures = figures_at(heldout, 0.95)
    assert 0.93 < figures["coverage"] < 0.99 and figures["miscalibration"] < 0.04


def test_variance_scaling_is_refused_and_a_conformal_calibrator_fits(heldout):
    with pytest.raises(InputError, match="labels of this run contain metals"):
        fit_calibrator(heldout, "variance")
    calibrator = fit_calibrator(heldout, "conformal")
    after = calibrator.apply(heldout.predictions)
    lower, upper = after.interval(0.9, "conformal")
    inside = np.mean((lower <= GAPS) & (upper >= GAPS))
    assert (lower >= 0).all() and 0.85 < inside <= 1.0
    assert after.p_metal is heldout.predictions.p_metal

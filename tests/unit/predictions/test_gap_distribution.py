"""Predictive distributions of gaps: cut at zero, and with a probability of a metal."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.stats import kstest, norm

from bandgap.evaluation.metrics import crps_mixture_each
from bandgap.predictions.gap_distribution import (
    ZERO_EV,
    GapDistribution,
    interval_probabilities,
)
from bandgap.predictions.mixtures import mixture_quantiles

CENTRES = np.array([[0.4, 2.0, -0.5], [1.5, 2.2, 0.3]])
SDS = np.array([[0.3, 0.5, 0.4], [0.6, 0.4, 0.2]])
P_METAL = np.array([0.3, 0.01, 0.97])
CUT = GapDistribution(CENTRES, SDS)
METALS = GapDistribution(CENTRES, SDS, P_METAL)


def cdf_by_hand(distribution: GapDistribution, j: int, x: float) -> float:
    """Return P(gap <= x) of one structure from scipy's normal distribution."""
    if x < 0:
        return 0.0
    below, below_zero = (norm.cdf(end, CENTRES[:, j], SDS[:, j]).mean() for end in (x, 0.0))
    if distribution.p_metal is None:
        return float(below)
    p = float(distribution.p_metal[j])
    return p + (1 - p) * float((below - below_zero) / (1 - below_zero))


BOTH = pytest.mark.parametrize("distribution", [CUT, METALS], ids=["cut", "metals"])


@BOTH
@pytest.mark.parametrize("y", [0.0, 0.2, 1.7, 6.0])
def test_crps_equals_numerical_integration(distribution: GapDistribution, y: float) -> None:
    scores = distribution.crps_eV(np.full(3, y))
    for j in range(3):
        below, above = (
            quad(
                lambda x, j=j, h=h: (cdf_by_hand(distribution, j, x) - h) ** 2,
                *ends,
                limit=400,
                points=None,
                epsabs=1e-10,
            )[0]
            for h, ends in ((0.0, (0.0, y)), (1.0, (y, 12.0)))
        )
        # quad states its own error of about 1e-8
        assert scores[j] == pytest.approx(below + above, abs=2e-7)


@BOTH
def test_cdf_at_a_quantile_is_its_probability_above_the_atom(
    distribution: GapDistribution,
) -> None:
    probabilities = np.array([0.005, 0.31, 0.5, 0.9, 0.98, 0.999])
    quantiles = distribution.quantiles(probabilities)
    for k, probability in enumerate(probabilities):
        for j in range(3):
            if probability <= distribution.p_zero[j]:
                assert quantiles[k, j] == 0.0
            else:
                assert quantiles[k, j] > 0.0
                assert cdf_by_hand(distribution, j, quantiles[k, j]) == pytest.approx(
                    probability, abs=1e-8
                )


@BOTH
def test_mean_and_sd_equal_numerical_integration(distribution: GapDistribution) -> None:
    for j in range(3):
        mean = quad(lambda x, j=j: 1 - cdf_by_hand(distribution, j, x), 0, 12, limit=400)[0]
        square = quad(
            lambda x, j=j: 2 * x * (1 - cdf_by_hand(distribution, j, x)), 0, 12, limit=400
        )[0]
        assert distribution.mean_eV()[j] == pytest.approx(mean, abs=1e-7)
        assert distribution.sd_eV()[j] == pytest.approx(np.sqrt(square - mean**2), abs=1e-7)


def test_quantiles_without_metals_are_those_of_the_mixture_cut_at_zero() -> None:
    probabilities = [0.025, 0.5, 0.975]
    plain = mixture_quantiles(CENTRES, SDS, probabilities)
    assert (plain < 0).any()
    np.testing.assert_array_equal(CUT.quantiles(probabilities), np.maximum(plain, 0.0))


def test_cut_never_has_a_higher_crps_than_the_mixture() -> None:
    for y in (0.0, 0.3, 2.0):
        gaps = np.full(3, y)
        plain = crps_mixture_each(gaps, CENTRES, sds=SDS)
        assert (CUT.crps_eV(gaps) < plain).all()
    # far above zero nothing is cut
    far = GapDistribution(CENTRES + 9.0, SDS)
    np.testing.assert_allclose(
        far.crps_eV(np.full(3, 10.0)),
        crps_mixture_each(np.full(3, 10.0), CENTRES + 9.0, sds=SDS),
        atol=1e-9,
    )


@pytest.mark.parametrize("ratio", [1e3, 1e4, 1e6])
def test_crps_of_components_of_very_different_widths_is_the_sum_over_pairs(ratio: float) -> None:
    """Nothing of these mixtures is cut, so that the score is that of `crps_mixture_each`."""
    centres = np.array([[12.0, 12.0], [12.3, 12.3], [11.9, 12.0]])
    sds = np.broadcast_to(np.array([[1.0], [1.0 / ratio], [0.5]]), centres.shape)
    gaps = np.array([12.0, 14.0])
    expected = crps_mixture_each(gaps, centres, sds=sds)
    np.testing.assert_allclose(GapDistribution(centres, sds).crps_eV(gaps), expected, atol=1e-9)


def test_log_score_is_the_probability_of_a_metal_or_the_density() -> None:
    at_zero = METALS.log_scores(np.zeros(3))
    np.testing.assert_allclose(at_zero, np.log(P_METAL))
    step = 1e-5
    for y in (0.4, 1.1):
        slope = (METALS.cdf(np.full(3, y + step)) - METALS.cdf(np.full(3, y - step))) / (2 * step)
        np.testing.assert_allclose(METALS.log_scores(np.full(3, y)), np.log(slope), atol=1e-4)


def test_density_and_probability_of_a_metal_have_sum_one() -> None:
    for j in range(3):
        one = GapDistribution(CENTRES[:, [j]], SDS[:, [j]], P_METAL[[j]])
        above = quad(
            lambda x, one=one: np.exp(one.log_scores(np.array([x]))[0]), 0.0011, 10, limit=400
        )[0]
        low = one.cdf(np.array([0.0011]))[0]
        assert above + low == pytest.approx(1.0, abs=1e-6)


def test_pit_of_gaps_drawn_from_the_distribution_is_uniform() -> None:
    rng = np.random.default_rng(7)
    n = 4000
    p = rng.uniform(0.02, 0.98, n)
    centres = rng.normal(1.0, 1.0, (3, n))
    sds = rng.uniform(0.2, 0.8, (3, n))
    component = rng.integers(3, size=n)
    gaps = np.zeros(n)
    pending = rng.uniform(size=n) > p
    while pending.any():  # rejection of negative values and of the zeros' threshold
        rows = np.flatnonzero(pending)
        component[rows] = rng.integers(3, size=rows.size)
        drawn = rng.normal(centres[component[rows], rows], sds[component[rows], rows])
        gaps[rows] = np.maximum(drawn, 0.0)
        pending[rows] = drawn <= 0

    def transform(p_metal: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the probability integral transform, random for zeros (Czado et al. 2009)."""
        distribution = GapDistribution(centres, sds, p_metal)
        random = distribution.p_zero * np.random.default_rng(8).uniform(size=n)
        return np.where(gaps <= ZERO_EV, random, distribution.cdf(gaps))

    # one false alarm in 1,000 seeds
    assert kstest(transform(p), "uniform").pvalue > 1e-3
    wrong = transform(np.clip(p + 0.15, 0.01, 0.99))
    assert kstest(wrong, "uniform").pvalue < 1e-6


def test_interval_contains_its_probability_and_begins_at_zero_for_metals() -> None:
    p = np.array([0.001, 0.02, 0.03, 0.04, 0.06, 0.5, 0.949, 0.96])
    distribution = GapDistribution(np.full((1, p.size), 1.5), np.full((1, p.size), 0.4), p)
    lower, upper = distribution.interval(0.95)
    assert (lower[:2] > 0).all() and (lower[2:] == 0).all()
    assert upper[-1] == 0.0 and upper[-2] > 0.0
    inside = distribution.cdf(upper) - np.where(lower > 0, distribution.cdf(lower), 0.0)
    np.testing.assert_allclose(inside[[0, 1, 4, 5, 6]], 0.95, atol=1e-8)
    np.testing.assert_allclose(inside[[2, 3]], 1 - p[[2, 3]], atol=1e-8)
    assert inside[-1] == pytest.approx(0.96)


def test_upper_ends_grow_with_the_level_and_change_continuously_with_p_metal() -> None:
    for p in (0.01, 0.04, 0.3, 0.8):
        ends = [interval_probabilities(x / 100, np.array([p]), 1)[1][0] for x in range(1, 100)]
        assert (np.diff(ends) >= 0).all()
    p = np.linspace(0.001, 0.999, 2001)
    upper = interval_probabilities(0.9, p, p.size)[1]
    assert np.abs(np.diff(upper)).max() < 1e-3

"""Gaussian processes on the source's last features: storage, large targets, the demo."""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import learnable
from bandgap.foundation.errors import ConfigError
from bandgap.posterior.baseline import Baseline, BaselinePosterior
from bandgap.posterior.mixture import PosteriorMixture
from bandgap.posterior.remoteness import FAR, far_shares
from bandgap.predictions.mixtures import mixture_sd
from bandgap.research.vecchia.kriging import Observed, predict
from bandgap.runs.results import far_figures
from bandgap.sources.stored import load_source
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting
from tests.research.vecchia.samples import covariance_of
from tests.storing import read_again
from tests.unit.transfer.test_every_method import rows_of, source  # noqa: F401 - a fixture

VECCHIA = METHODS["vecchia_gp"]
ULISSE = METHODS["ulisse_gp"]
BRIEF = {"process": {"nu": 1.5, "metropolis": {"chains": 2, "warmup": 25, "draws": 50}}}


@pytest.fixture(scope="module")
def fitted(source):  # noqa: F811
    data = TargetData(*rows_of(60, seed=1, shift=0.8))
    return VECCHIA.fit(source, data, VECCHIA.configure(BRIEF), Fitting(0)), data


def test_draws_of_the_mean_are_normal_scores_of_kriging(fitted):
    posterior, _ = fitted
    x, _ = rows_of(7, seed=9)
    draws = posterior.predictive_draws(x)
    points, trend = posterior.coordinates_and_trend(x)
    betas = posterior.beta.reshape(-1, posterior.beta.shape[-1])
    observed = Observed(posterior.points, posterior.trend, posterior.gaps)
    predictions = predict(observed, posterior.thetas, betas, points, trend)
    scale = posterior.standardiser
    # Features are of float32.
    np.testing.assert_allclose(draws.centres_eV, scale.gaps_eV(predictions.mean), rtol=1e-6)
    flat = draws.flat_means_eV
    np.testing.assert_allclose(flat.mean(0), scale.gaps_eV(predictions.mean.mean(0)), atol=0.02)
    spread = np.sqrt(predictions.latent.mean(0) + predictions.mean.var(0)) * scale.y_sd_eV
    np.testing.assert_allclose(flat.std(0), spread, rtol=0.1)


def test_record_contains_the_chains_of_length_spread_and_noise(fitted):
    posterior, _ = fitted
    record = posterior.diagnostics.record
    scales = ("spread", "length", "noise")
    assert set(record) >= {f"trace.{name}" for name in scales}
    assert record["trace.length"].shape == (2, 50)
    assert posterior.diagnostics.figures["smoothness"] == 1.5
    assert {"rhat_length", "ess_length", "rhat_max", "ess_min", "acceptance"} <= set(
        posterior.diagnostics.figures
    )


def test_structures_far_from_all_training_rows_say_so(fitted):
    posterior, data = fitted
    near = posterior.far_share(data.features)
    far = posterior.far_share(40.0 * data.features)
    assert near.max() < 0.8 < far.mean()


def test_far_shares_of_a_mixture_or_baseline_are_those_of_its_posteriors(fitted):
    posterior, data = fitted
    features = np.vstack([data.features, 40.0 * data.features])
    posterior_shares = posterior.far_share(features)
    np.testing.assert_array_equal(far_shares(posterior, features), posterior_shares)
    wider = replace(posterior, theta=posterior.theta * [1.0, 100.0, 1.0, 1.0])
    both = far_shares(PosteriorMixture((posterior, wider)), features)
    np.testing.assert_array_equal(both, np.minimum(posterior_shares, wider.far_share(features)))
    assert both[60:].mean() < posterior_shares[60:].mean()
    line = Baseline(n_features=features.shape[1], slope=1.0, slope_sd=0.1, centre_eV=2.0)
    with_constant = np.hstack([features, np.full((len(features), 1), 3.0)])
    np.testing.assert_array_equal(
        far_shares(BaselinePosterior(posterior, line, seed=0), with_constant), posterior_shares
    )


def test_far_figures_count_held_out_rows_of_kernels_alone(fitted, source):  # noqa: F811
    posterior, data = fitted
    features = np.vstack([data.features, 40.0 * data.features])
    share = far_figures(posterior, features)["far_share"]
    assert share == np.mean(posterior.far_share(features) > FAR) and 0.0 < share <= 0.5
    assert far_figures(posterior, data.features) == {"far_share": 0.0}
    ridge = METHODS["last_layer_ridge"]
    assert far_figures(ridge.fit(source, data, ridge.configure({}), Fitting(0)), features) == {}


def test_trend_is_integrated_out_where_scales_are_known_and_stored_so(source):  # noqa: F811
    data = TargetData(*rows_of(40, seed=1, shift=0.8))
    posterior = VECCHIA.fit(
        source, data, VECCHIA.configure({"process": {"nu": 1.5, "sampler": "none"}}), Fitting(0)
    )
    back = read_again(posterior)
    x, (theta,) = 3.0 * rows_of(7, seed=9)[0], posterior.thetas
    points, trend = posterior.coordinates_and_trend(x)
    observed = Observed(posterior.points, posterior.trend, posterior.gaps)
    p4 = posterior.trend.T @ np.linalg.inv(covariance_of(posterior.points, theta)) @ posterior.trend
    wide, narrow = (
        np.sqrt(
            predict(
                observed, [theta], posterior.beta[0], points, trend, precision_beta=precision
            ).latent
            + theta.tau2
        )
        for precision in (p4, None)
    )
    for version in (posterior, back):
        sds = version.predictive_draws(x).sds_eV / posterior.standardiser.y_sd_eV
        np.testing.assert_allclose(sds, wide, rtol=1e-5)
    assert (wide > 1.0001 * narrow).all()


def test_target_of_many_rows_is_sampled_by_batches(source):  # noqa: F811
    data = TargetData(*rows_of(1100, seed=1, shift=0.8))
    brief = {
        "process": {
            "nu": 1.5,
            "neighbours": 10,
            "sgrld": {"chains": 2, "warmup": 20, "draws": 40, "thin": 4},
        }
    }
    posterior = VECCHIA.fit(source, data, VECCHIA.configure(brief), Fitting(0))
    assert posterior.diagnostics.figures["divergences"] == 0.0
    x, y = rows_of(200, seed=2, shift=0.8)
    assert np.sqrt(np.mean((posterior.mean_draws_eV(x).mean((0, 1)) - y) ** 2)) < 0.8 * y.std()


def test_sampler_by_batches_is_refused_with_the_exact_likelihood():
    with pytest.raises(ConfigError, match="sampler 'sgfs' uses batches of sites"):
        VECCHIA.configure({"process": {"sampler": "sgfs", "likelihood": "exact"}})


def test_features_that_do_not_vary_leave_the_level_alone(source):  # noqa: F811
    flat = replace(source, params={k: 0.0 * v for k, v in source.params.items()})
    data = TargetData(*rows_of(40, seed=1))
    posterior = VECCHIA.fit(
        flat, data, VECCHIA.configure(BRIEF | {"gap_scale": "source"}), Fitting(0)
    )
    assert posterior.trend.shape == (40, 1)
    assert posterior.mean_draws_eV(data.features).mean() == pytest.approx(
        data.gaps_eV.mean(), abs=0.2
    )


def test_unbiased_solves_give_the_answer_of_the_exact_likelihood(source):  # noqa: F811
    data = TargetData(*rows_of(60, seed=1, shift=0.8))
    exact = VECCHIA.fit(
        source, data, VECCHIA.configure({"process": {"metropolis": {"draws": 300}}}), Fitting(0)
    )
    solves = ULISSE.fit(source, data, ULISSE.configure({"solves": {"draws": 300}}), Fitting(0))
    x, y = rows_of(100, seed=2, shift=0.8)
    one, other = (posterior.mean_draws_eV(x).mean((0, 1)) for posterior in (exact, solves))
    assert np.sqrt(np.mean((one - other) ** 2)) < 0.1 * y.std()


@pytest.mark.slow
def test_crystals_of_the_demo_are_learned_as_well_as_by_ridge_with_honest_intervals():
    """500 labels, 400 others: MSE <= 1.05 of ridge, 87 to 94 % in the 90 % interval.

    Means over three splits: the coverage of one has a standard error of 1.5 %.
    """
    network = load_source(demo_source_folder())
    crystals = load_demo("crystals")
    table = learnable(crystals.records, crystals.gaps_eV, descriptor=network.descriptor)
    errors = []
    ridges = []
    inside = []
    for seed in range(3):
        split = permuted_split(table.ids, n_test=400, n_train=500, seed=seed)
        train = table.rows(split.train)
        test = table.rows(split.test)
        posterior = VECCHIA.fit(
            network, TargetData(train.features, train.gaps_eV), VECCHIA.configure({}), Fitting(0)
        )
        draws = posterior.predictive_draws(test.features)
        errors.append(np.mean((draws.flat_means_eV.mean(0) - test.gaps_eV) ** 2))
        sd = mixture_sd(draws.centres_eV, draws.sds_eV)
        inside.append(np.abs(test.gaps_eV - draws.centres_eV.mean(0)) < 1.645 * sd)
        train_features = np.hstack([posterior.points, posterior.trend])
        new = np.hstack(posterior.coordinates_and_trend(test.features))
        penalties = 10.0 ** np.arange(-4, 3)
        ridges.append(
            min(
                _ridge_error(train_features, train.gaps_eV, new, test.gaps_eV, penalty)
                for penalty in penalties
            )
        )
    assert np.mean(errors) <= 1.05 * np.mean(ridges)
    assert 0.87 <= np.mean(inside) <= 0.94


def _ridge_error(x, y, x_new, y_new, penalty):
    """The error of ridge regression with the penalty that is best on the test rows."""
    mean = x.mean(0)
    level = y.mean()
    weights = np.linalg.solve(
        (x - mean).T @ (x - mean) + penalty * np.eye(x.shape[1]), (x - mean).T @ (y - level)
    )
    return float(np.mean((level + (x_new - mean) @ weights - y_new) ** 2))

"""The output layer's regression: units, source error, dead features, posterior."""

import dataclasses

import numpy as np
import pytest

from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.transfer import TargetData
from bandgap.transfer.shared.last_layer_problem import (
    converged,
    last_layer_problem,
    source_covariance,
)
from tests.unit.transfer.last_layers import P, Q, hidden_of, lookup_source, target_of

SCALES = {"statistics": "source", "gap_scale": "source"}


@pytest.fixture
def source(source_of):
    return lookup_source(source_of)


def test_rows_are_hidden_features_on_the_sources_scale_and_responses_the_rest(source):
    data = target_of(source)
    problem = last_layer_problem(source, data, **SCALES)
    h = hidden_of(data.features)
    b = source.params["weight.2"].double().numpy()[0]
    np.testing.assert_allclose(
        problem.rows * source.features.sd + source.features.mean, h, rtol=0, atol=1e-6
    )
    residuals = data.gaps_eV - h @ b - float(source.params["bias.2"])
    np.testing.assert_allclose(problem.response * problem.unit, residuals, rtol=0, atol=1e-6)
    assert (
        problem.response.std() == pytest.approx(1.0)
        and problem.n_changes == Q
        and problem.figures["n_dropped"] == 0
    )


def test_source_error_is_the_ridge_posterior_of_its_own_fit(source):
    """s1^2 (H'H + n1 l2 I)^-1 in the source's units; the ratio is to the target's variance."""
    n = source.features.n
    l2 = source.config.training.l2
    expected = np.linalg.inv(source.features.scatter + n * l2 * np.eye(Q))
    used = np.ones(Q, dtype=bool)
    scaled = source_covariance(source, used, source.features.sd)
    sd = source.features.sd
    np.testing.assert_allclose(scaled / np.outer(sd, sd), expected, rtol=1e-9)
    problem = last_layer_problem(source, target_of(source, noise=0.6, n=300), **SCALES)
    np.testing.assert_allclose(
        problem.covariance, scaled * problem.figures["noise_ratio"], rtol=1e-12
    )
    # Of 290 rows left: 8 %, three times.
    assert problem.figures["noise_ratio"] == pytest.approx(0.09 / 0.36, rel=0.3)


def test_a_source_without_penalty_has_a_tiny_ridge(source):
    training = dataclasses.replace(source.config.training, l2=0.0)
    bare = dataclasses.replace(source, config=dataclasses.replace(source.config, training=training))
    bare.features.scatter[0] = bare.features.scatter[:, 0] = 0.0
    assert np.isfinite(source_covariance(bare, np.ones(Q, dtype=bool), np.ones(Q))).all()


def dead(data, unit):
    """The same rows with one hidden unit that no training row switches on."""
    x = data.features.copy()
    x[:, unit] = -np.abs(x[:, unit])
    return TargetData(x, data.gaps_eV)


@pytest.mark.parametrize("mode", ["joint", "delta"])
def test_a_unit_that_is_dead_on_the_target_keeps_its_source_weight(source, mode):
    """In mode "joint" with the source's error about it, which no row of the target has reduced."""
    problem = last_layer_problem(source, dead(target_of(source), 2), **SCALES)
    assert (
        problem.n_changes == Q - 1
        and problem.figures["n_dropped"] == 1
        and not problem.has_change[2]
    )
    delta = np.full((2, 4000, Q - 1), 0.1)
    sigma2 = np.full((2, 4000), 0.5)
    draws = problem.posterior(delta, sigma2, mode=mode, seed=0, figures={}).output[..., 2]
    weight = float(source.params["weight.2"][0, 2])
    if mode == "delta":
        np.testing.assert_allclose(draws, weight, rtol=0, atol=1e-12)
    else:
        alone = problem.unit * np.sqrt(0.5 * problem.covariance[2, 2]) / problem.sd[2]
        # Others tell a little of it: under a tenth here.
        assert draws.std() == pytest.approx(alone, rel=0.1)


def test_the_least_sum_of_squares_is_a_setting(source):
    data = target_of(source)
    x = data.features.copy()
    # One row switches unit 0 on.
    x[:, 0] = np.where(np.arange(len(x)) == 0, np.abs(x[:, 0]), -np.abs(x[:, 0]))
    for min_ss, dropped in ((5.0, 1), (1e-6, 0)):
        problem = last_layer_problem(source, TargetData(x, data.gaps_eV), min_ss=min_ss, **SCALES)
        assert problem.figures["n_dropped"] == dropped


def test_a_feature_that_is_constant_on_the_source_is_left_out_altogether(source):
    statistics = source.features
    scatter = statistics.scatter.copy()
    scatter[3] = scatter[:, 3] = 0.0
    source = dataclasses.replace(source, features=dataclasses.replace(statistics, scatter=scatter))
    problem = last_layer_problem(source, target_of(source), **SCALES)
    assert (
        problem.rows.shape[1] == Q - 1
        and not problem.used[3]
        and problem.covariance.shape == (Q - 1, Q - 1)
    )
    output = problem.posterior(np.ones((1, 3, Q - 1)), np.ones((1, 3)), seed=0, figures={}).output
    np.testing.assert_allclose(output[..., 3], float(source.params["weight.2"][0, 3]))


def test_a_source_without_moments_counts_as_exact_under_a_warning(source_of):
    source = lookup_source(source_of, n=0)
    problem = last_layer_problem(source, target_of(source), **SCALES)
    assert problem.covariance is None and problem.regression.source is None
    assert "was stored without the moments of its last hidden features" in problem.warnings[0]
    quiet = [{"about": "target"}, {"exact_source": True}]
    assert [
        last_layer_problem(source, target_of(source), **SCALES, **kind).warnings for kind in quiet
    ] == [(), ()]


def test_about_the_target_the_source_gives_its_features_alone(source):
    data = target_of(source)
    problem = last_layer_problem(source, data, about="target", **SCALES)
    assert not problem.weights.any() and problem.bias == 0.0 and problem.covariance is None
    np.testing.assert_allclose(problem.response * problem.unit, data.gaps_eV, rtol=0, atol=1e-6)


@pytest.mark.parametrize("mode", ["joint", "delta"])
def test_predictions_are_source_plus_change_plus_level(source, mode):
    """With one draw of delta, no source error and no noise, at new rows."""
    source = dataclasses.replace(
        source, features=dataclasses.replace(source.features, residual_variance=0.0)
    )
    problem = last_layer_problem(source, target_of(source, shift=0.7), **SCALES)
    delta = np.linspace(-1, 1, Q)[None, None]
    posterior = problem.posterior(
        delta, np.full((1, 1), 1e-18), mode=mode, seed=0, figures={"a": 1.0}
    )
    x = np.random.default_rng(5).normal(size=(8, P)).astype(np.float32)
    h = hidden_of(x)
    change = problem.unit * delta[0, 0] / source.features.sd
    base = h @ source.params["weight.2"].double().numpy()[0] + float(source.params["bias.2"])
    expected = (
        base
        + problem.unit * problem.response.mean()
        + (h - hidden_of(target_of(source).features).mean(0)) @ change
    )
    np.testing.assert_allclose(posterior.mean_draws_eV(x)[0, 0], expected, rtol=0, atol=1e-5)
    assert posterior.diagnostics.figures["a"] == 1.0
    assert all(
        (posterior.hidden[k] == source.params[k].numpy()).all() for k in ("weight.1", "bias.1")
    )


def test_rows_that_move_nothing_leave_the_level_and_the_noise(source):
    x = np.tile(np.random.default_rng(3).normal(size=(1, P)).astype(np.float32), (30, 1))
    y = np.random.default_rng(4).normal(2.0, 0.5, size=30)
    problem = last_layer_problem(source, TargetData(x, y), **SCALES)
    assert (
        problem.n_changes == 0
        and "no output weight was changed, only the level" in problem.warnings[0]
    )
    delta, sigma2 = problem.without_changes(chains=2, draws=2000, prior=NoisePrior(), seed=0)
    posterior = problem.posterior(delta, sigma2, seed=0, figures={})
    # 4 s.e. of 4,000 draws: 0.006.
    assert posterior.mean_draws_eV(x[:1]).mean() == pytest.approx(y.mean(), abs=0.02)
    assert np.median(posterior.sigma_eV) == pytest.approx(y.std(ddof=1), rel=0.05)


def test_convergence_is_a_sentence_about_the_worst_quantity():
    figures, none = converged(
        {"rhat_tau": 1.01, "ess_tau": 90.0, "rhat_fit_max": 1.02, "ess_fit": 70.0}
    )
    assert figures["rhat_max"] == 1.02 and figures["ess_min"] == 70.0 and none == ()
    for name, words in (
        ("tau", "on tau"),
        ("fit_max", "on the fitted gaps of the training structures"),
    ):
        _, warnings = converged({f"rhat_{name}": 1.3, "ess_tau": 9.0})
        assert (
            f"The chains have not agreed yet {words} (R-hat 1.300, want below 1.05)" in warnings[0]
        )
    figures, warnings = converged({"rhat_tau": 1.3, "rhat_sigma": float("nan"), "ess_tau": 9.0})
    assert np.isnan(figures["rhat_max"]) and "on sigma (R-hat nan" in warnings[0]
    assert converged({"n_dropped": 1.0}) == ({"n_dropped": 1.0}, ())

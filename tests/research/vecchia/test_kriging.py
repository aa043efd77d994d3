"""Kriging against the dense conditional normal, and the library's intervals on simulated fields."""

import numpy as np
import pytest
from scipy.stats import norm

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia import gp
from bandgap.research.vecchia.kriging import Observed, predict
from bandgap.research.vecchia.likelihood import Theta, build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig
from bandgap.research.vecchia.target import FLAT, LogNormal, Priors, Target
from tests.research.vecchia.samples import covariance_of, field

THETA = Theta(1.4, 0.9, 1.5, 0.15)
BETA = np.array([0.3, -0.6])


def split(n, new, theta, *, seed):
    points, rows, y = field(n + new, 2, theta, seed=seed)
    return Observed(points[:n], rows[:n], y[:n]), points[n:], rows[n:], y[n:]


def conditional(observed, points, rows, theta, beta):
    """Mean and variance of the noise-free value by the dense covariance of all observed and new
    points.
    """
    n = len(observed.y)
    both = np.vstack([observed.points, points])
    covariance = covariance_of(both, theta) - np.diag(
        np.r_[np.zeros(n), np.full(len(points), theta.tau2)]
    )
    weights = np.linalg.solve(covariance[:n, :n], covariance[:n, n:])
    mean = rows @ beta + weights.T @ (observed.y - observed.covariates @ beta)
    return mean, np.diag(covariance[n:, n:] - covariance[n:, :n] @ weights), weights


def few_rows(observed, likelihood, sampler="auto"):
    """The process of the library at the smoothness of THETA, with ten neighbours and
    short chains.
    """
    chains = MetropolisConfig(draws=400, warmup=100)
    config = gp.GPConfig(
        nu=1.5, likelihood=likelihood, neighbours=10, sampler=sampler, metropolis=chains
    )
    return gp.fit(observed.points, observed.y, config, covariates=observed.covariates, seed=0)


@pytest.mark.parametrize("nu", [1.5, 0.8])
@pytest.mark.parametrize("m", [0, 39], ids=["dense", "by loops"])
def test_kriging_from_all_points_is_the_conditional_normal(nu, m):
    """39 of 40 by the loops, the 40th being too far away to count."""
    theta = THETA._replace(nu=nu)
    observed, points, rows, _ = split(39, 12, theta, seed=1)
    if m:
        far = Observed(
            np.vstack([observed.points, [[1e4, 1e4]]]),
            np.vstack([observed.covariates, [[1.0, 0.0]]]),
            np.r_[observed.y, 0.3],
        )
        kriged = predict(far, [theta], BETA[None], points, rows, m=m)
    else:
        kriged = predict(observed, [theta], BETA[None], points, rows)
    mean, variance, _ = conditional(observed, points, rows, theta, BETA)
    np.testing.assert_allclose(kriged.mean[0], mean, rtol=1e-8)
    np.testing.assert_allclose(kriged.latent[0], variance, rtol=1e-8)


def test_integrating_over_beta_widens_the_variance_as_in_the_dense_formula():
    observed, points, rows, _ = split(40, 8, THETA, seed=2)
    inverse = np.linalg.inv(covariance_of(observed.points, THETA))
    p4 = observed.covariates.T @ inverse @ observed.covariates
    beta = np.linalg.solve(p4, observed.covariates.T @ inverse @ observed.y)
    _, variance, weights = conditional(observed, points, rows, THETA, beta)
    trend_error = rows - weights.T @ observed.covariates
    for m in (0, 39):
        kriged = predict(observed, [THETA], beta[None], points, rows, m=m, precision_beta=p4)
        expected = variance + np.einsum("np,pq,nq->n", trend_error, np.linalg.inv(p4), trend_error)
        np.testing.assert_allclose(kriged.latent[0], expected, rtol=1e-8 if not m else 5e-2)


def test_kriging_without_a_nugget_interpolates_the_data():
    theta = THETA._replace(tau2=1e-10)
    observed, _, _, _ = split(40, 2, theta, seed=3)
    for m in (0, 20):
        kriged = predict(observed, [theta], BETA[None], observed.points, observed.covariates, m=m)
        np.testing.assert_allclose(kriged.mean[0], observed.y, atol=1e-6)
        assert kriged.latent.max() < 1e-6


@pytest.mark.slow
def test_intervals_have_the_stated_coverage_on_200_fields():
    """n = 400, mode of every field, 20 new observations each: 90 % +- 2 % of 4,000 (four standard
    errors).
    """
    inside = []
    for seed in range(200):
        observed, points, rows, y = split(400, 20, THETA, seed=seed)
        target = Target(
            build_blocks(observed.points, observed.covariates, observed.y, m=10), FLAT, nu=1.5
        )
        mode = gp.find_mode(target, target.eta(THETA), tolerance=1e-4)
        kriged = predict(observed, [target.theta(mode.eta)], mode.beta[None], points, rows, m=40)
        sd = np.sqrt(kriged.latent[0] + target.theta(mode.eta).tau2)
        inside.append(np.abs(y - kriged.mean[0]) < 1.6449 * sd)
    assert np.mean(inside) == pytest.approx(0.90, abs=0.02)


@pytest.mark.parametrize("likelihood", ["exact", "vecchia"])
def test_library_predicts_the_mixture_of_dense_kriging_over_its_draws(likelihood):
    observed, points, rows, _ = split(20, 30, THETA, seed=0)
    process = few_rows(observed, likelihood)
    parts = [
        conditional(observed, points, rows, theta, beta)[:2]
        for theta, beta in zip(process.thetas, process.beta.reshape(-1, 2), strict=True)
    ]
    assert len(parts) == 32
    means, variances = (np.array(values) for values in zip(*parts, strict=True))
    prediction = process.predict(points, rows)
    np.testing.assert_allclose(prediction.mean, means.mean(0), rtol=1e-7)
    total = variances.mean(0) + (means**2).mean(0) - means.mean(0) ** 2
    np.testing.assert_allclose(prediction.latent_sd, np.sqrt(total), rtol=1e-7)
    noise = np.array([theta.tau2 for theta in process.thetas])[:, None]
    for kind, extra in (("latent", 0.0), ("observation", noise)):
        ends = prediction.interval(0.9, kind=kind)
        below = [norm.cdf((end - means) / np.sqrt(variances + extra)).mean(0) for end in ends]
        np.testing.assert_allclose(below, np.broadcast_to([[0.05], [0.95]], (2, 30)), atol=1e-6)


@pytest.mark.parametrize("likelihood", ["exact", "vecchia"])
def test_fit_predicts_new_observations(likelihood):
    observed, points, rows, y = split(120, 60, THETA, seed=5)
    prediction = few_rows(observed, likelihood).predict(points, rows)
    latent, observation = (
        prediction.interval(0.9, kind=kind) for kind in ("latent", "observation")
    )
    assert (observation[1] - observation[0] > latent[1] - latent[0]).all()
    assert np.sqrt(np.mean((y - prediction.mean) ** 2)) < 0.8 * y.std()
    assert np.mean((y > observation[0]) & (y < observation[1])) > 0.75


@pytest.mark.parametrize("likelihood", ["exact", "vecchia"])
def test_trend_is_uncertain_if_the_scales_are_fixed(likelihood):
    """Far from all rows the variance is sigma2 and that of the level, 1 / 1'Sigma^-1 1."""
    rng = np.random.default_rng(8)
    points = 10 * rng.random((12, 2))
    y = 3 + rng.standard_normal(12)
    process = gp.fit(
        points, y, gp.GPConfig(nu=0.5, likelihood=likelihood, neighbours=11, sampler="none")
    )
    (theta,) = process.thetas
    level = 1 / np.linalg.inv(covariance_of(points, theta)).sum()
    sd = process.predict(np.array([[1e4, 1e4]])).latent_sd
    np.testing.assert_allclose(sd, np.sqrt(theta.sigma2 + level), rtol=1e-8)
    assert sd[0] > 1.05 * np.sqrt(theta.sigma2)


def test_search_that_does_not_converge_warns_with_its_remaining_step():
    """A prior of the range e^300 away: more than 40 steps of a root mean square of 1 can go."""
    points, rows, y = field(40, 2, THETA, seed=0)
    plain = LogNormal(0.0, 1.0)
    priors = Priors(plain, LogNormal(300.0, 0.01), plain, plain)
    process = gp.fit(points, y, gp.GPConfig(nu=1.5, sampler="none"), covariates=rows, priors=priors)
    assert not process.mode.converged
    (words,) = process.traces.warnings
    assert (
        "ended after 40 steps, when the next one had a length of "
        f"{np.sqrt(process.mode.squared_step):.2g} standard deviations" in words
    )
    assert not gp.fit(
        points, y, gp.GPConfig(nu=1.5, sampler="none"), covariates=rows
    ).traces.warnings


@pytest.mark.parametrize("excess", [0.0, 1e-13], ids=["constant", "to rounding"])
def test_observations_that_the_trend_explains_are_refused(excess):
    points, rows, _ = field(40, 2, THETA, seed=0)
    y = 2.0 + rows[:, 1] + excess * np.sin(np.arange(40.0))
    with pytest.raises(
        InputError, match=r"40 observations up to .* Nothing is left for a process to learn. Give"
    ):
        gp.fit(points, y, covariates=rows)
    with pytest.raises(InputError, match="they are constant"):
        gp.fit(points, np.full(40, 2.0))


def test_smoothness_is_chosen_by_likelihood():
    points, rows, y = field(250, 2, Theta(2.0, 1.0, 0.5, 0.01), seed=6)
    assert gp.fit(points, y, gp.GPConfig(sampler="none"), covariates=rows).nu == 0.5


@pytest.mark.slow
def test_fit_of_thousands_of_rows_in_64_dimensions_has_the_stated_coverage():
    n = 1_500
    rng = np.random.default_rng(0)
    points = rng.standard_normal((n + 500, 64)) * 0.8 ** np.arange(64)
    y = (
        np.sin(points[:, 0])
        + 0.5 * points[:, 1] * points[:, 2]
        + 0.2 * rng.standard_normal(n + 500)
    )
    process = gp.fit(points[:n], y[:n], seed=0)
    low, high = process.predict(points[n:]).interval(0.9, kind="observation")
    assert np.mean((y[n:] > low) & (y[n:] < high)) == pytest.approx(0.9, abs=0.06)

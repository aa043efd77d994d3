"""The posterior of the global scale against n x n algebra; its random walk; its prior."""

import numpy as np
import pytest
from scipy import integrate

from bandgap.inference.last_layer.global_scale import (
    integrate_global_scale,
    metropolis,
)
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from bandgap.inference.last_layer.spectral_regression import (
    NoisePrior,
    least_cross_validation,
    spectral_regression,
)
from bandgap.priors.source_distance import isotropic_rates, source_distance
from tests.unit.inference.last_layer.regressions import explicit, make_regression

SIGMAS = 4.5  # of the largest of about 10 comparisons: a false alarm in 15,000 runs
NOISE = NoisePrior(2.0, 1.0)
X, Z, S1 = make_regression(12, 4, seed=2)


@pytest.fixture(scope="module", params=["isotropic", "source"])
def case(request):
    """The regression for changes N(0, s2 x M), the prior of x, and M."""
    problem = reduce_regression(X, Z, source_covariance=S1)
    if request.param == "isotropic":
        return (
            spectral_regression(problem, prior=NOISE),
            source_distance(isotropic_rates(S1), lam=0.7, median_x=1),
            np.eye(4),
        )
    root = np.linalg.cholesky(S1)
    return (
        spectral_regression(problem, root=root, prior=NOISE),
        source_distance(np.ones(4), lam=0.7, median_x=1),
        S1,
    )


@pytest.fixture(scope="module")
def exact(case):
    return integrate_global_scale(case[0], case[1], centre=case[1].typical)


def mean_log_x(scale):
    return float(scale.weights @ scale.log_x)


def sd_log_x(scale):
    return float(np.sqrt(scale.weights @ (scale.log_x - mean_log_x(scale)) ** 2))


def sigma2_given_x(scale):
    return scale.regression.rates(np.exp(scale.log_x)) / (scale.regression.shape - 1.0)


def mean_sigma2(scale):
    return float(scale.weights @ sigma2_given_x(scale))


def moments(scale):
    """Posterior mean (p,) and covariance (p, p) of delta in closed form, as sums over the grid."""
    r = scale.regression
    variances = r.shrunk(np.exp(scale.log_x))
    means = variances * r.coordinates
    mean = scale.weights @ means
    spread = scale.weights @ (sigma2_given_x(scale)[:, None] * variances)
    between = (means - mean).T @ (scale.weights[:, None] * (means - mean))
    return r.vectors @ mean, r.vectors @ (np.diag(spread) + between) @ r.vectors.T


def explicit_log_likelihood(x, m):
    """log p(Z | x) by the n x n covariance s2 (I + X (S1 + x M) X') of contrasts of rows."""
    n = len(Z)
    basis = np.linalg.qr(np.hstack([np.ones((n, 1)), np.eye(n)]))[0][:, 1:n]
    covariance = basis.T @ (np.eye(n) + X @ (S1 + x * m) @ X.T) @ basis
    rate = NOISE.scale + 0.5 * (basis.T @ Z) @ np.linalg.solve(covariance, basis.T @ Z)
    return -0.5 * np.linalg.slogdet(covariance)[1] - (NOISE.shape + 0.5 * (n - 1)) * np.log(rate)


def test_likelihood_is_that_of_the_n_by_n_covariance(case):
    regression, _, m = case
    x = np.array([1e-9, 1e-3, 0.2, 1.0, 40.0])
    expected = np.array([explicit_log_likelihood(value, m) for value in x])
    likelihood = regression.log_likelihood(x)
    np.testing.assert_allclose(np.diff(likelihood), np.diff(expected), rtol=0, atol=1e-8)


def test_grid_holds_the_posterior_of_log_x(case, exact):
    _, prior, m = case

    def density(u):
        return np.exp(
            explicit_log_likelihood(np.exp(u), m) + float(prior.log_density(np.array(u))) - highest
        )

    highest = max(
        explicit_log_likelihood(np.exp(u), m) + float(prior.log_density(np.array(u)))
        for u in exact.log_x[::50]
    )
    low, high = prior.typical - 40, prior.typical + 25
    total, below = (
        integrate.quad(
            density, low, end, limit=300, points=[mean_log_x(exact) - 1], epsabs=0, epsrel=1e-8
        )[0]
        for end in (high, mean_log_x(exact))
    )
    first = integrate.quad(
        lambda u: u * density(u), low, high, limit=300, points=[mean_log_x(exact)], epsrel=1e-8
    )[0]
    assert first / total == pytest.approx(mean_log_x(exact), abs=1e-6)
    assert exact.weights[exact.log_x < mean_log_x(exact)].sum() == pytest.approx(
        below / total, abs=exact.weights.max()
    )
    assert exact.weights[0] + exact.weights[-1] < 1e-8


def test_moments_are_the_averages_of_generalised_least_squares(case, exact):
    _, _, m = case
    gram, moment, square, _ = explicit(X, Z, S1)
    means = []
    seconds = []
    for u in exact.log_x[::10]:
        inverse = np.linalg.inv(gram + np.linalg.inv(np.exp(u) * m))
        mean = inverse @ moment
        rate = NOISE.scale + 0.5 * (square - moment @ mean)
        means.append(mean)
        seconds.append(rate / (NOISE.shape + 5.5 - 1) * inverse + np.outer(mean, mean))
    weights = exact.weights[::10] / exact.weights[::10].sum()
    mean, covariance = moments(exact)
    expected = np.tensordot(weights, means, 1)
    np.testing.assert_allclose(mean, expected, rtol=0, atol=1e-6)
    second = np.tensordot(weights, seconds, 1)
    np.testing.assert_allclose(covariance, second - np.outer(expected, expected), rtol=0, atol=1e-6)


def test_draws_have_the_moments_in_closed_form(exact):
    delta, sigma2, x = exact.draw(20_000, np.random.default_rng(1))
    mean, covariance = moments(exact)
    assert (np.abs(delta.mean(0) - mean) < SIGMAS * np.sqrt(np.diag(covariance) / 20_000)).all()
    squares = (delta - mean) ** 2
    assert (
        np.abs(squares.mean(0) - np.diag(covariance)) < SIGMAS * squares.std(0) / np.sqrt(20_000)
    ).all()
    assert abs(sigma2.mean() - mean_sigma2(exact)) < SIGMAS * sigma2.std() / np.sqrt(20_000)
    assert abs(np.log(x).mean() - mean_log_x(exact)) < SIGMAS * sd_log_x(exact) / np.sqrt(20_000)


def test_random_walk_accepts_by_the_exact_ratio_of_the_posterior(case):
    """A walk by n x n algebra with the same random numbers has the same positions."""
    regression, prior, m = case
    positions, share = metropolis(
        regression, prior, start=-1.0, warmup=40, draws=200, rng=np.random.default_rng(11)
    )

    def log_target(log_x):
        return explicit_log_likelihood(np.exp(log_x), m) + float(prior.log_density(log_x))

    rng = np.random.default_rng(11)
    log_x = -1.0
    step = 1.0
    expected = []
    n_accepted = 0
    for i in range(240):
        proposal = log_x + step * rng.standard_normal()
        log_ratio = log_target(proposal) - log_target(log_x)  # the proposal is symmetric
        accepted = rng.standard_exponential() > -log_ratio
        log_x = proposal if accepted else log_x
        if i < 40:
            step *= np.exp((accepted - 0.375) / np.sqrt(1 + i))
        else:
            expected.append(log_x)
            n_accepted += accepted
    np.testing.assert_allclose(positions, expected, rtol=0, atol=1e-10)
    assert share == n_accepted / 200
    assert 40 < n_accepted < 160


def test_sharp_posterior_of_many_rows_is_resolved():
    """300 coefficients are known almost exactly.

    log(s2 x) is then known to sqrt(2 / 300) and log s2 to sqrt(2 / 600).
    """
    rng = np.random.default_rng(4)
    x = rng.normal(size=(900, 300))
    z = x @ (0.5 * rng.normal(size=300)) + 0.01 * rng.normal(size=900)
    regression = spectral_regression(reduce_regression(x, z), prior=NoisePrior(1e-3, 1e-9))
    exact = integrate_global_scale(
        regression, source_distance(np.full(300, 1e3), lam=1e-4, median_x=1), centre=-7.0
    )
    assert sd_log_x(exact) == pytest.approx(np.sqrt(2 / 300 + 2 / 600), rel=0.02)
    assert exact.weights.max() < 0.05


def test_responses_without_spread_keep_x_at_its_prior_or_below():
    problem = reduce_regression(X, np.full(12, 3.0), source_covariance=S1)
    exact = integrate_global_scale(
        spectral_regression(problem), source_distance(np.ones(4), lam=0.7, median_x=1), centre=0.0
    )
    delta, sigma2, _ = exact.draw(50, np.random.default_rng(5))
    assert (
        np.isfinite(delta).all() and (sigma2 > 0).all() and np.abs(moments(exact)[0]).max() < 1e-12
    )


@pytest.mark.parametrize("n", [12, 6])
def test_penalty_has_the_least_generalised_cross_validation_of_the_hat_matrix(n):
    x, z, _ = make_regression(n, 8, seed=5)
    penalty = least_cross_validation(spectral_regression(reduce_regression(x, z)))

    def score(penalty):
        wide = x - x.mean(0)
        hat = wide @ np.linalg.solve(wide.T @ wide + penalty * np.eye(8), wide.T) + 1.0 / n
        residual = z - hat @ z
        return (
            n * residual @ residual / (n - np.trace(hat)) ** 2,
            np.trace(hat),
            residual @ residual,
        )

    least_score, degrees, misfit = score(1 / penalty.x)
    assert all(
        least_score <= score(factor / penalty.x)[0] * (1 + 1e-9) for factor in (0.3, 0.7, 1.5, 3.0)
    )
    assert penalty.degrees == pytest.approx(degrees, rel=1e-6)
    assert penalty.variance == pytest.approx(misfit / (n - degrees), rel=1e-6)

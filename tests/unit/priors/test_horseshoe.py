"""The horseshoe's marginal density and the local scales given a coefficient, against quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

from bandgap.priors.horseshoe import draw_local_variances, log_marginal, log_prior_log_tau
from tests.unit.inference.last_layer.regressions import rank

FALSE_ALARM = 1e-4  # of each test of a distribution; the seeds are fixed


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.3, 1.0, 4.0, 30.0])
def test_marginal_is_the_mixture_over_half_cauchy_scales(delta):
    """The density at s = tau = 1: the integral of N(delta; 0, lambda^2) over log lambda, law sech(t) / pi."""

    def mixture(t):
        return (
            np.exp(-0.5 * (delta * np.exp(-t)) ** 2 - t) / np.sqrt(2 * np.pi) / np.cosh(t) / np.pi
        )

    expected, _ = integrate.quad(
        mixture, -25.0, 40.0, limit=400, epsabs=0, epsrel=1e-11, points=[np.log(delta)]
    )
    found = np.exp(log_marginal(np.array([np.log(delta**2 / 2)]))[0]) / np.sqrt(2 * np.pi**3)
    assert found == pytest.approx(expected, rel=1e-7)


def test_marginal_meets_its_limits_at_both_ends_without_a_step():
    """For small m it is log(-log m - Euler's constant), for large m -log m."""
    log_m = np.array([-690.0, -40.0 - 1e-9, -40.0 + 1e-9, 40.0 - 1e-9, 40.0 + 1e-9, 690.0])
    expected = np.concatenate([np.log(-log_m[:3] - np.euler_gamma), -log_m[3:]])
    np.testing.assert_allclose(log_marginal(log_m), expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("m", [1e-12, 1e-3, 0.4, 0.999, 1.001, 20.0, 1e9])
def test_local_scales_follow_their_density(m):
    """r = log(1 + 1 / lambda^2) has the density exp(-m (exp(r) - 1)); its distribution function by quadrature."""
    draws = np.log1p(1.0 / draw_local_variances(np.full(4000, m), np.random.default_rng(7)))
    grid = np.linspace(0.0, np.log1p(40.0 / m), 20_001)
    assert stats.kstest(rank(draws, grid, -m * np.expm1(grid)), "uniform").pvalue > FALSE_ALARM


def test_local_scales_of_a_draw_from_the_prior_are_half_cauchy():
    """delta drawn from N(0, lambda^2) with lambda half-Cauchy, then lambda given delta: half-Cauchy again."""
    rng = np.random.default_rng(8)
    delta = np.abs(rng.standard_cauchy(20_000)) * rng.standard_normal(20_000)
    local = draw_local_variances(np.maximum(delta**2 / 2, 1e-300), rng)
    assert stats.kstest(np.sqrt(local), stats.halfcauchy.cdf).pvalue > FALSE_ALARM


def test_local_scales_of_extreme_coefficients_are_numbers():
    m = np.array([1e-300, 1e-250, 1e250, 1e300])
    local = draw_local_variances(m, np.random.default_rng(9))
    assert (local > 0).all() and np.isfinite(local).all()


def test_log_tau_has_the_density_of_a_half_cauchy_scale():
    grid = np.array([-300.0, -3.0, 0.0, 0.7, 300.0])
    found = np.array([log_prior_log_tau(t) for t in grid])
    expected = stats.halfcauchy.logpdf(np.exp(grid)) + grid - np.log(2 / np.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-12)

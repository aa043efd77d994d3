"""The horseshoe's marginal density and the local scales given a coefficient, against quadrature."""

import numpy as np
import pytest
from scipy import integrate, stats

from bandgap.priors.horseshoe import (
    draw_global_scale,
    draw_local_variances,
    log_marginal,
    log_prior_log_tau,
    truncated_log_range,
)

FALSE_ALARM = 1e-4  # of each test of a distribution; the seeds are fixed


@pytest.mark.parametrize("delta", [1e-6, 0.01, 0.3, 1.0, 4.0, 30.0])
def test_marginal_is_the_mixture_over_half_cauchy_scales(delta):
    """The density at s = tau = 1.

    It is the integral of N(delta; 0, lambda^2) over t = log lambda, of density sech(t) / pi.
    """

    def mixture(t):
        return (
            np.exp(-0.5 * (delta * np.exp(-t)) ** 2 - t) / np.sqrt(2 * np.pi) / np.cosh(t) / np.pi
        )

    expected, _ = integrate.quad(
        mixture, -25.0, 40.0, limit=400, epsabs=0, epsrel=1e-11, points=[np.log(delta)]
    )
    density = np.exp(log_marginal(np.array([np.log(delta**2 / 2)]))[0]) / np.sqrt(2 * np.pi**3)
    assert density == pytest.approx(expected, rel=1e-7)


def test_marginal_meets_its_limits_at_both_ends_without_a_step():
    """For small m it is log(-log m - Euler's constant), for large m -log m."""
    log_m = np.array([-690.0, -40.0 - 1e-9, -40.0 + 1e-9, 40.0 - 1e-9, 40.0 + 1e-9, 690.0])
    expected = np.concatenate([np.log(-log_m[:3] - np.euler_gamma), -log_m[3:]])
    np.testing.assert_allclose(log_marginal(log_m), expected, rtol=0, atol=1e-8)


def envelope_of_local_scales(m):
    """Log density of r = log(1 + 1 / lambda^2), log envelope, and the envelope's two parts.

    The envelope is 1 up to `bend`, then the tangent of the log density there, or at 0.
    """
    bend = max(0.0, -np.log(m))
    height = -m * np.expm1(bend)
    slope = m * np.exp(bend)

    def log_density(r):
        return -m * np.expm1(r)

    def log_envelope(r):
        return np.where(r < bend, 0.0, height - slope * (r - bend))

    return log_density, log_envelope, bend, np.exp(height) / slope


@pytest.mark.parametrize("m", [1e-12, 1e-3, 0.4, 0.999, 1.001, 20.0, 1e9])
def test_local_scales_are_accepted_by_the_exact_ratio_of_density_and_envelope(m):
    """The first proposals, by inversion of the envelope, and which of them are accepted."""
    n = 2000
    log_density, log_envelope, bend, tail_mass = envelope_of_local_scales(m)
    grid = np.linspace(0.0, bend + 20.0 / (m * np.exp(bend)), 20_001)
    assert (log_density(grid) <= log_envelope(grid) + 1e-9).all()

    rng = np.random.default_rng(10)
    below = rng.random(n) * (bend + tail_mass)
    tails, waiting = rng.standard_exponential((2, n))
    proposals = np.where(below < bend, below, bend + tails / (m * np.exp(bend)))
    log_ratio = log_density(proposals) - log_envelope(proposals)
    accepted = waiting >= -log_ratio

    draws = np.log1p(1.0 / draw_local_variances(np.full(n, m), np.random.default_rng(10)))
    np.testing.assert_allclose(draws[accepted], proposals[accepted], rtol=1e-9)
    assert not np.isclose(draws[~accepted], proposals[~accepted], rtol=1e-9).any()
    assert accepted.mean() > 0.55


def test_local_scales_of_extreme_coefficients_are_numbers():
    m = np.array([1e-300, 1e-250, 1e250, 1e300])
    local = draw_local_variances(m, np.random.default_rng(9))
    assert (local > 0).all() and np.isfinite(local).all()


def test_log_tau_has_the_density_of_a_half_cauchy_scale():
    grid = np.array([-300.0, -3.0, 0.0, 0.7, 300.0])
    values = np.array([log_prior_log_tau(t) for t in grid])
    expected = stats.halfcauchy.logpdf(np.exp(grid)) + grid - np.log(2 / np.pi)
    np.testing.assert_allclose(values, expected, rtol=1e-12)


def test_global_scales_are_the_half_cauchy_quantiles_of_uniform_numbers():
    tau = draw_global_scale(100, np.random.default_rng(14))
    uniform = np.random.default_rng(14).random(100)
    np.testing.assert_allclose(stats.halfcauchy.cdf(tau), uniform, rtol=1e-12)


def test_truncated_global_scales_are_the_half_cauchy_between_one_over_p_and_one():
    log_range = truncated_log_range(20)
    tau = draw_global_scale(4000, np.random.default_rng(15), log_range=log_range)
    assert tau.min() >= 1 / 20 and tau.max() <= 1.0
    below, above = stats.halfcauchy.cdf([1 / 20, 1.0])
    uniform = (stats.halfcauchy.cdf(tau) - below) / (above - below)
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM


def test_truncated_log_tau_has_no_density_outside_its_range():
    grid = np.array([-4.0, -3.0, -1.0, 0.0, 1e-9])
    values = log_prior_log_tau(grid, log_range=(-3.0, 0.0))
    assert np.isneginf(values[[0, 4]]).all()
    np.testing.assert_array_equal(values[1:4], log_prior_log_tau(grid[1:4]))

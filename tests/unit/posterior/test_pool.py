"""A pool of posteriors: its mean and variance in closed form, its round trip, one member, and rows
left out.
"""

import numpy as np
import pytest

from bandgap.inference.gaussian_process.product_kernel import (
    INTERCEPT_VARIANCE,
    JITTER,
    covariance,
    prior_of,
)
from bandgap.posterior import PartsGPPosterior, PooledPosterior
from bandgap.posterior.pool import COMPONENTS, DRAWS
from bandgap.posterior.protocol import Diagnostics
from bandgap.transfer import TargetData
from bandgap.transfer.kernel_ridge import KernelRidgeConfig, fit
from bandgap.transfer.shared.method import Fitting

ONE_CHOICE = KernelRidgeConfig(folds=5, lengths=(2.0,), penalties=(0.1,))
NEW = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)


@pytest.fixture
def members():
    """A process with draws of its scales near their prior, and kernel ridge, of the
    same 40 rows.
    """
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 5)).astype(np.float32)
    y = np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=40)
    process = PartsGPPosterior.before_draws(x, y, parts=[slice(0, 2), slice(2, 5)], seed=0)
    mean, _ = prior_of(2)
    process = process.with_draws(mean + 0.2 * rng.normal(size=(8, mean.size)), Diagnostics())
    return process, fit(None, TargetData(x, y), ONE_CHOICE, Fitting(0))


def pool_of(members, weights, spread=1.0):
    return PooledPosterior(tuple(members), ("parts_gp", "kernel_ridge"), np.array(weights), spread)


@pytest.mark.parametrize("spread", [0.9, 1.0, 1.1])
def test_mean_and_variance_are_those_of_the_weighted_members(members, spread):
    weights = [0.35, 0.65]
    draws = pool_of(members, weights, spread).predictive_draws(NEW)
    assert draws.centres_eV.shape == draws.sds_eV.shape == (COMPONENTS, len(NEW))
    assert draws.means_eV.shape == (1, DRAWS, len(NEW))
    means = []
    squares = []
    for m in members:
        member_draws = m.predictive_draws(NEW)
        mean = member_draws.centres_eV.mean(axis=0)
        sds = member_draws.sds_eV if member_draws.sds_eV.ndim == 2 else member_draws.sds_eV[:, None]
        means.append(mean)
        squares.append(
            mean**2 + spread**2 * (sds**2 + (member_draws.centres_eV - mean) ** 2).mean(axis=0)
        )
    mean = weights @ np.array(means)
    sd = np.sqrt(weights @ np.array(squares) - mean**2)
    got = draws.centres_eV.mean(axis=0)
    np.testing.assert_allclose(got, mean, atol=0.02 * sd.mean())
    np.testing.assert_allclose(
        np.sqrt((draws.sds_eV**2 + draws.centres_eV**2).mean(axis=0) - got**2), sd, rtol=0.02
    )
    expected = weights @ np.array([m.mean_draws_eV(NEW)[0].mean(axis=0) for m in members])
    np.testing.assert_allclose(draws.means_eV[0].mean(axis=0), expected, rtol=1e-9)


def test_left_out_density_is_that_of_a_fit_without_the_row(members):
    """Every row in turn: conditional mean and variance of a joint normal of all others, by a solve
    of its own.
    """
    process = members[0]
    problem = process.problem
    theta = process.theta[0]
    means, variances = problem.left_out(theta)
    k = covariance(theta, problem.squares) + (np.exp(2 * theta[-1]) + JITTER) * np.eye(
        problem.y.size
    )
    assert covariance(theta, problem.squares)[0, 0] == pytest.approx(
        INTERCEPT_VARIANCE + np.exp(2 * theta[0])
    )
    for i in range(problem.y.size):
        other_rows = np.arange(problem.y.size) != i
        weights = np.linalg.solve(k[np.ix_(other_rows, other_rows)], k[other_rows, i])
        assert means[i] == pytest.approx(weights @ problem.y[other_rows], rel=1e-6, abs=1e-8)
        assert variances[i] == pytest.approx(k[i, i] - weights @ k[other_rows, i], rel=1e-6)

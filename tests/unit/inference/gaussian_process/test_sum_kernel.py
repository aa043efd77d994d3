"""The sum kernel: its density and gradient, and its conditional against the joint normal written
down.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from bandgap.inference.gaussian_process.sum_kernel import Kernels, SumKernelProblem, prior_of

RNG = np.random.default_rng(0)
X = RNG.normal(size=(14, 3))
PHI = RNG.normal(size=(14, 4))
M = RNG.normal(size=14)
Y = RNG.normal(size=9)
THETA = np.array([0.2, -0.3, -0.4, 0.7, 0.1, -1.1])


def kernels(a, b):
    grams = (PHI[a] @ PHI[b].T / 4.0, X[a] @ X[b].T)
    distances = (cdist(X[a], X[b], "cityblock"), np.abs(M[a][:, None] - M[b]))
    return Kernels(grams, distances)


TRAIN = np.arange(9)
NEW = np.arange(9, 14)
PROBLEM = SumKernelProblem(kernels(TRAIN, TRAIN), Y)
PRIOR_MEAN, PRIOR_SD = prior_of(PROBLEM.kernels)


def dense(rows):
    k = kernels(rows, rows)
    near = np.exp(-np.exp(-0.7) * k.distances[0] - np.exp(-0.1) * k.distances[1])
    return 4.0 + np.exp(0.4) * k.grams[0] + np.exp(-0.6) * k.grams[1] + np.exp(-0.8) * near


def test_log_density_is_that_of_the_joint_normal_and_the_priors():
    covariance = dense(TRAIN) + np.exp(-2.2) * np.eye(9)
    expected = stats.multivariate_normal(np.zeros(9), covariance).logpdf(Y)
    expected += stats.norm(PRIOR_MEAN, PRIOR_SD).logpdf(THETA).sum()
    at_mean = stats.multivariate_normal(np.zeros(9), covariance_at(PRIOR_MEAN)).logpdf(Y)
    at_mean += stats.norm(PRIOR_MEAN, PRIOR_SD).logpdf(PRIOR_MEAN).sum()
    difference = PROBLEM.log_density(THETA)[0] - PROBLEM.log_density(PRIOR_MEAN)[0]
    assert difference == pytest.approx(expected - at_mean, abs=1e-6)


def covariance_at(theta):
    return PROBLEM.kernels.covariance(theta) + np.exp(2 * theta[-1]) * np.eye(9)


@pytest.mark.parametrize("theta", [THETA, PRIOR_MEAN, THETA - 1.0], ids=["a", "prior", "small"])
def test_gradient_is_that_of_finite_differences(theta):
    gradient = PROBLEM.log_density(theta)[1]
    e = 1e-5
    for i in range(6):
        move = e * np.eye(6)[i]
        slope = (PROBLEM.log_density(theta + move)[0] - PROBLEM.log_density(theta - move)[0]) / (
            2 * e
        )
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_conditional_is_that_of_the_joint_normal():
    both = dense(np.arange(14))
    k = both[:9, :9] + np.exp(-2.2) * np.eye(9)
    c = both[9:, :9]
    prior = both[9:, 9:]
    mean, variance = PROBLEM.conditional(THETA, kernels(NEW, TRAIN), np.diag(prior))
    np.testing.assert_allclose(mean, c @ np.linalg.solve(k, Y), atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(prior - c @ np.linalg.solve(k, c.T)), atol=1e-6)


def test_covariance_without_a_factor_has_no_density():
    broken = SumKernelProblem(Kernels((-100.0 * np.eye(3),), (np.zeros((3, 3)),)), np.ones(3))
    at = prior_of(broken.kernels)[0]
    assert broken.log_density(at)[0] == broken.log_value(at) == -np.inf

"""The product kernel: its density and gradient, and its conditional against the joint normal
written down.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist
from sklearn.gaussian_process.kernels import Matern

from bandgap.inference.gaussian_process.product_kernel import ProductKernelProblem, prior_of

RNG = np.random.default_rng(0)
FIRST = RNG.normal(size=(14, 3))
SECOND = RNG.normal(size=(14, 2))
Y = RNG.normal(size=9)
THETA = np.array([0.2, 0.4, -0.3, -1.1])


def squares(a, b):
    return tuple(cdist(x[a], x[b], "sqeuclidean") for x in (FIRST, SECOND))


TRAIN = np.arange(9)
NEW = np.arange(9, 14)
PROBLEM = ProductKernelProblem(squares(TRAIN, TRAIN), Y)
PRIOR_MEAN, PRIOR_SD = prior_of(2)


def dense(rows, theta=THETA):
    """scikit-learn's Matern kernel with a length for every feature, those of a part being one."""
    lengths = np.exp(np.repeat(theta[1:3], [3, 2]))
    return 4.0 + np.exp(2 * theta[0]) * Matern(lengths, nu=1.5)(np.hstack([FIRST, SECOND])[rows])


def log_joint(theta):
    covariance = dense(TRAIN, theta) + np.exp(2 * theta[-1]) * np.eye(9)
    prior = stats.norm(PRIOR_MEAN, PRIOR_SD).logpdf(theta).sum()
    return stats.multivariate_normal(np.zeros(9), covariance).logpdf(Y) + prior


def test_log_density_is_that_of_the_joint_normal_and_the_priors():
    difference = PROBLEM.log_density(THETA)[0] - PROBLEM.log_density(PRIOR_MEAN)[0]
    assert difference == pytest.approx(log_joint(THETA) - log_joint(PRIOR_MEAN), abs=1e-6)


@pytest.mark.parametrize("theta", [THETA, PRIOR_MEAN, THETA - 1.0], ids=["a", "prior", "small"])
def test_gradient_is_that_of_finite_differences(theta):
    gradient = PROBLEM.log_density(theta)[1]
    e = 1e-5
    for i in range(4):
        move = e * np.eye(4)[i]
        slope = (PROBLEM.log_density(theta + move)[0] - PROBLEM.log_density(theta - move)[0]) / (
            2 * e
        )
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_conditional_is_that_of_the_joint_normal():
    both = dense(np.arange(14))
    k = both[:9, :9] + np.exp(-2.2) * np.eye(9)
    c = both[9:, :9]
    prior = both[9:, 9:]
    mean, variance = PROBLEM.conditional(THETA, squares(NEW, TRAIN))
    np.testing.assert_allclose(mean, c @ np.linalg.solve(k, Y), atol=1e-6)
    np.testing.assert_allclose(variance, np.diag(prior - c @ np.linalg.solve(k, c.T)), atol=1e-6)


def test_covariance_without_a_factor_has_no_density():
    # No distances: two are far, a third near both.
    far = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1e4], [0.0, 1e4, 0.0]])
    broken = ProductKernelProblem((far,), np.ones(3))
    at = np.array([1.0, 1.0, -9.0])
    assert broken.log_density(at)[0] == broken.log_value(at) == -np.inf

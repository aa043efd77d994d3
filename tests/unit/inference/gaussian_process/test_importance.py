"""Importance draws about one mode, against densities whose moments are known."""

import numpy as np
from scipy.stats import multivariate_t

from bandgap.inference.gaussian_process.importance import FREEDOM, _StudentT, importance_draws

COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 0.5, -0.1], [0.0, -0.1, 0.1]])
MEAN = np.array([1.0, -2.0, 0.5])


def gaussian(theta):
    precision = np.linalg.inv(COVARIANCE)
    return float(-0.5 * (theta - MEAN) @ precision @ (theta - MEAN)), -precision @ (theta - MEAN)


def skewed(theta):
    """Logarithms of two independent Gamma(3, 1) variables."""
    return float((3.0 * theta - np.exp(theta)).sum()), 3.0 - np.exp(theta)


def test_moments_of_a_gaussian():
    draws, info = importance_draws(
        gaussian, np.zeros(3), n_draws=4000, n_proposals=4000, rng=np.random.default_rng(0)
    )
    error = np.sqrt(np.diag(COVARIANCE) / info.ess)
    assert (
        np.abs(draws.mean(0) - MEAN) < 4 * error
    ).all()  # false alarm below 3e-4 for all three together
    np.testing.assert_allclose(np.cov(draws.T), COVARIANCE, atol=0.15)
    np.testing.assert_allclose(info.mode, MEAN, atol=1e-4)
    assert info.k_hat < 0.5 and info.ess > 2000


def test_skewed_density_is_sampled_although_its_mode_is_not_its_mean():
    draws, info = importance_draws(
        skewed, np.zeros(2), n_draws=4000, n_proposals=4000, rng=np.random.default_rng(1)
    )
    g = np.exp(draws)
    np.testing.assert_allclose(info.mode, np.log(3.0), atol=1e-3)
    assert (np.abs(g.mean(0) - 3.0) < 4 * np.sqrt(3.0 / info.ess)).all()
    assert (np.abs(g.var(0) - 3.0) < 0.5).all()  # sd of the variance of 2,000 draws: 0.15


def test_a_density_without_its_gradient_gives_the_same_draws():
    settings = {"n_draws": 50, "n_proposals": 100}
    plain, _ = importance_draws(skewed, np.zeros(2), **settings, rng=np.random.default_rng(3))
    other, _ = importance_draws(
        skewed,
        np.zeros(2),
        **settings,
        log_value=lambda t: skewed(t)[0],
        rng=np.random.default_rng(3),
    )
    np.testing.assert_array_equal(plain, other)


def test_rounds_end_when_the_weights_are_even_enough():
    _, easy = importance_draws(
        gaussian, np.zeros(3), n_draws=50, n_proposals=200, rng=np.random.default_rng(3)
    )
    assert easy.n_proposals == 400 and easy.ess >= 50
    _, hard = importance_draws(
        gaussian, np.zeros(3), n_draws=5000, n_proposals=200, rounds=4, rng=np.random.default_rng(3)
    )
    assert hard.n_proposals == 800 and hard.ess > 1.7 * easy.ess


def test_draws_have_equal_weights_and_repeat_with_the_seed():
    first, again = (
        importance_draws(
            gaussian, np.zeros(3), n_draws=50, n_proposals=200, rng=np.random.default_rng(3)
        )[0]
        for _ in range(2)
    )
    assert first.shape == (50, 3)
    assert (first == again).all()


def test_tail_that_the_proposal_misses_gives_a_large_k():
    """Neal's funnel: no multivariate t covers its neck and its mouth, and the tail of the weights
    shows it.
    """

    def funnel(theta):
        v = theta[0]
        x = theta[1:]
        value = -(v**2) / 18.0 - 0.5 * x.size * v - 0.5 * np.exp(-v) * (x @ x)
        return float(value), np.concatenate(
            [[-v / 9.0 - 0.5 * x.size + 0.5 * np.exp(-v) * (x @ x)], -np.exp(-v) * x]
        )

    _, info = importance_draws(
        funnel, np.zeros(10), n_draws=50, n_proposals=2000, rng=np.random.default_rng(0)
    )
    assert info.k_hat > 0.7


def test_density_of_proposals_is_that_of_the_multivariate_t_distribution_up_to_one_constant():
    """Proposals of several rounds are mixed, so that the constant must not depend on centre or
    scale.
    """
    rng = np.random.default_rng(0)
    constants = []
    for scale in (1.0, 0.3):
        factor = scale * np.linalg.cholesky(COVARIANCE)
        points = MEAN + 2.0 * rng.normal(size=(20, 3))
        expected = multivariate_t(MEAN, factor @ factor.T, df=FREEDOM).logpdf(points)
        constants.append(_StudentT(MEAN, factor).log_density(points) - expected)
    np.testing.assert_allclose(constants, constants[0][0], rtol=1e-10)

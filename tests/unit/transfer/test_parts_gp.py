"""The Gaussian process on blocks: quadrature, uninformative blocks, new elements, storage."""

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from bandgap.descriptors.config import n_features
from bandgap.transfer import TargetData
from bandgap.transfer.parts_gp import PartsGPConfig, fit
from bandgap.transfer.shared.method import Fitting

BRIEF = PartsGPConfig(draws=8, proposals=50, rounds=2)
NEW = np.random.default_rng(5).normal(size=(30, 5)).astype(np.float32)


@pytest.fixture
def posterior(source_of, target):
    return fit(source_of(), target, BRIEF, Fitting(0))


def test_mean_and_sd_are_those_of_quadrature_over_the_scales(source_of):
    """One block, so three scales: a grid of 15 points in each against 4,000 draws."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(12, 5)).astype(np.float32)
    x[:, 3:] = 0.0  # the second term of the descriptor
    y = 2.0 + np.sin(x[:, 0]) + 0.2 * rng.normal(size=12)
    config = PartsGPConfig(draws=4000, proposals=2000, rounds=4)
    source = source_of()
    fitted = fit(source, TargetData(x, y), config, Fitting(0))
    assert len(fitted.ends) == 1
    train_rows = fitted.rows.scaled()
    far = fitted.rows.scaled(NEW[:4])
    typical = np.median(cdist(train_rows, train_rows)[np.triu_indices(12, 1)])
    z = (y - y.mean()) / y.std()
    weights = []
    means = []
    squares = []
    for theta in itertools.product(
        *(m + s * np.linspace(-4, 4, 15) for m, s in ((0, 1), (1, 1), (-1.2, 0.7)))
    ):
        a, length, noise = np.exp(theta)
        near, cross = (
            4.0 + a**2 * (1 + r) * np.exp(-r)
            for r in (
                np.sqrt(3) / (typical * length) * cdist(u, train_rows) for u in (train_rows, far)
            )
        )
        k = near + (noise**2 + 1e-8) * np.eye(12)
        prior = stats.norm([0, 1, -1.2], [1, 1, 0.7]).logpdf(theta).sum()
        weights.append(stats.multivariate_normal(np.zeros(12), k).logpdf(z) + prior)
        inside = np.linalg.solve(k, cross.T)
        means.append(inside.T @ z)
        squares.append(4.0 + a**2 + noise**2 - np.sum(cross.T * inside, axis=0) + means[-1] ** 2)
    share = np.exp(np.array(weights) - max(weights))
    share /= share.sum()
    mean = share @ np.array(means)
    sd = np.sqrt(share @ np.array(squares) - mean**2)
    draws = fitted.predictive_draws(NEW[:4])
    centres = (draws.centres_eV - y.mean()) / y.std()
    np.testing.assert_allclose(centres.mean(axis=0), mean, atol=0.03)
    spread = np.sqrt(
        (draws.sds_eV**2 / y.var() + centres**2).mean(axis=0) - centres.mean(axis=0) ** 2
    )
    np.testing.assert_allclose(spread, sd, rtol=0.05)


def test_parts_are_the_descriptor_blocks_and_additional_features(source_of):
    source = source_of()
    n = n_features(source.descriptor)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20, n + 3)).astype(np.float32)
    data = TargetData(x, rng.normal(size=20))
    assert fit(source, data, BRIEF, Fitting(0)).ends.tolist()[-2:] == [n, n + 3]
    x[:, n:] = 1.0  # does not vary: no part
    assert fit(source, data, BRIEF, Fitting(0)).ends.tolist()[-1] == n


def test_far_from_the_training_rows_the_prior_remains(posterior):
    draws = posterior.predictive_draws(NEW + 1e4)
    expected = np.exp(2 * posterior.theta[:, 0]) + 4.0 + np.exp(2 * posterior.theta[:, -1])
    assert (
        draws.sds_eV**2 < posterior.y_sd_eV**2 * expected[:, None]
    ).all()  # the intercept is learned
    assert (draws.sds_eV**2 > posterior.y_sd_eV**2 * (expected[:, None] - 4.0)).all()


def test_draws_of_the_mean_have_mean_and_spread_of_the_mixture(posterior):
    draws = posterior.mean_draws_eV(NEW)[0]
    mixture = posterior.predictive_draws(NEW)
    np.testing.assert_allclose(
        draws.mean(axis=0), mixture.centres_eV.mean(axis=0), atol=0.05 * posterior.y_sd_eV
    )
    noise = posterior.summaries()["sigma_eV"][0]
    latent = np.sqrt(
        (mixture.sds_eV**2 - noise[:, None] ** 2 + mixture.centres_eV**2).mean(0)
        - mixture.centres_eV.mean(0) ** 2
    )
    np.testing.assert_allclose(draws.std(axis=0), latent, rtol=0.15)


def test_log_densities_left_out_are_near_those_of_refits(source_of, target):
    """Reweighted draws of the scales against refits: the mean log density to 0.05."""
    config = PartsGPConfig(draws=64, proposals=200, rounds=4)
    fit_of_all = fit(source_of(), target, config, Fitting(0))
    log_densities = fit_of_all.left_out_log_densities(np.array([1.0]))[:, 0]
    expected = []
    for i in range(0, 40, 5):
        other_rows = np.arange(40) != i
        refit = fit(
            source_of(),
            TargetData(target.features[other_rows], target.gaps_eV[other_rows]),
            config,
            Fitting(1),
        )
        draws = refit.predictive_draws(target.features[i : i + 1])
        expected.append(
            np.log(
                stats.norm.pdf(target.gaps_eV[i], draws.centres_eV[:, 0], draws.sds_eV[:, 0]).mean()
            )
        )
    np.testing.assert_allclose(log_densities[::5].mean(), np.mean(expected), atol=0.05)
    np.testing.assert_allclose(log_densities[::5], expected, atol=0.35)

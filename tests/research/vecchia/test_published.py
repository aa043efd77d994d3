"""SGRLD as published: its drift and a step against formulas written out with dense matrices, its
schedule, its law.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch

from bandgap.inference.divergence import DivergedError
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.drift import drift, metric_slopes
from bandgap.research.vecchia.published import PublishedConfig, published_step, sample_published
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from tests.research.vecchia.samples import (
    START,
    THETA,
    TRUTH,
    blocks_of,
    by_differences,
    log_slope,
    slopes_by_differences,
)

CPU = torch.device("cpu")
FREE = [0, 1, 2, 3]
FIXED = [0, 1, 3]


@pytest.mark.parametrize(
    ("nu", "places"),
    [(0.5, FIXED), (1.5, FIXED), (2.5, FIXED), (1.7, FIXED), (0.5, FREE), (1.3, FREE)],
    ids=["exponential", "nu 1.5", "nu 2.5", "integral", "free nu at 0.5", "free nu at 1.3"],
)
@pytest.mark.parametrize("index", [None, np.arange(3, 60, 2)], ids=["all sites", "a batch"])
def test_drift_equals_differences_of_the_inverse_metric(nu, places, index):
    """Gamma_i = sum_j d(F^-1)_ij / d eta_j, and dF / d eta_k, by differences of the eighth order of
    the compiled F.

    What is left is rounding: F^-1 loses as many digits as its condition number has, 200 to 40,000
    here.
    """
    theta = THETA._replace(nu=nu)
    blocks = blocks_of(60, 2, theta, m=6)

    def fisher(at):
        return blocks.terms(index, at, np.zeros(2), free_nu=len(places) == 4).fisher_log_theta[
            np.ix_(places, places)
        ]

    slopes = metric_slopes(BatchedSites(blocks, CPU), index, theta, free_nu=len(places) == 4)
    expected = np.stack([log_slope(fisher, theta, j) for j in places], axis=-1)
    np.testing.assert_allclose(slopes, expected, rtol=1e-9, atol=1e-10 * np.abs(expected).max())
    gamma = sum(
        log_slope(lambda at: np.linalg.inv(fisher(at)), theta, j)[:, i]
        for i, j in enumerate(places)
    )
    np.testing.assert_allclose(
        drift(fisher(theta), slopes), gamma, rtol=1e-8, atol=1e-8 * np.abs(gamma).max()
    )


@pytest.mark.parametrize(
    ("nu", "index"),
    [
        pytest.param(None, None, id="free nu, all sites"),
        pytest.param(0.5, np.arange(1, 12, 3), id="fixed nu, a batch"),
        pytest.param(0.5, None, id="fixed nu, all sites", marks=pytest.mark.slow),
        pytest.param(None, np.arange(1, 12, 3), id="free nu, a batch", marks=pytest.mark.slow),
    ],
)
def test_step_is_the_formula_with_dense_matrices(nu, index):
    """Steps from one state by other random numbers: where they end less h [F^-1 g + Gamma], g at
    the new beta.

    What is left is sqrt(2 h) S z. S S' = F^-1 whatever the root where all products e_i' F e_j are 2
    h z_i' z_j.
    """
    h = 0.03
    theta = THETA._replace(nu=nu or 1.3)
    beta = np.array([0.5, -0.2])
    target = Target(blocks_of(12, 2, theta, m=4), nu=nu if nu is None else theta.nu)
    blocks = target.sites
    eta = target.eta(theta)
    places = target.free
    sites = range(12) if index is None else index
    share = 1.0 if index is None else 12 / len(index)

    def dense_fisher(at):
        return share * slopes_by_differences(blocks, at, beta, sites)[1][np.ix_(places, places)]

    *_, p3, p4 = by_differences(blocks, theta, beta, sites)
    fisher = dense_fisher(theta)
    beta_mean = beta + h * np.linalg.solve(p4, p3 - p4 @ beta)
    gamma = sum(
        log_slope(lambda at: np.linalg.inv(dense_fisher(at)), theta, j)[:, i]
        for i, j in enumerate(places)
    )
    eta_errors = []
    beta_errors = []
    drawn = []
    for seed in range(len(eta) + 1):
        moved, moved_beta = published_step(
            BatchedSites(blocks, CPU),
            target,
            eta,
            beta,
            index,
            h=h,
            rng=np.random.default_rng(seed),
        )
        gradient = share * slopes_by_differences(blocks, theta, moved_beta, sites)[0][places]
        pull = gradient + target.prior_gradient(eta)
        eta_errors.append(moved - eta - h * (np.linalg.solve(fisher, pull) + gamma))
        beta_errors.append(moved_beta - beta_mean)
        drawn.append(np.random.default_rng(seed).standard_normal(2 + len(eta)))
    eta_errors = np.array(eta_errors)
    beta_errors = np.array(beta_errors)
    drawn = np.array(drawn)
    for errors, metric, z in (
        (eta_errors, fisher, drawn[:, 2:]),
        (beta_errors, share * p4, drawn[:, :2]),
    ):
        np.testing.assert_allclose(
            errors @ metric @ errors.T, 2 * h * z @ z.T, rtol=1e-6, atol=1e-7
        )


def test_steps_decrease_geometrically_to_the_last_share(target, mode):
    """First step, ratio, and the paths: squared moves in units of 2 h F^-1 have mean 3 in every
    third of a run.

    At steps this short the drift is nothing beside the noise. Four standard errors of 180 moves are
    0.73; with one step for all of the run the means would be 5 to 60 times as large.
    """
    config = PublishedConfig(step=2e-6, last_share=0.01, batch=0, chains=2, steps=360)
    steps = [config.step_at(i) for i in range(361)]
    assert steps[0] == 2e-6 and steps[-1] == pytest.approx(2e-8)
    assert [b / a for a, b in pairwise(steps)] == pytest.approx([0.01 ** (1 / 360)] * 360)
    draws = sample_published(target.sites, target, mode.eta, mode.beta, config, seed=0)
    assert draws.eta.shape == (2, 270, 3)  # a quarter is warm-up
    moves = np.diff(draws.eta, axis=1)
    fisher = target.pull(mode.eta, mode.beta).terms.fisher_log_theta[np.ix_(FIXED, FIXED)]
    sizes = np.einsum("cdi,ij,cdj->cd", moves, fisher, moves) / (2 * np.array(steps[91:360]))
    for third in np.array_split(sizes, 3, axis=1):
        assert abs(third.mean() - 3) < 4 * np.sqrt(6 / third.size)


def test_diverged_chains_end_with_a_warning():
    """Twenty sites: F vanishes with sigma2, where steps in its units go beyond what numbers can
    hold.
    """
    small = Target(blocks_of(20, 2, TRUTH, m=5, covariates=1))
    mode = find_mode(small, small.eta(START))
    config = PublishedConfig(step=0.1, last_share=1.0, batch=0, chains=2, steps=400)
    with pytest.raises(
        DivergedError, match=r"all 2 chains diverged at a step of 0.1. Give a smaller step"
    ):
        sample_published(small.sites, small, mode.eta, mode.beta, config, seed=0)

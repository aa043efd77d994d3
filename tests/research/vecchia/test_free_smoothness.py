"""Smoothness that is sampled with the other parameters: its slopes, and both samplers against
quadrature.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.inference.diagnostics import mean_error
from bandgap.inference.divergence import DivergedError
from bandgap.research.stochastic_gradient.outcomes import RunConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from bandgap.research.vecchia.correlation import MOST_NU
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.first_order import sample_first_order
from bandgap.research.vecchia.langevin import LangevinConfig, sample_langevin
from bandgap.research.vecchia.likelihood import Theta, build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import LogNormal, Priors, Target
from tests.research.vecchia.samples import (
    THETA,
    blocks_of,
    field,
    quadrature_of,
    slopes_by_differences,
)

SMOOTH = Theta(4.0, 1.0, 1.5, 0.3)


@pytest.fixture(scope="module")
def target():
    """A field that is smooth enough to tell its noise from its roughness: the posterior is not far
    from normal.
    """
    return Target(build_blocks(*field(150, 2, SMOOTH, seed=4, covariates=1), m=4), nu=None)


@pytest.fixture(scope="module")
def mode(target):
    return find_mode(target, target.eta(SMOOTH))


@pytest.fixture(scope="module")
def quadrature(target, mode):
    """Four-dimensional; spacings of 1.25 move no mean by more than .002 sd, a grid out to 8.75 sd
    by .011.
    """
    return quadrature_of(target, mode, spacing=1.5, radius=7.5)


@pytest.mark.parametrize("nu", [0.5, 1.3, 2.5])
@pytest.mark.parametrize("index", [None, np.arange(1, 24, 3)], ids=["all sites", "a batch"])
def test_pull_of_the_smoothness_is_that_of_dense_matrices_and_its_prior(nu, index):
    """Gradient and information of likelihood and prior, nu's row among them; scipy's Bessel
    function and its slopes.
    """
    theta = THETA._replace(nu=nu)
    beta = np.array([0.5, -0.2])
    free = Target(blocks_of(24, 2, theta, m=5), nu=None)
    gradient, fisher = slopes_by_differences(
        free.sites, theta, beta, range(24) if index is None else index
    )
    share = 1.0 if index is None else 24 / len(index)
    pull = free.pull(free.eta(theta), beta, index)
    logs = np.log(theta)
    prior = [0.1 - 0.1 * theta.sigma2, 9 - 2 * theta.rho, -(logs[2] - 1), 0.1 - 0.1 * theta.tau2]
    np.testing.assert_allclose(pull.grad_eta, share * gradient + prior, rtol=1e-8, atol=1e-8)
    curvature = np.diag([0.1 * theta.sigma2, 2 * theta.rho, 1.0, 0.1 * theta.tau2])
    np.testing.assert_allclose(pull.precision, share * fisher + curvature, rtol=1e-8, atol=1e-8)


@pytest.fixture(scope="module")
def vague():
    """Few sites and a prior that reaches beyond the smoothness that is computed: both settings and
    the mode.
    """
    points, rows, y = field(16, 2, Theta(2.0, 2.0, 2.5, 0.05), seed=1, covariates=1)
    target = Target(DenseSites(points, rows, y), priors=Priors(nu=LogNormal(4.0, 4.0)), nu=None)
    return target, find_mode(target, target.eta(Theta(1.0, 1.0, 1.0, 1.0)))


def test_proposals_without_a_density_are_rejected(vague):
    draws = sample_metropolis(*vague, MetropolisConfig(chains=2, warmup=100, draws=600), seed=0)
    nu = np.exp(draws.eta[..., 2])
    assert np.isfinite(draws.eta).all() and nu.max() <= MOST_NU and nu.max() > MOST_NU / 2
    assert not np.isfinite(vague[0].theta(np.array([0.0, 0.0, 1e3, 0.0]))).all()
    assert vague[0].terms_if_any(np.array([0.0, 0.0, 1e3, 0.0])) is None


def test_start_of_a_walk_without_a_density_is_the_mode(vague):
    """Of 40 starts as wide as this some are beyond what is computed; their chains begin all the
    same.
    """
    target, mode = vague
    wide = replace(mode, precision=mode.precision * 0.01)
    draws = sample_metropolis(target, wide, MetropolisConfig(chains=40, warmup=0, draws=1), seed=0)
    assert draws.eta.shape[0] == 40 and np.isfinite(draws.eta).all()


@pytest.mark.parametrize("first_order", [False, True])
def test_chains_that_reach_a_point_without_a_density_have_diverged(vague, first_order):
    dense, mode = vague
    sites = dense.sites
    vecchia = replace(dense, sites=build_blocks(sites.points, sites.covariates, sites.y, m=8))
    with pytest.raises(DivergedError, match="chains diverged"):
        if first_order:
            sample_first_order(
                vecchia, mode, SgldConfig(0.3), RunConfig(warmup=0, draws=400), seed=0
            )
        else:
            sample_langevin(vecchia, mode, LangevinConfig(step=0.3, batch=0, draws=400), seed=0)


@pytest.mark.slow
def test_langevin_equals_quadrature(target, mode, quadrature):
    """Means within four standard errors, of about .07 sd; spreads within 20 %."""
    config = LangevinConfig(step=0.05, batch=50, warmup=100, draws=4000, thin=1)
    draws = sample_langevin(target, mode, config, seed=2)
    flat = draws.eta.reshape(-1, 4)
    error = mean_error(draws.eta)
    assert not draws.warnings and (error < 0.12 * quadrature.sd).all()
    assert (np.abs(flat.mean(0) - quadrature.mean) < 4 * error).all()
    assert (np.abs(flat.std(0) / quadrature.sd - 1) < 0.2).all()

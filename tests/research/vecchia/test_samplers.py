"""Scoring and samplers on one field of 150 sites against quadrature over the three
log-parameters.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.optimize import minimize

from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.diagnostics import rhat
from bandgap.inference.divergence import DivergedError
from bandgap.research.vecchia.langevin import (
    LangevinConfig,
    sample_by_smaller_steps,
    sample_langevin,
)
from bandgap.research.vecchia.likelihood import build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.stochastic_scoring import ScoringConfig, score_by_batches
from bandgap.research.vecchia.target import FLAT, Flat, Gamma, LogNormal, Target
from tests.research.vecchia.samples import START, TRUTH, field


def ratios(draws, quadrature):
    flat = draws.eta.reshape(-1, 3)
    return (flat.mean(0) - quadrature.mean) / quadrature.sd, flat.std(0) / quadrature.sd


@pytest.mark.parametrize("priors", [Target.priors, FLAT], ids=["priors", "maximum likelihood"])
def test_scoring_finds_the_mode_of_a_general_search_in_few_steps(target, priors):
    with_priors = replace(target, priors=priors)
    mode = find_mode(with_priors, with_priors.eta(START))
    assert mode.converged and mode.iterations < 15
    assert np.abs(mode.gradient).max() < 1e-4

    def negative(eta):
        beta = with_priors.terms(eta, mode.beta, derivatives=False).beta_hat
        pull = with_priors.pull(eta, beta)
        return -pull.value, -pull.grad_eta

    plain = minimize(
        negative,
        with_priors.eta(START),
        jac=True,
        method="L-BFGS-B",
        options={"ftol": 1e-15, "gtol": 1e-7},
    )
    np.testing.assert_allclose(mode.eta, plain.x, atol=1e-5)
    assert mode.value == pytest.approx(-plain.fun, rel=1e-10)


def test_scoring_by_batches_ends_near_the_maximum():
    target = Target(build_blocks(*field(900, 2, TRUTH, seed=4, covariates=1), m=6), priors=FLAT)
    best = find_mode(target, target.eta(START))
    sd = np.sqrt(np.diag(np.linalg.inv(best.precision)))
    config = ScoringConfig(step=0.1, batch=150, epochs=60)
    eta, beta, epochs = score_by_batches(target, target.eta(START), np.zeros(1), config, seed=0)
    assert 1 < epochs < 60
    assert (np.abs(eta - best.eta) < sd).all()
    assert abs(beta - best.beta) * np.sqrt(best.precision_beta[0, 0]) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("independent", "moves"),
    [(False, (0.2, 0.45)), (True, (0.4, 0.7))],
    ids=["walk", "walk and independent"],
)
def test_metropolis_equals_quadrature(target, mode, quadrature, independent, moves):
    config = MetropolisConfig(chains=4, warmup=200, draws=4000, independent=independent)
    draws = sample_metropolis(target, mode, config, seed=1)
    bias, spread = ratios(draws, quadrature)
    assert moves[0] < draws.figures["acceptance"] < moves[1]
    assert np.abs(bias).max() < 0.1 and spread.min() > 0.95 and spread.max() < 1.05
    assert rhat(draws.eta).max() < 1.02


@pytest.mark.slow
@pytest.mark.parametrize("batch", [0, 30], ids=["all sites", "batches with control variates"])
def test_langevin_equals_quadrature(target, mode, quadrature, batch):
    config = LangevinConfig(step=0.05, batch=batch, warmup=100, draws=3000, thin=3)
    draws = sample_langevin(target, mode, config, seed=2)
    bias, spread = ratios(draws, quadrature)
    assert np.abs(bias).max() < 0.15 and spread.min() > 0.88 and spread.max() < 1.12
    assert not draws.warnings


@dataclass(frozen=True, eq=False)
class Unscaled:
    """Sites whose batches are scaled by `excess`, and not by n / batch."""

    sites: object
    excess: float

    @property
    def n(self):
        return self.sites.n

    @property
    def p(self):
        return self.sites.p

    def terms(self, index, theta, beta, **more):
        terms = self.sites.terms(index, theta, beta, **more)
        share = 1.0 if index is None else self.excess * len(index) / self.n
        names = (
            "loglik",
            "grad_beta",
            "grad_log_theta",
            "fisher_log_theta",
            "p1",
            "p2",
            "p3",
            "p4",
        )
        return replace(terms, **{name: share * getattr(terms, name) for name in names})


@pytest.mark.parametrize(
    "prior", [Flat(), Gamma(9.0, 2.0), LogNormal(1.0, 0.7)], ids=["flat", "gamma", "log-normal"]
)
def test_priors_have_correct_derivatives_and_mass_one(prior):
    for eta in (-0.7, 0.4, 1.6):
        slope = (prior.value(eta + 1e-4) - prior.value(eta - 1e-4)) / 2e-4
        bend = -(prior.gradient(eta + 1e-4) - prior.gradient(eta - 1e-4)) / 2e-4
        assert prior.gradient(eta) == pytest.approx(slope, abs=1e-6)
        assert prior.curvature(eta) == pytest.approx(bend, abs=1e-6)
    if not isinstance(prior, Flat):
        grid = np.linspace(-12, 8, 20_001)
        assert np.trapezoid([np.exp(prior.value(float(e))) for e in grid], grid) == pytest.approx(
            1.0, abs=1e-6
        )


def test_chains_that_diverge_are_named(target, mode):
    config = LangevinConfig(
        step=1.9, batch=20, control_variates=False, chains=2, warmup=0, draws=200
    )
    with pytest.raises(DivergedError, match="all 2 chains diverged at a step of 1.9"):
        sample_langevin(target, mode, config, seed=0)


def test_diverged_chains_restart_with_smaller_steps(target, mode, tmp_path):
    config = LangevinConfig(
        step=1.9, batch=25, control_variates=False, chains=2, warmup=0, draws=200, thin=1
    )
    with pytest.raises(DivergedError):
        sample_langevin(target, mode, replace(config, step=0.95, batch=50), seed=0)
    checkpoint = Checkpoint(tmp_path / "chains.safetensors")
    draws = sample_by_smaller_steps(target, mode, config, seed=0, checkpoint=checkpoint)
    alone = sample_langevin(target, mode, replace(config, step=0.475, batch=100), seed=0)
    assert (draws.eta == alone.eta).all() and not draws.warnings
    resumed = sample_by_smaller_steps(target, mode, config, seed=0, checkpoint=checkpoint)
    assert (draws.eta == resumed.eta).all()


def test_chains_that_diverge_at_every_step_return_the_mode_with_a_warning(target, mode):
    config = LangevinConfig(
        step=1.9, batch=10, control_variates=False, chains=2, warmup=0, draws=200
    )
    steep = replace(target, sites=Unscaled(target.sites, excess=200.0))
    draws = sample_by_smaller_steps(steep, mode, config, seed=0)
    assert draws.eta.shape == (1, 1, mode.eta.size) and (draws.eta[0, 0] == mode.eta).all()
    assert (draws.precision_beta == mode.precision_beta).all()
    assert draws.warnings == (
        "All chains diverged, down to a step of 0.2375: the scales are fixed at their most "
        "probable values.",
    )

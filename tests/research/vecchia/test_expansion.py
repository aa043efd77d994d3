"""Curvature that is observed, control variates of second order, and a field that is nearly without
a nugget.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.inference.diagnostics import mean_error
from bandgap.research.vecchia.expansion import (
    LEAST_SHARE,
    expand,
    expected_information,
    observed_information,
)
from bandgap.research.vecchia.gp import weak_priors
from bandgap.research.vecchia.langevin import LangevinConfig, sample_langevin
from bandgap.research.vecchia.likelihood import Theta, build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from tests.recorded import SEED, record, recorded
from tests.research.vecchia.samples import field


@pytest.fixture(scope="module")
def bare():
    """A field without noise that is smoother than the process fitted to it: its nugget is driven
    towards 0.

    The features of QM9's molecules give such a posterior.
    """
    truth = Theta(2.0, 3.0, 1.5, 1e-6)
    points, rows, y = field(600, 4, truth, seed=1, covariates=1)
    priors = weak_priors(truth._replace(tau2=0.2))
    target = Target(build_blocks(points, rows, y, m=20), priors, nu=0.5)
    return target, find_mode(target, target.eta(truth._replace(tau2=0.01)), tolerance=1e-4)


def test_observed_information_at_a_small_nugget_is_several_times_the_expected(bare):
    """By differences of the gradient, from all sites at once and site by site; Fisher information
    is far below.
    """
    target, mode = bare
    observed = observed_information(target, mode)
    expansion = expand(target, mode)
    np.testing.assert_allclose(
        observed_information(target, mode, expansion), observed, rtol=1e-5, atol=1e-4
    )
    assert observed[2, 2] > 2 * mode.precision[2, 2]
    step = 0.01
    ends = [
        target.pull(mode.eta + s, mode.beta).value
        for s in (step * np.eye(3)[2], np.zeros(3), -step * np.eye(3)[2])
    ]
    assert observed[2, 2] == pytest.approx(-(ends[0] - 2 * ends[1] + ends[2]) / step**2, rel=0.02)


def test_curvature_of_a_density_that_is_not_concave_has_a_floor(target, mode):
    """At a place far out along the nugget the density is convex there; the metric is positive
    definite all the same.
    """
    eta = mode.eta + np.array([0.0, 0.0, 3.0])
    pull = target.pull(eta, mode.beta)
    away = replace(mode, eta=eta, precision=pull.precision, precision_beta=pull.terms.p4)
    share = np.linalg.eigvals(
        np.linalg.solve(expected_information(away), observed_information(target, away))
    )
    assert share.real.min() >= LEAST_SHARE - 1e-9


def test_second_order_control_variates_remove_most_noise_of_a_batch(target, mode):
    """Mean over all sites, and variance in a step's own units beside that without slopes, near the
    mode.
    """
    expansion = expand(target, mode)
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(np.linalg.inv(observed_information(target, mode)))
    flat = replace(expansion, slopes=0.0 * expansion.slopes)
    spread = {"second": [], "first": []}
    for _ in range(10):
        phi = expansion.centre + 0.5 * root @ rng.standard_normal(4)
        of_all_sites = target.pull(phi[:3], phi[3:])
        exact = np.concatenate([of_all_sites.grad_eta, of_all_sites.grad_beta])
        for name, variates in (("second", expansion), ("first", flat)):
            errors = []
            for start in range(
                0, 150, 10
            ):  # fifteen batches that hold every site once: their mean is exact
                index = np.arange(start, start + 10)
                pull = target.pull(phi[:3], phi[3:], index)
                errors.append(
                    np.concatenate([pull.grad_eta, pull.grad_beta])
                    + variates.correction(phi, index)
                )
            np.testing.assert_allclose(np.mean(errors, axis=0), exact, rtol=1e-9, atol=1e-9)
            spread[name].append(((np.array(errors) - exact) @ root).var(axis=0).sum())
    assert np.median(spread["second"]) < 0.25 * np.median(spread["first"])


@pytest.mark.slow
def test_langevin_and_metropolis_agree_if_the_nugget_is_near_zero(bare):
    """Far from normal: wider than Laplace's approximation by both samplers alike.

    Means within .25 sd, sd within 20 %.

    With steps in units of the Fisher information this diverges, or is several times too wide in the
    nugget.
    """
    target, mode = bare
    draws = sample_langevin(
        target, mode, LangevinConfig(step=0.05, batch=150, warmup=200, draws=4000), seed=2
    )
    flat = draws.eta.reshape(-1, 3)
    slow = recorded("vecchia_without_nugget", mode.eta)
    assert not draws.warnings
    assert (np.abs(flat.mean(0) - slow["mean"]) < 0.25 * slow["sd"]).all()
    assert (np.abs(flat.std(0) / slow["sd"] - 1) < 0.2).all()


@pytest.mark.soak  # two minutes of one core
def test_recorded_moments_are_those_of_metropolis(bare):
    target, mode = bare
    draws = sample_metropolis(target, mode, MetropolisConfig(warmup=500, draws=8000), seed=SEED)
    flat = draws.eta.reshape(-1, 3)
    mean = flat.mean(0)
    sd = flat.std(0)
    record("vecchia_without_nugget", mode.eta, mean=mean, sd=sd)
    reference = recorded("vecchia_without_nugget", mode.eta)
    assert (np.abs(mean - reference["mean"]) < 6 * mean_error(draws.eta)).all()
    assert (np.abs(sd / reference["sd"] - 1) < 0.1).all()

"""Selection among more predictors than rows.

Gradients, the empirical-Bayes step, and a run in the measured ranges.
"""

import math

import numpy as np
import pytest
import torch

from bandgap.research.stochastic_gradient.hamcmc_sa import HamcmcSaConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from benchmarks.studies.many_predictors import (
    GivenInclusion,
    first_inclusion,
    followed,
    made_regression,
    select,
)


@pytest.fixture(scope="module")
def problem():
    return made_regression(seed=1)


def test_problem_has_the_stated_correlations_and_noise():
    many = made_regression(seed=0, n=20_000, p=6)
    expected = 0.8 ** np.abs(np.arange(6)[:, None] - np.arange(6))
    np.testing.assert_allclose(np.corrcoef(many.x.numpy().T), expected, atol=0.03)
    assert float((many.y - many.x @ many.truth).var()) == pytest.approx(3.0, rel=0.05)


def test_gradient_is_that_of_the_log_posterior(problem):
    inclusion = first_inclusion(2, 200)
    beta = torch.randn(
        2, 200, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    ).requires_grad_()
    target = GivenInclusion(problem, inclusion)
    residual = problem.y - beta @ problem.x.T
    density = (
        -0.5 * (residual**2).sum()
        - 0.5 * (inclusion.slab_rate * beta**2).sum()
        - (inclusion.spike_rate * beta.abs()).sum()
    )
    (expected,) = torch.autograd.grad(density, beta)
    at = beta.detach()
    rows = torch.arange(100).expand(2, 100)
    np.testing.assert_allclose(
        target.prior_gradient(at) + target.row_gradient(at, rows), expected, atol=1e-10
    )


def test_empirical_bayes_step_is_the_plain_formulas_and_its_sigma_the_positive_root(problem):
    beta = torch.linspace(-2, 2, 200, dtype=torch.float64)[None]
    rss = torch.tensor([[250.0]]).double()
    updated = followed(first_inclusion(1, 200), beta, rss, n=100, omega=1.0)
    for j in (0, 50, 100, 199):
        b = float(beta[0, j])
        slab = math.log(0.5) - 0.5 * math.log(2 * math.pi * 100) - b * b / 200
        spike = math.log(0.5) - math.log(0.2) - abs(b) / 0.1
        assert float(updated.rho[0, j]) == pytest.approx(
            1 / (1 + math.exp(spike - slab)), rel=1e-12
        )
    s = float(updated.sigma)
    ra = 100 + 200 + 1 + 2
    rb = float((updated.spike_rate * beta.abs()).sum())
    rc = 250 + float((updated.slab_rate * beta**2).sum()) + 1
    assert s > 0 and ra * s * s - rb * s - rc == pytest.approx(0, abs=1e-9 * rc)
    assert float(updated.delta) == pytest.approx(float(updated.rho.sum()) / (1 + 200 + 200 - 2))


@pytest.mark.slow
def test_selection_lands_in_the_measured_ranges_or_better(problem):
    """SGLD with step 1e-3, 20,000 steps.

    |bhat - beta| up to 1.7, the first predictor alone selected. Test errors were measured as 3.6 to
    4.2 where the truth's own are 2.5 to 3.0: up to 1.44 times these.
    """
    selected = select(problem, SgldConfig(1e-3), iterations=20_000, seed=1)
    rho = selected.rho.mean(0)
    assert float((selected.beta.mean(0) - problem.truth).norm()) < 1.7
    assert float(rho[0]) > 0.99 and float(rho[1:].max()) < 0.5
    truth = float((problem.y_test - problem.x_test @ problem.truth).square().mean())
    assert float(selected.test_error.mean()) < 1.44 * truth


def test_chain_that_diverged_is_left_out(problem):
    selected = select(problem, HamcmcSaConfig(0.05), iterations=400, seed=0)
    assert 0 < len(selected.beta) < 4

"""Penalized-complexity transfer against the posterior of the weights by quadrature."""

import dataclasses

import numpy as np
import pytest

from bandgap.transfer.last_layer_pcp import LastLayerPcpConfig, fit, scale_problem
from bandgap.transfer.shared.last_layer_problem import last_layer_problem
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.last_layers import UNCHANGED, P, Q, hidden_of, lookup_source, target_of

CONFIG = LastLayerPcpConfig(**UNCHANGED)
SIGMAS = (
    4.5  # of the largest of about 30 comparisons: a false alarm in 5,000 runs; the seeds are fixed
)
CHANGE = np.linspace(-0.5, 0.5, Q)
SCALES = {"statistics": "source", "gap_scale": "source"}


def direct(problem, structure, x):
    """Mean and standard deviation of f at rows x (n, Q hidden units).

    beta2 ~ N(b, s2 (S1 + x M)), x on a fine grid.
    """
    rows = problem.rows
    z = problem.response
    s1 = problem.covariance
    n = len(z)
    m = np.eye(Q) if structure == "isotropic" else s1
    _, prior = scale_problem(problem, structure=structure, lam=None)
    wide = np.hstack([np.ones((n, 1)), rows])
    new = np.hstack([np.ones((len(x), 1)), (x - problem.mean) / problem.sd])
    u = np.linspace(-25, 12, 1500)
    log_weight = []
    means = []
    variances = []
    for log_x in u:
        precision = np.zeros((Q + 1, Q + 1))
        precision[1:, 1:] = np.linalg.inv(s1 + np.exp(log_x) * m)
        inverse = np.linalg.inv(wide.T @ wide + precision)
        mean = inverse @ wide.T @ z
        rate = 0.1 + 0.5 * (z @ z - mean @ wide.T @ z)
        shape = 0.1 + 0.5 * (n - 1)
        log_det = np.linalg.slogdet(inverse)[1] + np.linalg.slogdet(precision[1:, 1:])[1]
        log_weight.append(0.5 * log_det - shape * np.log(rate))
        means.append(new @ mean)
        variances.append(rate / (shape - 1) * np.einsum("ij,jk,ik->i", new, inverse, new))
    log_weight = np.array(log_weight) + prior.log_density(u)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ np.array(means)
    variance = weight @ (np.array(variances) + (np.array(means) - mean) ** 2)
    base = x @ problem.weights + problem.bias
    return base + problem.unit * mean, problem.unit * np.sqrt(variance)


@pytest.mark.statistical
@pytest.mark.parametrize("algorithm", ["exact", "metropolis"])
@pytest.mark.parametrize("structure", ["isotropic", "source"])
def test_joint_prediction_is_the_posterior_of_the_target_weights(source_of, structure, algorithm):
    """With few source rows, so that the source's error matters, and a target that tells of it."""
    source = lookup_source(source_of, n=40)
    data = target_of(source, n=30, change=CHANGE)
    config = dataclasses.replace(CONFIG, structure=structure, algorithm=algorithm, draws=1000)
    posterior = fit(source, data, config, Fitting(0, device="cpu"))
    x = np.random.default_rng(2).normal(size=(12, P)).astype(np.float32)
    mean, sd = direct(last_layer_problem(source, data, **SCALES), structure, hidden_of(x))
    draws = posterior.mean_draws_eV(x).reshape(-1, 12)
    n = len(draws) / (1.0 if algorithm == "exact" else 2.0)  # one step in five of the walk is kept
    assert (np.abs(draws.mean(0) - mean) < SIGMAS * sd / np.sqrt(n)).all()
    squares = (draws - mean) ** 2
    assert (np.abs(squares.mean(0) - sd**2) < SIGMAS * squares.std(0) / np.sqrt(n)).all()


def test_source_error_widens_intervals_and_delta_leaves_it_out(source_of):
    source = lookup_source(source_of, n=40, residual_variance=0.5)
    data = target_of(source, n=12, change=CHANGE)
    x = 2.0 * np.random.default_rng(3).normal(size=(50, P)).astype(np.float32)
    spread = {
        mode: fit(source, data, dataclasses.replace(CONFIG, mode=mode), Fitting(0, device="cpu"))
        .mean_draws_eV(x)
        .std((0, 1))
        for mode in ("joint", "delta")
    }
    assert np.mean(spread["joint"]) > 1.2 * np.mean(spread["delta"])


def test_default_rate_is_one_noise_variance_of_predicted_change(source_of):
    """The prior median of x times the mean squared length of the training rows is 1."""
    source = lookup_source(source_of)
    problem = last_layer_problem(source, target_of(source), **SCALES)
    _, prior = scale_problem(problem, structure="isotropic", lam=None)
    grid = np.linspace(prior.typical - 40, prior.typical + 40, 20_001)
    below = np.cumsum(np.exp(prior.log_density(grid))) * (grid[1] - grid[0])
    rows = problem.rows - problem.rows.mean(0)
    median = np.exp(np.interp(0.5, below, grid))
    # Half a step of the grid.
    assert median * (rows**2).sum(1).mean() == pytest.approx(1.0, rel=5e-3)


def test_a_source_without_moments_has_one_of_n_rows_as_its_distance(source_of):
    source = lookup_source(source_of, n=0)
    problem = last_layer_problem(source, target_of(source), **SCALES)
    _, prior = scale_problem(problem, structure="isotropic", lam=2.0)
    assert prior.terms.rates.tolist() == [source.card.n_structures] and prior.lam == 2.0
    posterior = fit(source, target_of(source), CONFIG, Fitting(0, device="cpu"))
    assert "stored without the moments" in posterior.diagnostics.warnings[0]

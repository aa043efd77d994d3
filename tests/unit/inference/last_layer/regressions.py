"""Small regressions with a source error, and independent computations for them."""

import numpy as np

from bandgap.inference.last_layer.coefficient_draws import form_of
from bandgap.inference.last_layer.noise_variance import Response
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from benchmarks.plain_gibbs import gibbs_start, gibbs_sweep


def make_regression(n, p, *, seed=0, noise=0.6):
    """Rows (n, p), responses (n,) with an intercept, and a source covariance S1 (p, p)."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p)) + 0.5
    root = 0.3 * rng.normal(size=(p, p))
    s1 = root @ root.T + 0.02 * np.eye(p)
    z = 1.5 + x @ rng.normal(size=p) + noise * rng.normal(size=n)
    return x, z, s1


def explicit(x, z, s1):
    """G, g, Z'PZ and P by n x n algebra: P is K^-1 with the intercept's direction projected out."""
    n = len(z)
    k_inv = np.linalg.inv(np.eye(n) + (0.0 if s1 is None else x @ s1 @ x.T))
    one = np.ones(n)
    p = k_inv - np.outer(k_inv @ one, k_inv @ one) / (one @ k_inv @ one)
    return x.T @ p @ x, x.T @ p @ z, z @ p @ z, p


def reduced(n=12, p=3, *, seed=0, source=True, **kwargs):
    x, z, s1 = make_regression(n, p, seed=seed)
    return reduce_regression(x, z, source_covariance=s1 if source else None, **kwargs)


def gibbs_draws(problem, *, warmup, draws, seed, prior):
    """Return delta (draws, p), sigma^2 and log tau (draws,) of a chain of plain Gibbs sampling."""
    rng = np.random.default_rng(seed)
    form = form_of(problem)
    response = Response(problem.square, problem.n, prior)
    state = gibbs_start(problem)
    draws_of = []
    for i in range(warmup + draws):
        state = gibbs_sweep(state, form, problem.moment, response, rng)
        if i >= warmup:
            draws_of.append((state.delta, state.sigma2, 0.5 * np.log(state.tau2)))
    return tuple(np.array(values) for values in zip(*draws_of, strict=True))


def rank(values, grid, log_density):
    """Uniform ranks of values under the density of log density on a grid, by the trapezoid rule."""
    density = np.exp(log_density - log_density.max())
    below = np.concatenate([[0.0], np.cumsum(0.5 * (density[1:] + density[:-1]) * np.diff(grid))])
    return np.interp(values, grid, below / below[-1])

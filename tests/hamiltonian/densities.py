"""Densities with known moments, and tests of the moments of draws.

The standard error of a mean is that of the means of many independent chains from different starts.
"""

import math

import torch
from scipy import stats

FALSE_ALARM = 1e-3  # of every statistical test here; seeds are fixed


def start_of(chains, dimension, *, seed=1):
    return 2.0 * torch.randn(
        chains, dimension, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def standard_normal(q):
    return -0.5 * (q**2).sum(-1)


def normal(mean, covariance):
    precision = torch.linalg.inv(covariance)
    return lambda q: -0.5 * ((q - mean) @ precision * (q - mean)).sum(-1)


def assert_mean(values, expected):
    """Compare means of values (chain, draw, quantity) over chains, by a t-test of each quantity."""
    by_chain = values.mean(1)
    chains, quantities = by_chain.shape
    score = (by_chain.mean(0) - expected) / (by_chain.std(0) / math.sqrt(chains))
    assert float(score.abs().max()) < stats.t.isf(FALSE_ALARM / 2 / quantities, df=chains - 1)


def assert_moments(draws, mean, covariance):
    centred = draws - mean
    products = (centred.unsqueeze(-1) * centred.unsqueeze(-2)).flatten(2)
    assert_mean(
        torch.cat([centred, products], -1),
        torch.cat([torch.zeros_like(mean), covariance.flatten()]),
    )


def funnel(q):
    """Neal's funnel: log scale v ~ N(0, 9), nine x ~ N(0, exp(v))."""
    v = q[:, 0]
    x = q[:, 1:]
    return -(v**2) / 18 - 4.5 * v - 0.5 * (x**2).sum(-1) * torch.exp(-v)


def regression():
    """Log density, mean and covariance of a linear regression.

    Weights ~ N(0, I), noise of standard deviation 0.5, 15 rows.
    """
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(15, 2, generator=generator).double()
    y = x @ torch.tensor([1.0, -0.5]).double() + 0.5 * torch.randn(15, generator=generator).double()
    covariance = torch.linalg.inv(torch.eye(2) + x.T @ x / 0.25)

    def density(q):
        return -0.5 * (q**2).sum(-1) - 0.5 * ((y - q @ x.T) ** 2).sum(-1) / 0.25

    return density, covariance @ x.T @ y / 0.25, covariance


def banana(q):
    """X ~ N(0, 1), y ~ N(x^2, 0.25), z ~ N(x, 0.04): curved, with directions of two widths."""
    x, y, z = q.unbind(-1)
    return -0.5 * (x**2 + 4.0 * (y - x**2) ** 2 + 25.0 * (z - x) ** 2)


def banana_draws(n, *, seed):
    """Independent draws (n, 3) of `banana`."""
    noise = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    x = noise[:, 0]
    return torch.stack([x, x**2 + 0.5 * noise[:, 1], x + 0.2 * noise[:, 2]], -1)

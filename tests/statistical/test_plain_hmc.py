"""Plain Hamiltonian Monte Carlo, with which others are compared, has the moments of its density."""

import math

import torch
from scipy import stats

from tests.statistical.plain_hmc import sample

FALSE_ALARM = 1e-3  # the seed is fixed


def test_conjugate_linear_regression_has_its_posterior():
    """Weights ~ N(0, I), noise of standard deviation 0.5; every moment by a t-test over chains."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(15, 2, generator=generator).double()
    y = x @ torch.tensor([1.0, -0.5]).double() + 0.5 * torch.randn(15, generator=generator).double()
    covariance = torch.linalg.inv(torch.eye(2) + x.T @ x / 0.25)
    mean = covariance @ x.T @ y / 0.25

    def density(q):
        return -0.5 * (q**2).sum(-1) - 0.5 * ((y - q @ x.T) ** 2).sum(-1) / 0.25

    start = 2.0 * torch.randn(100, 2, generator=generator).double()
    centred = sample(density, start, length=10, warmup=100, draws=200, seed=1) - mean
    products = (centred.unsqueeze(-1) * centred.unsqueeze(-2)).flatten(2)
    by_chain = torch.cat([centred, products], -1).mean(1)
    expected = torch.cat([torch.zeros_like(mean), covariance.flatten()])
    score = (by_chain.mean(0) - expected) / (by_chain.std(0) / math.sqrt(100))
    assert float(score.abs().max()) < stats.t.isf(FALSE_ALARM / 2 / len(expected), df=99)

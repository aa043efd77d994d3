"""Exact stationary laws of linear recursions, and targets for which they are exact."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import solve_discrete_lyapunov
from torch import Tensor

from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample


@dataclass(frozen=True, eq=False)
class WholeTarget:
    """A log density that is no sum over rows, given its gradient: (chain, dim) to (chain, dim)."""

    gradient: Callable[[Tensor], Tensor]
    n_rows: int = 1

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return zero: the density is one row."""
        return torch.zeros_like(position)

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the gradient of the density."""
        del rows
        return self.gradient(position)


def standard_normal():
    """N(0, 1) in any number of dimensions."""
    return WholeTarget(lambda x: -x)


def variance_ratio(step, *, noise=0.0, inverse_temperature=1.0):
    """Stationary over true variance of SGLD on a Gaussian with G = H^-1 and batch noise c H."""
    return (1.0 + 0.5 * step * noise * inverse_temperature) / (1.0 - 0.5 * step)


def first_variance(matrix, noise):
    """Stationary variance P[0, 0] of x' = A x + N(0, Q): P = A P A' + Q."""
    return float(solve_discrete_lyapunov(np.array(matrix), np.array(noise))[0, 0])


def measured_variance(
    sampler, *, chains=1000, dim=1, warmup=200, draws=800, target=None, seed=0, sd=1.0, forget=0.0
):
    """Mean square of the last draws after warm-up, over all chains.

    Chains start with standard deviation `sd`; a share `forget` of the draws is left out.
    """
    start = sd * torch.randn(
        chains, dim, generator=torch.Generator().manual_seed(seed + 99), dtype=torch.float64
    )
    config = RunConfig(warmup=warmup, draws=draws, thin=draws)
    draws, info = sample(
        target or standard_normal(),
        sampler,
        start,
        config=config,
        seed=seed,
        extras=Extras(lambda x: x**2),
    )
    assert info.divergences == 0
    return float(draws.recorded[:, int(forget * draws.recorded.shape[1]) :].mean())

"""Exact stationary laws of linear recursions, and targets on which they hold."""

import numpy as np
import torch
from scipy.linalg import solve_discrete_lyapunov

from bandgap.inference.stochastic_gradient.gradients import WholeTarget
from bandgap.inference.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.inference.stochastic_gradient.run import sample


def standard_normal():
    """N(0, 1) in any number of dimensions."""
    return WholeTarget(lambda x: -x)


def first_variance(matrix, noise):
    """Variance of the first coordinate where x' = A x + N(0, Q) has come to rest: P = A P A' + Q."""
    return float(solve_discrete_lyapunov(np.array(matrix), np.array(noise))[0, 0])


def measured_variance(
    sampler, *, chains=1000, dim=1, warmup=200, draws=800, target=None, seed=0, sd=1.0, forget=0.0
):
    """Mean square of all chains and the last of the draws after warm-up, from chains that start with sd `sd`."""
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

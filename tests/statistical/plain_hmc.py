"""Hamiltonian Monte Carlo (Neal, 2011, section 3) for any log density over vectors.

An independent check of the specialised sampler of network posteriors: the same density, written
down plainly, must give the same posterior. The chains are one batch of unit mass, and the gradient
comes from automatic differentiation.
"""

import torch

from bandgap.inference.network.dual_averaging import dual_averaging

JITTER = 0.2  # share by which the number of steps varies, up and down
DIVERGENCE_ENERGY = 1000.0
FIRST_STEP = 0.1


def value_and_gradient(log_density, q):
    with torch.enable_grad():
        leaf = q.detach().requires_grad_(True)
        value = log_density(leaf)
        (gradient,) = torch.autograd.grad(value.sum(), leaf)
    return value.detach(), gradient


def transition(log_density, q, *, step, n_steps, generator):
    """Make a path of `n_steps` in every chain, each of its `step`, then the Metropolis rule."""
    p = torch.randn(q.shape, generator=generator, dtype=q.dtype)
    value, gradient = value_and_gradient(log_density, q)
    start_energy = 0.5 * (p * p).sum(-1) - value
    end = q
    for _ in range(n_steps):
        p = p + 0.5 * step[:, None] * gradient
        end = end + step[:, None] * p
        value, gradient = value_and_gradient(log_density, end)
        p = p + 0.5 * step[:, None] * gradient
    error = 0.5 * (p * p).sum(-1) - value - start_energy
    accept = torch.exp(-error.clamp(min=0.0)).where(error.abs() < DIVERGENCE_ENERGY, 0.0)
    accepted = torch.rand(accept.shape, generator=generator, dtype=q.dtype) < accept
    return torch.where(accepted[:, None], end, q), accept


def sample(log_density, q, *, length, warmup, draws, seed):
    """Return draws (chain, draw, dimension) from starts `q` (chain, dimension) in float64.

    `length` are the leapfrog steps of a path, varied by a fifth.
    """
    generator = torch.Generator().manual_seed(seed)
    adaptation = [dual_averaging(FIRST_STEP)] * q.shape[0]
    positions = []
    for iteration in range(warmup + draws):
        in_warmup = iteration < warmup
        step = torch.tensor([a.step if in_warmup else a.final for a in adaptation]).double()
        factor = 1.0 + JITTER * (2 * float(torch.rand(1, generator=generator)) - 1)
        n_steps = max(1, round(length * factor))
        q, accept = transition(log_density, q, step=step, n_steps=n_steps, generator=generator)
        if in_warmup:
            adaptation = [a.update(float(p)) for a, p in zip(adaptation, accept, strict=True)]
        else:
            positions.append(q)
    return torch.stack(positions, 1)

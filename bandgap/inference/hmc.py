r"""Hamiltonian Monte Carlo for any log density over vectors: leapfrog, dual averaging, several chains as one batch.

Neal (2011), "MCMC using Hamiltonian dynamics", section 3; step size by Hoffman and Gelman (2014), section 3.2, each
chain its own. The gradient comes from automatic differentiation, so this is also the independent check of the
specialised sampler of network posteriors: the same density, written down plainly, must give the same posterior.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.errors import ConfigError
from bandgap.inference.adaptation import dual_averaging
from bandgap.progress import Progress, Update, no_progress

DIVERGENCE_ENERGY = 1000.0
LogDensity = Callable[[Tensor], Tensor]  # (chain, dimension) -> (chain,)


@dataclass(frozen=True)
class HmcConfig:
    """Length of the run, leapfrog steps a path (varied by a fifth up and down) and the acceptance wanted."""

    warmup: int = 250
    draws: int = 400
    n_steps: int = 12
    start_step: float = 0.1
    target_accept: float = 0.8

    def __post_init__(self) -> None:
        if min(self.warmup, self.draws, self.n_steps) < 1 or not 0 < self.target_accept < 1 or self.start_step <= 0:
            raise ConfigError(
                f"hmc: {self}. Accepted: at least one warm-up iteration, draw and step, a start step above 0 and a "
                "target acceptance between 0 and 1."
            )


@dataclass(frozen=True, eq=False)
class HmcInfo:
    """Diagnostics of every iteration after warm-up, (chain, draw), and the final step sizes, (chain,)."""

    accept: Tensor
    energy: Tensor
    divergent: Tensor
    step: Tensor


def sample(
    log_density: LogDensity,
    initial: Tensor,
    *,
    config: HmcConfig,
    seed: int,
    progress: Progress = no_progress,
) -> tuple[Tensor, HmcInfo]:
    """Return draws (chain, draw, dimension) from `log_density`, started at `initial` (chain, dimension).

    A path whose energy error exceeds 1000 or is not finite counts as divergent and is rejected.
    """
    generator = torch.Generator(device=initial.device).manual_seed(seed)
    host = torch.Generator().manual_seed(seed)
    q = initial.detach()
    adaptations = [dual_averaging(config.start_step, target=config.target_accept) for _ in range(q.shape[0])]
    draws, accepts, energies, divergents = [], [], [], []
    for i in range(config.warmup + config.draws):
        warm = i < config.warmup
        step = q.new_tensor([a.step if warm else a.final for a in adaptations])
        n_steps = max(1, round(config.n_steps * (0.8 + 0.4 * float(torch.rand(1, generator=host)))))
        q, energy, accept, divergent = _transition(log_density, q, step=step, n_steps=n_steps, generator=generator)
        if warm:
            adaptations = [a.update(float(p)) for a, p in zip(adaptations, accept, strict=True)]
        else:
            draws.append(q)
            accepts.append(accept)
            energies.append(energy)
            divergents.append(divergent)
        values = {"acceptance": float(accept.mean())}
        progress(Update("warm-up" if warm else "sampling", i + 1, config.warmup + config.draws, values=values))
    final = q.new_tensor([a.final for a in adaptations])
    info = HmcInfo(torch.stack(accepts, 1), torch.stack(energies, 1), torch.stack(divergents, 1), final)
    return torch.stack(draws, 1), info


def leapfrog(
    log_density: LogDensity, q: Tensor, p: Tensor, *, step: Tensor, n_steps: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Follow q and p (chain, dimension) for `n_steps` steps of size `step` (chain,); return q.

    P and the log density there.
    """
    e = step[:, None]
    value, force = _value_and_gradient(log_density, q)
    for _ in range(n_steps):
        p = p + 0.5 * e * force
        q = q + e * p
        value, force = _value_and_gradient(log_density, q)
        p = p + 0.5 * e * force
    return q, p, value


def _transition(
    log_density: LogDensity, q: Tensor, *, step: Tensor, n_steps: int, generator: torch.Generator
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    p = torch.randn(q.shape, generator=generator, device=q.device, dtype=q.dtype)
    start = 0.5 * (p**2).sum(-1) - log_density(q).detach()
    moved, momentum, value = leapfrog(log_density, q, p, step=step, n_steps=n_steps)
    error = 0.5 * (momentum**2).sum(-1) - value - start
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(divergent, torch.zeros_like(error), torch.exp(-error.clamp(min=0.0)))
    accepted = torch.rand(error.shape, generator=generator, device=q.device, dtype=q.dtype) < accept
    energy = torch.where(accepted, start + error, start)
    return torch.where(accepted[:, None], moved, q), energy, accept, divergent


def _value_and_gradient(log_density: LogDensity, q: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        at = q.detach().requires_grad_(True)
        value = log_density(at)
        (gradient,) = torch.autograd.grad(value.sum(), at)
    return value.detach(), gradient

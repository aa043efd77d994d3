"""One transition of Hamiltonian Monte Carlo (Neal, 2011, section 3), chains as one batch."""

import torch

from tests.hamiltonian.chain_loop import Statistics, Tuning
from tests.hamiltonian.leapfrog import (
    DIVERGENCE_ENERGY,
    LogDensity,
    Phase,
    Point,
    draw_momentum,
    energy,
    leapfrog_step,
    select_point,
)

JITTER = 0.2  # share by which the number of steps varies, up and down


def transition(
    log_density: LogDensity, at: Point, *, tuning: Tuning, n_steps: int
) -> tuple[Point, Statistics]:
    """Make one transition of every chain: a path of `n_steps`, then the Metropolis rule.

    A path whose energy error exceeds 1000 or is not finite is divergent and rejected.
    """
    start = Phase(at, draw_momentum(at.q, tuning.inverse_mass, generator=tuning.generator))
    start_energy = energy(start, tuning.inverse_mass)
    end = start
    for _ in range(n_steps):
        end = leapfrog_step(log_density, end, step=tuning.step, inverse_mass=tuning.inverse_mass)
    error = energy(end, tuning.inverse_mass) - start_energy
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(divergent, torch.zeros_like(error), torch.exp(-error.clamp(min=0.0)))
    uniform = torch.rand(
        error.shape, generator=tuning.generator, device=error.device, dtype=at.q.dtype
    )
    accepted = uniform < accept
    statistics = {
        "accept": accept,
        "energy": torch.where(accepted, start_energy + error, start_energy),
        "divergent": divergent,
        "n_steps": torch.full_like(error, n_steps, dtype=torch.int64),
    }
    return select_point(accepted, end.at, at), statistics

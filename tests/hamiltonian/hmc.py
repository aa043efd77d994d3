r"""Hamiltonian Monte Carlo for any log density over vectors, several chains as one batch.

Neal (2011), "MCMC using Hamiltonian dynamics", section 3; step size by Hoffman and Gelman (2014), section 3.2, each
chain its own, and on demand a diagonal mass (windows.py). The gradient comes from automatic differentiation, so this is
also the independent check of the specialised sampler of network posteriors: the same density, written down plainly,
must give the same posterior.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.diagnostics import Floats, ebfmi
from tests.hamiltonian.chain_loop import ChainRun, Statistics, Tuning, run_chains
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
from tests.hamiltonian.windows import AdaptationConfig

JITTER = 0.2  # share by which the number of steps varies, up and down


@dataclass(frozen=True)
class HmcConfig:
    """Length of the run, leapfrog steps a path (varied by a fifth up and down), acceptance wanted, adaptation."""

    warmup: int = 250
    draws: int = 400
    n_steps: int = 12
    start_step: float = 0.1
    target_accept: float = 0.8
    adaptation: AdaptationConfig = AdaptationConfig()

    def __post_init__(self) -> None:
        if (
            min(self.warmup, self.draws, self.n_steps) < 1
            or not 0 < self.target_accept < 1
            or self.start_step <= 0
        ):
            raise ConfigError(
                f"hmc: {self}. Accepted: at least one warm-up iteration, draw and step, a start step above 0 and a "
                "target acceptance between 0 and 1."
            )


@dataclass(frozen=True, eq=False)
class HmcInfo:
    """Diagnostics of every iteration after warm-up, (chain, draw), and the tuning that warm-up found.

    `energy` is that of the state kept, its momentum included; `n_steps` counts leapfrog steps.
    """

    accept: Tensor
    energy: Tensor
    divergent: Tensor
    n_steps: Tensor
    step: Tensor  # (chain,)
    inverse_mass: Tensor  # (chain, dimension)

    def ebfmi(self) -> Floats:
        """Return the energy's Bayesian fraction of missing information of every chain, (chain,)."""
        return ebfmi(self.energy.cpu().numpy())


def sample(
    log_density: LogDensity,
    initial: Tensor,
    *,
    config: HmcConfig,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Tensor, HmcInfo]:
    """Return draws (chain, draw, dimension) from `log_density`, started at `initial` (chain, dimension).

    A path whose energy error exceeds 1000 or is not finite counts as divergent and is rejected. With `checkpoint` the
    run goes on from its file where there is one. Raises InputError where a start has no density and ArtifactError on a
    file of another run.
    """

    def move(at: Point, tuning: Tuning) -> tuple[Point, Statistics]:
        length = 1.0 - JITTER + 2 * JITTER * float(torch.rand(1, generator=tuning.host))
        return transition(
            log_density, at, tuning=tuning, n_steps=max(1, round(config.n_steps * length))
        )

    run = run_chains(
        log_density,
        initial,
        name="hmc",
        settings=config,
        move=move,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )
    return run.draws, HmcInfo(**run.statistics, **tuned(run))


def tuned(run: ChainRun) -> Statistics:
    """Return the step and the inverse mass that the draws were made with."""
    return {"step": run.adaptation.final, "inverse_mass": run.adaptation.inverse_mass}


def transition(
    log_density: LogDensity, at: Point, *, tuning: Tuning, n_steps: int
) -> tuple[Point, Statistics]:
    """Make one transition of every chain: a path of `n_steps`, accepted or rejected by Metropolis' rule."""
    start = Phase(at, draw_momentum(at.q, tuning.inverse_mass, generator=tuning.generator))
    before, end = energy(start, tuning.inverse_mass), start
    for _ in range(n_steps):
        end = leapfrog_step(log_density, end, step=tuning.step, inverse_mass=tuning.inverse_mass)
    error = energy(end, tuning.inverse_mass) - before
    divergent = ~(error.abs() < DIVERGENCE_ENERGY)
    accept = torch.where(divergent, torch.zeros_like(error), torch.exp(-error.clamp(min=0.0)))
    accepted = (
        torch.rand(error.shape, generator=tuning.generator, device=error.device, dtype=at.q.dtype)
        < accept
    )
    statistics = {
        "accept": accept,
        "energy": torch.where(accepted, before + error, before),
        "divergent": divergent,
        "n_steps": torch.full_like(error, n_steps, dtype=torch.int64),
    }
    return select_point(accepted, end.at, at), statistics

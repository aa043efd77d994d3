"""Hamiltonian Monte Carlo and the No-U-Turn sampler for any log density over vectors.

Several chains run as one batch. The gradient comes from automatic differentiation. This is an
independent check of the specialised sampler of network posteriors: the same density, written down
plainly, must give the same posterior.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.diagnostics import Floats, ebfmi
from tests.hamiltonian import hmc, nuts
from tests.hamiltonian.chain_loop import SamplingConfig, Statistics, Tuning, run_chains
from tests.hamiltonian.leapfrog import LogDensity, Point


@dataclass(frozen=True, eq=False)
class SamplingInfo:
    """Diagnostics of every iteration after warm-up, (chain, draw), and the tuning of warm-up.

    Parameters
    ----------
    accept : acceptance of the path; with NUTS the mean over the trajectory
    energy : of the state after the transition, its momentum included
    divergent : whether the path diverged
    n_steps : leapfrog steps
    step : (chain,)
    inverse_mass : (chain, dimension)
    depth : with NUTS, the number of doublings that counted
    """

    accept: Tensor
    energy: Tensor
    divergent: Tensor
    n_steps: Tensor
    step: Tensor
    inverse_mass: Tensor
    depth: Tensor | None = None

    def ebfmi(self) -> Floats:
        """Return the Bayesian fraction of missing information of every chain, (chain,)."""
        return ebfmi(self.energy.cpu().numpy())


def sample(
    log_density: LogDensity,
    initial: Tensor,
    *,
    config: SamplingConfig,
    seed: int,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> tuple[Tensor, SamplingInfo]:
    """Return draws (chain, draw, dimension) from `log_density`, with diagnostics.

    `initial` (chain, dimension) are the starts. With `checkpoint` the run resumes from its file if
    that exists. Raises InputError where a start has no density and ArtifactError on a file of
    another run.
    """

    def move(at: Point, tuning: Tuning) -> tuple[Point, Statistics]:
        if config.sampler == "nuts":
            return nuts.transition(log_density, at, tuning=tuning, max_depth=config.length)
        uniform = float(torch.rand(1, generator=tuning.host))
        factor = 1.0 - hmc.JITTER + 2 * hmc.JITTER * uniform
        n_steps = max(1, round(config.length * factor))
        return hmc.transition(log_density, at, tuning=tuning, n_steps=n_steps)

    run = run_chains(
        log_density,
        initial,
        config=config,
        move=move,
        seed=seed,
        progress=progress,
        checkpoint=checkpoint,
    )
    info = SamplingInfo(
        **run.statistics,
        step=run.adaptation.final,
        inverse_mass=run.adaptation.inverse_mass,
    )
    return run.draws, info

r"""Samplers of (eta, beta) with gradients of batches (`inference.stochastic_gradient`).

A position x is phi = (eta, beta) in units of the posterior: phi = mode + R x, where R R' is the
inverse observed information. The density of x is about N(0, I), so one step suits all entries.
Without this scaling the narrowest direction would limit the steps.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.config import Count, Positive, Settings, WholeNumber
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.stochastic_gradient import samplers
from bandgap.research.stochastic_gradient.gradients import control_variate
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.samplers import AnyConfig
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.vecchia.chains import Draws, check_thin
from bandgap.research.vecchia.expansion import observed_information
from bandgap.research.vecchia.ordering import Floats
from bandgap.research.vecchia.scoring import Mode
from bandgap.research.vecchia.target import Target

# In Newton units. That of pSGLD is divided by sqrt(sites x batch), about the size of its metric.
STEPS = {
    "sgld": 0.05,
    "psgld": 0.03,
    "msgld": 0.02,
    "asgld": 0.02,
    "sghmc": 0.01,
    "hamcmc": 0.02,
    "hamcmc_sa": 0.05,
}
FRICTION = 0.2  # of SGHMC; with its step, 20 steps make an independent draw


@dataclass(frozen=True)
class FirstOrderConfig(Settings):
    """Step (None: the sampler's default), sites a batch (0: all), chains and steps.

    Every `thin`-th draw is kept.
    """

    step: Positive | None = None
    batch: WholeNumber = 250
    control_variates: bool = True
    chains: Count = 4
    warmup: WholeNumber = 500
    draws: Count = 2000
    thin: Count = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_thin("first order", draws=self.draws, thin=self.thin)

    def run(self, n: int) -> RunConfig:
        """Return the settings of a run over n sites."""
        batch = self.batch if 0 < self.batch < n else None
        return RunConfig(warmup=self.warmup, draws=self.draws, thin=self.thin, batch_size=batch)

    def sampler(self, name: str, n: int) -> AnyConfig:
        """Return the settings of the sampler of this name for n sites."""
        step = self.step
        if step is None:
            step = STEPS[name] / (
                np.sqrt(n * (self.run(n).batch_size or n)) if name == "psgld" else 1.0
            )
        return (
            SghmcConfig(step, friction=FRICTION)
            if name == "sghmc"
            else samplers.CONFIGS[name](step)
        )


@dataclass(frozen=True, eq=False)
class SiteTarget:
    """The posterior as a sum over sites; centre (k + p,) and root (k + p, k + p) scale phi."""

    target: Target
    centre: Floats
    root: Floats

    @property
    def n_rows(self) -> int:
        """Number of sites."""
        return self.target.sites.n

    def phi(self, position: Tensor) -> Floats:
        """Return (eta, beta) (..., k + p) at positions (..., k + p)."""
        return np.asarray(self.centre + position.double().numpy() @ self.root.T, dtype=np.float64)

    def prior_gradient(self, position: Tensor) -> Tensor:
        """Return the gradient (chain, k + p) of the prior's log density; beta has a flat one."""
        k = len(self.target.free)
        gradients = np.zeros(position.shape)
        for row, phi in zip(gradients, self.phi(position), strict=True):
            row[:k] = self.target.prior_gradient(phi[:k])
        return torch.from_numpy(gradients @ self.root).to(position)

    @cached_property
    def gradients_at_centre(self) -> Tensor:
        """Gradient of every site at the centre, (n, k + p), for control variates."""
        k = len(self.target.free)
        return torch.from_numpy(
            self.target.site_gradients(self.centre[:k], self.centre[k:]) @ self.root
        )

    def row_gradient(self, position: Tensor, rows: Tensor) -> Tensor:
        """Return the sum (chain, k + p) of the gradients of every chain's sites (chain, n)."""
        if not position.any():
            return self.gradients_at_centre[rows].sum(1).to(position)
        k = len(self.target.free)
        free = self.target.free
        share = rows.shape[1] / self.n_rows
        gradients = np.empty(position.shape)
        for out, phi, index in zip(gradients, self.phi(position), rows.numpy(), strict=True):
            try:
                terms = self.target.terms(phi[:k], phi[k:], index)
            except InputError:  # no density here: the chain has diverged
                out[:] = np.nan
                continue
            out[:] = share * np.concatenate([terms.grad_log_theta[free], terms.grad_beta])
        return torch.from_numpy(gradients @ self.root).to(position)


def site_target(target: Target, mode: Mode) -> SiteTarget:
    """Return the posterior in its own units at the mode."""
    root = np.linalg.cholesky(np.linalg.inv(observed_information(target, mode)))
    return SiteTarget(target, np.concatenate([mode.eta, mode.beta]), root)


def sample_first_order(
    target: Target,
    mode: Mode,
    sampler: AnyConfig,
    config: RunConfig,
    *,
    seed: int,
    chains: int = 4,
    control_variates: bool = True,
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Draws:
    """Return draws in Newton units: about 1 / h steps of length h make an independent draw.

    Starts are draws from the normal approximation at the mode. Gradients of batches have control
    variates at the mode, unless a batch contains all sites. Raises DivergedError if every chain
    diverges.
    """
    sites = site_target(target, mode)
    k = mode.eta.size
    generator = torch.Generator().manual_seed(seed)
    shape = (chains, *([sampler.walkers] if sampler.walkers > 1 else []), len(sites.centre))
    start = torch.randn(shape, generator=generator, dtype=torch.float64)
    variates = control_variates and config.batch_size not in (None, sites.n_rows)
    centre = torch.zeros(len(sites.centre), dtype=torch.float64)
    extras = Extras(control=control_variate(sites, centre) if variates else None)
    draws, info = sample(
        sites,
        sampler,
        start,
        config=config,
        seed=seed,
        extras=extras,
        progress=progress,
        checkpoint=checkpoint,
    )
    phi = sites.phi(draws.position)
    warnings = tuple(warning.text for warning in info.warnings)
    return Draws(phi[..., :k], phi[..., k:], {"divergences": float(info.divergences)}, warnings)

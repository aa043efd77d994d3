"""HAMCMC (Simsekli and others, 2016): M interleaved walkers, each moved in a metric of the others.

    theta_t = theta_(t-M) + h G_t g(theta_(t-M)) + sqrt(2 h / tau) S_t z,

G_t is the L-BFGS matrix of theta_(t-2M+1), ..., theta_(t-1) without theta_(t-M): 2M - 3 pairs, one
of them across the gap. Given these points, G_t does not depend on the walker that moves, so that
the term Gamma of a changing metric is 0. Pairs join walkers that are far apart. They therefore need
lambda and damping (`lbfgs`), and the drift is tamed as in `hamcmc_sa`.

The gradients in y are on batches of steps before t, so that G_t is also independent of the batch of
step t. A step evaluates three gradients on its own batch: at theta_(t-M), which moves, and at
theta_(t-1) and theta_t, which make the newest pair. The gradient at theta_(t-1) cannot be that of
the step before: it is on another batch, and the difference would be one of batches more than of
positions.

The next step's pair across the gap joins theta_(t-M) with theta_(t-M+2). This is theta_t for M = 2
and theta_(t-1) for M = 3, where gradients exist; for M > 3 it takes a fourth gradient.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from bandgap.foundation.config import AtLeastTwo, NonNegative, Positive, ProperShare, Settings
from bandgap.research.stochastic_gradient.gradients import Gradient
from bandgap.research.stochastic_gradient.lbfgs import Pairs, factor, inverse_times, root_times
from bandgap.research.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    step_figures,
)


@dataclass(frozen=True)
class HamcmcConfig(Settings):
    """Settings of HAMCMC: three gradients per step, four with more than three walkers.

    Parameters
    ----------
    step
        h.
    inverse_temperature
        tau; the target is exp(tau L).
    walkers
        Number M of walkers of each chain, as in section 5.1 of Wang, Deng and Lin (2021).
    regularise, damp_below, least_curvature
        lambda, r and delta of the pairs (`lbfgs`).
    tame
        Whether the drift is tamed. The paper has False; True because otherwise chains diverge where
        pairs join walkers that are far apart (study `hamcmc-1`).
    """

    step: Positive
    inverse_temperature: Positive = 1.0
    walkers: AtLeastTwo = 3
    regularise: NonNegative = 1.0
    damp_below: ProperShare = 0.25
    least_curvature: Positive = 1.0
    tame: bool = True

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return no warnings: a step that is too long shows during the run."""
        return ()


@dataclass(frozen=True, eq=False)
class HamcmcState:
    """The last 2M - 1 points (chain, 2M - 1, dim), oldest first.

    `changes` are y of their successive pairs, `gap` is y of the pair across the gap.
    """

    points: Tensor
    changes: Tensor  # (chain, 2M - 2, dim)
    gap: Tensor  # (chain, dim)


def init(config: HamcmcConfig, position: Tensor) -> HamcmcState:
    """Start M walkers per chain at positions (chain, M, dim); pairs of starts have no curvature."""
    m = config.walkers
    older = position[:, :1].expand(-1, m - 1, -1)
    points = torch.cat([older, position], 1)
    changes = torch.zeros_like(points[:, 1:])
    return HamcmcState(points, changes, torch.zeros_like(points[:, 0]))


def memory_of(state: HamcmcState, walkers: int) -> Pairs:
    """Return the 2M - 3 pairs (chain, 2M - 3, dim) of the points without the one that moves next.

    Pairs of starts, which have no curvature, are set to 0.
    """
    m = walkers
    steps = state.points.diff(dim=1)
    gap = state.points[:, m] - state.points[:, m - 2]
    s = torch.cat([steps[:, : m - 2], gap[:, None], steps[:, m:]], 1)
    y = torch.cat([state.changes[:, : m - 2], state.gap[:, None], state.changes[:, m:]], 1)
    has_curvature = (y.square().sum(-1) > 0)[..., None]
    return Pairs(torch.where(has_curvature, s, 0.0), y)


def step(
    config: HamcmcConfig,
    state: HamcmcState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[HamcmcState, StepFigures]:
    """Move one walker of every chain, in turn."""
    del adapt
    m = config.walkers
    points = state.points
    f = factor(memory_of(state, m), delta=config.least_curvature, r=config.damp_below)
    old = points[:, m - 1]
    last = points[:, -1]
    at_old = gradient(old).total
    drift = inverse_times(f, at_old)
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * root_times(f, normals())
    new = old + h * (tamed(drift, h) if config.tame else drift) + noise
    at_last = gradient(last).total
    at_new = gradient(new).total
    if m == 2:
        end = new
        at_end = at_new
    else:
        end = points[:, m + 1]
        at_end = at_last if m == 3 else gradient(end).total
    change = at_last - at_new + config.regularise * (new - last)
    gap = at_old - at_end + config.regularise * (end - old)
    state = HamcmcState(
        torch.cat([points[:, 1:], new[:, None]], 1),
        torch.cat([state.changes[:, 1:], change[:, None]], 1),
        gap,
    )
    return state, step_figures(at_old, drift, h=h, damped=float(f.damped.mean()))


def tamed(drift: Tensor, h: float) -> Tensor:
    """Return v / (1 + h |v|): its move h |.| is always below 1, and it tends to v as h -> 0."""
    result: Tensor = drift / (1.0 + h * drift.norm(dim=-1, keepdim=True))
    return result


ALGORITHM: Final = Algorithm(init, step, lambda state: state.points[:, -1])

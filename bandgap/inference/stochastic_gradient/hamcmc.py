r"""HAMCMC (Simsekli and others, 2016): M interleaved walkers, each moved in a metric made of the others.

    theta_t = theta_(t-M) + h G_t g(theta_(t-M)) + sqrt(2 h / tau) S_t z,

G_t the L-BFGS matrix of theta_(t-2M+1), ..., theta_(t-1) without theta_(t-M): 2M - 3 pairs, one of them across the gap.
Given these, G_t does not depend on the walker that moves, so that the term Gamma of a changing metric is 0. Pairs join
walkers that are far apart: lambda and damping (`lbfgs`) are needed, and the drift is tamed as in `hamcmc_sa`.

Batches of y are those of steps before t, so that G_t is independent of the batch of step t as well. A step evaluates
three gradients, all on its own batch: at theta_(t-M), which moves, and at theta_(t-1) and theta_t, which make the
newest pair. Two would do if theta_(t-1) were the point that moves, as in `hamcmc_sa`; here it is another walker's, and
its gradient of the step before is on another batch: their difference would be one of batches more than of positions.
The pair across the gap of the next step joins theta_(t-M) with theta_(t-M+2): that is theta_t for M = 2 and theta_(t-1)
for M = 3, both known; for M > 3 it takes a fourth gradient.
"""

import math
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.stochastic_gradient.gradients import Gradient
from bandgap.inference.stochastic_gradient.lbfgs import Pairs, factor, inverse_times, root_times
from bandgap.inference.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    check_step,
    step_figures,
)


@dataclass(frozen=True)
class HamcmcConfig:
    """Step h, inverse temperature tau, M walkers, and the pairs' lambda, r and delta.

    A step takes three gradients, four for more than three walkers.
    """

    step: float
    inverse_temperature: float = 1.0
    walkers: int = 3
    regularise: float = 1.0
    damp_below: float = 0.25
    least_curvature: float = 1.0
    tame: bool = True

    def __post_init__(self) -> None:
        check_step("hamcmc", step=self.step, inverse_temperature=self.inverse_temperature)
        check_pairs("hamcmc", self.regularise, self.damp_below, self.least_curvature)
        if self.walkers < 2:
            raise ConfigError(f"hamcmc: {self.walkers} walkers. Accepted: a whole number from 2.")

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return nothing: what can be wrong is the step's length, and shows in the run."""
        return ()


def check_pairs(name: str, regularise: float, damp_below: float, least_curvature: float) -> None:
    """Raise ConfigError on lambda, r and delta with which no matrix is positive definite."""
    if not (regularise >= 0 and 0 < damp_below < 1 and least_curvature > 0):
        raise ConfigError(
            f"{name}: regularise {regularise}, damp_below {damp_below}, least_curvature {least_curvature}. Accepted: "
            "a number from 0, a number between 0 and 1, a number above 0."
        )


@dataclass(frozen=True, eq=False)
class HamcmcState:
    """The last 2M - 1 points (chain, 2M - 1, dim), oldest first, y of their successive pairs, and of the gap's pair."""

    points: Tensor
    changes: Tensor  # (chain, 2M - 2, dim)
    gap: Tensor  # (chain, dim)


def init(config: HamcmcConfig, position: Tensor) -> HamcmcState:
    """Start M walkers of every chain at positions (chain, M, dim); the pairs between starts have no curvature yet."""
    m = config.walkers
    older = position[:, :1].expand(-1, m - 1, -1)
    points = torch.cat([older, position], 1)
    changes = torch.zeros_like(points[:, 1:])
    return HamcmcState(points, changes, torch.zeros_like(points[:, 0]))


def memory_of(state: HamcmcState, walkers: int) -> Pairs:
    """Return the 2M - 3 pairs (chain, 2M - 3, dim) among the points without the one that moves next.

    Pairs without curvature, between starts, are left out.
    """
    m = walkers
    steps = state.points.diff(dim=1)
    gap = state.points[:, m] - state.points[:, m - 2]
    s = torch.cat([steps[:, : m - 2], gap[:, None], steps[:, m:]], 1)
    y = torch.cat([state.changes[:, : m - 2], state.gap[:, None], state.changes[:, m:]], 1)
    known = (y.square().sum(-1) > 0)[..., None]
    return Pairs(torch.where(known, s, 0.0), y)


def step(
    config: HamcmcConfig,
    state: HamcmcState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[HamcmcState, StepFigures]:
    """Move the walker of every chain whose turn it is."""
    del adapt
    m, points = config.walkers, state.points
    f = factor(memory_of(state, m), delta=config.least_curvature, r=config.damp_below)
    old, last, across = points[:, m - 1], points[:, -1], points[:, m + 1] if m > 2 else None
    at_old = gradient(old).total
    drift = inverse_times(f, at_old)
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * root_times(f, normals())
    new = old + h * (tamed(drift, h) if config.tame else drift) + noise
    at_last, at_new = gradient(last).total, gradient(new).total
    if across is None:
        end, at_end = new, at_new
    else:
        end, at_end = across, at_last if m == 3 else gradient(across).total
    change = at_last - at_new + config.regularise * (new - last)
    gap = at_old - at_end + config.regularise * (end - old)
    state = HamcmcState(
        torch.cat([points[:, 1:], new[:, None]], 1),
        torch.cat([state.changes[:, 1:], change[:, None]], 1),
        gap,
    )
    return state, step_figures(at_old, drift, h=h, damped=float(f.damped.mean()))


def tamed(drift: Tensor, h: float) -> Tensor:
    """Return v / (1 + h |v|): a move h |v| below 1 always, and v itself as h -> 0."""
    slower: Tensor = drift / (1.0 + h * drift.norm(dim=-1, keepdim=True))
    return slower


ALGORITHM: Final = Algorithm(init, step, lambda state: state.points[:, -1])

r"""MSGLD (Kim, Song and Liang, 2022): SGLD with momentum added to its drift.

    m' = b m + (1 - b) g,   theta' = theta + h (g + a m') + sqrt(2 h / tau) z.

As h -> 0 the momentum equals the gradient and the drift is (1 + a) grad L. The published form
therefore samples exp(tau (1 + a) L), which is too narrow. `corrected` multiplies the variance of
the noise by 1 + a. h is Welling and Teh's epsilon / 2.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor

from bandgap.foundation.config import Positive, Settings, ShareBelowOne
from bandgap.research.stochastic_gradient.gradients import Gradient
from bandgap.research.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    step_figures,
)

NARROW = SamplerWarning(
    "biased",
    "MSGLD without its correction, as it was published, samples a density that is too narrow. "
    "Set corrected to true.",
)


@dataclass(frozen=True)
class MsgldConfig(Settings):
    """Settings of MSGLD, which evaluates one gradient per step.

    Parameters
    ----------
    step
        h.
    inverse_temperature
        tau; the target is exp(tau L).
    weight
        Weight a of the momentum in the drift.
    memory
        Memory b of the momentum, in [0, 1).
    corrected
        Whether the noise has the variance that the added momentum requires. The paper has False;
        True because otherwise the variance is 1 / (1 + a) of the posterior's.
    """

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0
    weight: Positive = 1.0
    memory: ShareBelowOne = 0.9
    corrected: bool = True

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return a warning for the published form, which is too narrow."""
        return () if self.corrected else (NARROW,)


@dataclass(frozen=True, eq=False)
class MsgldState:
    """Positions and momenta (chain, dim)."""

    position: Tensor
    momentum: Tensor


def init(config: MsgldConfig, position: Tensor) -> MsgldState:
    """Start at positions (chain, dim), without momentum."""
    del config
    return MsgldState(position, torch.zeros_like(position))


def step(
    config: MsgldConfig,
    state: MsgldState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[MsgldState, StepFigures]:
    """Move every chain once."""
    del adapt
    g = gradient(state.position).total
    momentum = config.memory * state.momentum + (1.0 - config.memory) * g
    drift = g + config.weight * momentum
    correction = 1.0 + config.weight if config.corrected else 1.0
    noise = math.sqrt(2.0 * h * correction / config.inverse_temperature) * normals()
    return MsgldState(state.position + h * drift + noise, momentum), step_figures(g, drift, h=h)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

r"""MSGLD (Kim, Song and Liang, 2022): SGLD whose drift has momentum added.

    m' = b m + (1 - b) g,   theta' = theta + h (g + a m') + sqrt(2 h / tau) z.

As h -> 0 the momentum is the gradient itself and the drift (1 + a) grad L: as published it samples exp(tau (1 + a) L),
too narrow. `corrected` multiplies the noise's variance by 1 + a. h is Welling and Teh's epsilon / 2.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.stochastic_gradient.gradients import Gradient
from bandgap.inference.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    check_step,
    step_figures,
)

NARROW = SamplerWarning(
    "biased",
    "MSGLD without its correction, as it was published, samples a density that is too narrow. Set corrected to true.",
)


@dataclass(frozen=True)
class MsgldConfig:
    """Step h, inverse temperature tau, weight a and memory b of the momentum, and whether noise makes up for a."""

    walkers: ClassVar[int] = 1

    step: float
    inverse_temperature: float = 1.0
    weight: float = 1.0
    memory: float = 0.9
    corrected: bool = True

    def __post_init__(self) -> None:
        check_step("msgld", step=self.step, inverse_temperature=self.inverse_temperature)
        if not (self.weight > 0 and 0 <= self.memory < 1):
            raise ConfigError(
                f"msgld: weight {self.weight}, memory {self.memory}. Accepted: a weight above 0, a memory from 0 to "
                "below 1."
            )

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return that the published form is too narrow."""
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
    more = 1.0 + config.weight if config.corrected else 1.0
    noise = math.sqrt(2.0 * h * more / config.inverse_temperature) * normals()
    return MsgldState(state.position + h * drift + noise, momentum), step_figures(g, drift, h=h)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

r"""ASGLD, also ADAMSGLD (Kim, Song and Liang, 2022): SGLD with Adam's direction added to its drift.

It is biased and meant for comparisons only.

    m' = b1 m + (1 - b1) g,   V' = b2 V + (1 - b2) g^2,
    theta' = theta + h (g + a m' / sqrt(V' + lambda)) + sqrt(2 h / tau) z.

The added drift does not vanish as h -> 0, and the noise does not compensate it. On N(0, 1) the
variance is 0.46 at a = 1 and 0.12 at a = 10. h is Welling and Teh's epsilon / 2.
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

BIASED = SamplerWarning(
    "biased",
    "ASGLD is biased by construction and meant for comparisons only: on a standard normal its "
    "variance is 0.46 (weight 1). Use sghmc.",
)


@dataclass(frozen=True)
class AsgldConfig(Settings):
    """Settings of ASGLD, which evaluates one gradient per step.

    Parameters
    ----------
    step
        h.
    inverse_temperature
        tau; the target is exp(tau L).
    weight
        Weight a of Adam's direction in the drift. The paper has 1 or 10; 1 because it has the
        smaller bias: the variance of a standard normal density is 0.46 with 1 and 0.12 with 10.
    memory, square_memory
        Adam's b1 and b2, in [0, 1).
    damping
        lambda.
    """

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0
    weight: Positive = 1.0
    memory: ShareBelowOne = 0.9
    square_memory: ShareBelowOne = 0.999
    damping: Positive = 1e-8

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return the warning that ASGLD is biased."""
        return (BIASED,)


@dataclass(frozen=True, eq=False)
class AsgldState:
    """Positions, momenta and mean squares (chain, dim)."""

    position: Tensor
    momentum: Tensor
    square: Tensor


def init(config: AsgldConfig, position: Tensor) -> AsgldState:
    """Start at positions (chain, dim), both averages at zero."""
    del config
    return AsgldState(position, torch.zeros_like(position), torch.zeros_like(position))


def step(
    config: AsgldConfig,
    state: AsgldState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[AsgldState, StepFigures]:
    """Move every chain once."""
    del adapt
    g = gradient(state.position).total
    momentum = config.memory * state.momentum + (1.0 - config.memory) * g
    square = config.square_memory * state.square + (1.0 - config.square_memory) * g**2
    drift = g + config.weight * momentum / torch.sqrt(square + config.damping)
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * normals()
    return AsgldState(state.position + h * drift + noise, momentum, square), step_figures(
        g, drift, h=h
    )


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

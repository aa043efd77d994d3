r"""SGLD (Welling and Teh, 2011): theta' = theta + h g + sqrt(2 h / tau) z.

h is Welling and Teh's epsilon / 2. On N(0, 1 / l) with full gradients the variance is 1 / (l tau (1
- h l / 2)).
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

from torch import Tensor

from bandgap.foundation.config import Positive, Settings
from bandgap.research.stochastic_gradient.gradients import Gradient
from bandgap.research.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    step_figures,
)


@dataclass(frozen=True)
class SgldConfig(Settings):
    """Step h and inverse temperature tau; one gradient a step."""

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return no warnings: the only bias of SGLD is that of its step length."""
        return ()


@dataclass(frozen=True, eq=False)
class SgldState:
    """Positions (chain, dim)."""

    position: Tensor


def init(config: SgldConfig, position: Tensor) -> SgldState:
    """Start at positions (chain, dim)."""
    del config
    return SgldState(position)


def step(
    config: SgldConfig,
    state: SgldState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[SgldState, StepFigures]:
    """Move every chain once."""
    del adapt
    g = gradient(state.position).total
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * normals()
    return SgldState(state.position + h * g + noise), step_figures(g, g, h=h)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

r"""SGHMC (Chen, Fox and Guestrin, 2014): momentum with friction, and noise that makes up for it.

    theta' = theta + v,   v' = v + eta g(theta') - alpha v + N(0, 2 (alpha - b) eta / tau),   b = eta V / 2,

b at most alpha / 2, eta the square of the time step and `step` here; eta / alpha acts as the h of SGLD. V is the
variance of the batch noise of g where it is known (`gradient_variance`, or by entry of the position what the target
tells, `Slopes.variance`), 0 where it is not. The stationary variance on N(0, 1) follows from a
2 x 2 Lyapunov equation: 1.01124 at eta = 0.04, alpha = 0.2.
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
    Told,
    check_step,
    told,
)


@dataclass(frozen=True)
class SghmcConfig:
    """eta (`step`), inverse temperature tau, friction alpha, and V (`gradient_variance`); one gradient a step."""

    walkers: ClassVar[int] = 1

    step: float
    inverse_temperature: float = 1.0
    friction: float = 0.1
    gradient_variance: float = 0.0

    def __post_init__(self) -> None:
        check_step("sghmc", step=self.step, inverse_temperature=self.inverse_temperature)
        if not (0 < self.friction < 1 and self.gradient_variance >= 0):
            raise ConfigError(
                f"sghmc: friction {self.friction}, gradient_variance {self.gradient_variance}. Accepted: a friction "
                "between 0 and 1, a variance from 0."
            )

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return nothing: what is wrong with SGHMC is its step's length alone."""
        return ()


@dataclass(frozen=True, eq=False)
class SghmcState:
    """Positions and velocities (chain, dim); NaN velocities before the first step."""

    position: Tensor
    velocity: Tensor


def init(config: SghmcConfig, position: Tensor) -> SghmcState:
    """Start at positions (chain, dim); velocities are drawn from N(0, eta / tau I) with the first step."""
    del config
    return SghmcState(position, torch.full_like(position, torch.nan))


def step(
    config: SghmcConfig,
    state: SghmcState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[SghmcState, Told]:
    """Move every chain once; `h` is eta."""
    del adapt
    alpha, velocity = config.friction, state.velocity
    if bool(velocity[:, 0].isnan().any()):
        velocity = math.sqrt(h / config.inverse_temperature) * normals()
    position = state.position + velocity
    slopes = gradient(position)
    g = slopes.total
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * normals()
    if slopes.variance is None or config.gradient_variance > 0:
        noise = math.sqrt(alpha - min(0.5 * h * config.gradient_variance, 0.5 * alpha)) * noise
    else:
        noise = torch.sqrt(alpha - (0.5 * h * slopes.variance).clamp(max=0.5 * alpha)) * noise
    return SghmcState(position, velocity + h * g - alpha * velocity + noise), told(g, g, h=h)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

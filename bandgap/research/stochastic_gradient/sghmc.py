"""SGHMC (Chen, Fox and Guestrin, 2014): momentum, friction and the noise that balances it.

    theta' = theta + v,   v' = v + eta g(theta') - alpha v + N(0, 2 (alpha - b) eta / tau)

with b = eta V / 2, at most alpha / 2. eta is the square of the time step and is called `step` here;
eta / alpha has the role of h in SGLD. V is the variance of the batch noise of g: one number
(`gradient_variance`), or one for each entry of the position (`Slopes.variance`), and 0 where it is
unknown. On N(0, 1) the stationary variance follows from a 2 x 2 Lyapunov equation: it is 1.01124 at
eta = 0.04, alpha = 0.2.

The low-temperature cycles of the method `sghmc` (`inference/batch/updates.py`) use the same update
of the velocity, with the gradient of the mean loss.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Final

import torch
from torch import Tensor

from bandgap.foundation.config import NonNegative, Positive, ProperShare, Settings
from bandgap.inference.batch.updates import update_velocity, velocity_noise_variance
from bandgap.research.stochastic_gradient.gradients import Gradient
from bandgap.research.stochastic_gradient.protocol import (
    Algorithm,
    Normals,
    SamplerWarning,
    StepFigures,
    step_figures,
)


@dataclass(frozen=True)
class SghmcConfig(Settings):
    """Settings of SGHMC, which evaluates one gradient per step.

    Parameters
    ----------
    step
        eta.
    inverse_temperature
        tau; the target is exp(tau L).
    friction
        alpha, inside (0, 1).
    gradient_variance
        V, the variance of the batch noise, the same for all entries; 0 if unknown.
    """

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0
    friction: ProperShare = 0.1
    gradient_variance: NonNegative = 0.0

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return no warnings: the only bias of SGHMC is that of its step length."""
        return ()


@dataclass(frozen=True, eq=False)
class SghmcState:
    """Positions and velocities (chain, dim); velocities are NaN before the first step."""

    position: Tensor
    velocity: Tensor


def init(config: SghmcConfig, position: Tensor) -> SghmcState:
    """Start at positions (chain, dim); the first step draws velocities from N(0, eta / tau I)."""
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
) -> tuple[SghmcState, StepFigures]:
    """Move every chain once; `h` is eta."""
    del adapt
    alpha = config.friction
    temperature = 1.0 / config.inverse_temperature
    velocity = state.velocity
    if bool(velocity[:, 0].isnan().any()):
        velocity = math.sqrt(h * temperature) * normals()
    position = state.position + velocity
    slopes = gradient(position)
    g = slopes.total
    variance = g.new_tensor(config.gradient_variance)
    if slopes.variance is not None and config.gradient_variance == 0:
        variance = slopes.variance
    net_friction = alpha - (0.5 * h * variance).clamp(max=0.5 * alpha)
    noise = (
        torch.sqrt(velocity_noise_variance(net_friction, step=h, temperature=temperature))
        * normals()
    )
    velocity = velocity.clone()
    update_velocity(velocity, g, step=h, friction=alpha)
    return SghmcState(position, velocity + noise), step_figures(g, g, h=h)


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

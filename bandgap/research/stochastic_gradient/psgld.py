"""pSGLD (Li, Chen, Carlson and Carin, 2016): SGLD in an RMSprop metric, frozen after warm-up.

    V' = alpha V + (1 - alpha) gbar^2,   G = diag(1 / (lambda + sqrt(V'))),
    theta' = theta + h G g + sqrt(2 h / tau) G^(1/2) z,

gbar is the mean over the batch of the rows' gradients, without the prior and without the factor N,
so that h carries the scale. h is the authors' epsilon / 2. V starts at the first gbar^2.

The authors keep adapting the metric and drop the term Gamma that its change requires. In one
dimension with h -> 0 this samples p(x) (lambda + |gbar(x)|) instead of p(x). A frozen metric is
constant, so that Gamma is 0.
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
    "pSGLD keeps adapting its metric after warm-up, as it was published, and so samples another "
    "density than the posterior. Set freeze_after_warmup to true.",
)


@dataclass(frozen=True)
class PsgldConfig(Settings):
    """Settings of pSGLD, which evaluates one gradient per step.

    Parameters
    ----------
    step
        h.
    inverse_temperature
        tau; the target is exp(tau L).
    alpha
        Memory of the average V, in [0, 1).
    damping
        lambda.
    freeze_after_warmup
        Whether V stays constant after warm-up. The paper has False; True because a V that follows
        the recent path makes pSGLD sample another density.
    """

    walkers: ClassVar[int] = 1

    step: Positive
    inverse_temperature: Positive = 1.0
    alpha: ShareBelowOne = 0.99
    damping: Positive = 1e-5
    freeze_after_warmup: bool = True

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return a warning if the metric is not frozen."""
        return () if self.freeze_after_warmup else (BIASED,)


@dataclass(frozen=True, eq=False)
class PsgldState:
    """Positions and V (chain, dim); V is negative before the first gradient."""

    position: Tensor
    square: Tensor


def init(config: PsgldConfig, position: Tensor) -> PsgldState:
    """Start at positions (chain, dim)."""
    del config
    return PsgldState(position, torch.full_like(position, -1.0))


def step(
    config: PsgldConfig,
    state: PsgldState,
    gradient: Gradient,
    normals: Normals,
    *,
    h: float,
    adapt: bool,
) -> tuple[PsgldState, StepFigures]:
    """Move every chain once; V adapts during warm-up, and afterwards unless it is frozen."""
    slopes = gradient(state.position)
    square = state.square
    if adapt or not config.freeze_after_warmup or bool((square < 0).any()):
        newest = slopes.row_mean**2
        average = config.alpha * square + (1.0 - config.alpha) * newest
        square = torch.where(square < 0, newest, average)
    metric = 1.0 / (config.damping + torch.sqrt(square))
    drift = metric * slopes.total
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * torch.sqrt(metric) * normals()
    return PsgldState(state.position + h * drift + noise, square), step_figures(
        slopes.total, drift, h=h
    )


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

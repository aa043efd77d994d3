r"""pSGLD (Li, Chen, Carlson and Carin, 2016): SGLD in the metric of an RMSprop average, which is frozen after warm-up.

    V' = alpha V + (1 - alpha) gbar^2,   G = diag(1 / (lambda + sqrt(V'))),
    theta' = theta + h G g + sqrt(2 h / tau) G^(1/2) z,

gbar the batch mean of the rows' gradients, without the prior and without N, so that h carries the scale; h is the
authors' epsilon / 2. V starts at the first gbar^2. The authors go on adapting and drop the term Gamma of the metric's
change: with h -> 0 in one dimension that samples p(x) (lambda + |gbar(x)|), not p. Frozen, G is constant, Gamma 0.
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

BIASED = SamplerWarning(
    "biased",
    "pSGLD goes on adapting its metric after warm-up, as it was published: that samples another density than the "
    "posterior. Set freeze_after_warmup to true.",
)


@dataclass(frozen=True)
class PsgldConfig:
    """Step h, inverse temperature tau, the average's alpha, lambda (`damping`), and whether V is frozen; one gradient.

    `freeze_after_warmup` False is the publication's, which is biased.
    """

    walkers: ClassVar[int] = 1

    step: float
    inverse_temperature: float = 1.0
    alpha: float = 0.99
    damping: float = 1e-5
    freeze_after_warmup: bool = True

    def __post_init__(self) -> None:
        check_step("psgld", step=self.step, inverse_temperature=self.inverse_temperature)
        if not (0 <= self.alpha < 1 and self.damping > 0):
            raise ConfigError(
                f"psgld: alpha = {self.alpha}, damping {self.damping}. Accepted: alpha from 0 to below 1, a damping "
                "above 0."
            )

    def warnings(self) -> tuple[SamplerWarning, ...]:
        """Return that an unfrozen metric is biased."""
        return () if self.freeze_after_warmup else (BIASED,)


@dataclass(frozen=True, eq=False)
class PsgldState:
    """Positions (chain, dim), and V (chain, dim), negative before the first gradient."""

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
    """Move every chain once; V follows in warm-up, and after it where it is not frozen."""
    slopes, square = gradient(state.position), state.square
    if adapt or not config.freeze_after_warmup or bool((square < 0).any()):
        new = slopes.of_a_row**2
        square = torch.where(square < 0, new, config.alpha * square + (1.0 - config.alpha) * new)
    metric = 1.0 / (config.damping + torch.sqrt(square))
    drift = metric * slopes.total
    noise = math.sqrt(2.0 * h / config.inverse_temperature) * torch.sqrt(metric) * normals()
    return PsgldState(state.position + h * drift + noise, square), step_figures(
        slopes.total, drift, h=h
    )


ALGORITHM: Final = Algorithm(init, step, lambda state: state.position)

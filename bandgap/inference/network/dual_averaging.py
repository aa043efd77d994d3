"""Dual averaging of a step size (Hoffman and Gelman, 2014, section 3.2)."""

import math
from dataclasses import dataclass, replace

GAMMA = 0.05
T0 = 10.0
KAPPA = 0.75


@dataclass(frozen=True)
class DualAveraging:
    """State of the adaptation; `update` returns the next one.

    No step is longer than `most`. Where one would be, the search continues from `most`, so that the
    next step can be shorter.
    """

    log_step: float
    log_average: float
    anchor: float
    gap: float = 0.0
    count: int = 0
    target: float = 0.8
    most: float = math.inf

    @property
    def step(self) -> float:
        """The step of the next transition of warm-up."""
        return math.exp(self.log_step)

    @property
    def final(self) -> float:
        """The averaged step, to use after warm-up."""
        return math.exp(self.log_average)

    def update(self, accept: float) -> "DualAveraging":
        """Return the state after a transition with this acceptance probability."""
        count = self.count + 1
        share = 1.0 / (count + T0)
        gap = (1.0 - share) * self.gap + share * (self.target - accept)
        log_step = self.anchor - count**0.5 / GAMMA * gap
        weight = count**-KAPPA
        if log_step > math.log(self.most):
            log_step = math.log(self.most)
            gap = (self.anchor - log_step) * GAMMA / math.sqrt(count)
        log_average = weight * log_step + (1.0 - weight) * self.log_average
        return replace(self, log_step=log_step, log_average=log_average, gap=gap, count=count)


def dual_averaging(step: float, *, target: float = 0.8, most: float = math.inf) -> DualAveraging:
    """Start the adaptation at a step size.

    The search is drawn to ten times this step, as the source recommends.
    """
    log_step = math.log(step)
    return DualAveraging(log_step, log_step, math.log(10.0 * step), target=target, most=most)

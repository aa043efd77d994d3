"""Dual averaging of a step size towards a wanted acceptance probability (Hoffman and Gelman, 2014, section 3.2)."""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class DualAveraging:
    """State of the adaptation; `update` returns the next one. `final` is the averaged step to use after warm-up."""

    log_step: float
    log_average: float
    anchor: float
    gap: float = 0.0
    count: int = 0
    target: float = 0.8
    gamma: float = 0.05
    t0: float = 10.0
    kappa: float = 0.75

    @property
    def step(self) -> float:
        return math.exp(self.log_step)

    @property
    def final(self) -> float:
        return math.exp(self.log_average)

    def update(self, accept: float) -> "DualAveraging":
        """Return the state after a transition with this acceptance probability."""
        count = self.count + 1
        share = 1.0 / (count + self.t0)
        gap = (1 - share) * self.gap + share * (self.target - accept)
        log_step = self.anchor - math.sqrt(count) / self.gamma * gap
        weight = count**-self.kappa
        log_average = weight * log_step + (1 - weight) * self.log_average
        return DualAveraging(
            log_step, log_average, self.anchor, gap, count, self.target, self.gamma, self.t0, self.kappa
        )


def dual_averaging(step: float, *, target: float = 0.8) -> DualAveraging:
    """Start the adaptation at a step size; the search is drawn to ten times it, as the source recommends."""
    return DualAveraging(math.log(step), math.log(step), math.log(10.0 * step), target=target)

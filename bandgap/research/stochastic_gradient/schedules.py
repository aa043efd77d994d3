"""Schedules of the step along a chain, and the averages that suit them.

A polynomial schedule h_t = a (b + t)^(-gamma), 1/2 < gamma <= 1, has an infinite sum of h_t and a
finite sum of h_t^2 (Robbins and Monro); means over a chain are then weighted by h_t. A geometric
schedule has a finite sum: the chain stops moving. A cyclical schedule (Zhang and others, 2020)
repeats a fall by a cosine; draws are from the half of each cycle with the small steps.
"""

import math
from dataclasses import dataclass, replace

from bandgap.foundation.errors import ConfigError


@dataclass(frozen=True)
class Constant:
    """The same step in all iterations."""

    def factor(self, iteration: int) -> float:
        """Return 1."""
        del iteration
        return 1.0

    def collects(self, iteration: int) -> bool:
        """Return True: every iteration may leave a draw."""
        del iteration
        return True


@dataclass(frozen=True)
class Polynomial:
    """The step times (1 + t / b)^(-gamma)."""

    b: float = 100.0
    gamma: float = 0.6

    def __post_init__(self) -> None:
        if not (self.b > 0 and 0.5 < self.gamma <= 1):
            raise ConfigError(
                f"polynomial schedule: b = {self.b}, gamma = {self.gamma}. Accepted: b above 0, "
                "gamma above 0.5 up to 1, where the steps' sum is infinite and that of their "
                "squares is not."
            )

    def factor(self, iteration: int) -> float:
        """Return (1 + t / b)^(-gamma)."""
        return float((1.0 + iteration / self.b) ** -self.gamma)

    def collects(self, iteration: int) -> bool:
        """Return True: every iteration may leave a draw."""
        del iteration
        return True


@dataclass(frozen=True)
class Stepwise:
    """The step times `ratio` after each `every` iterations; the sum of all steps is finite."""

    ratio: float = 0.5
    every: int = 1000

    def __post_init__(self) -> None:
        if not (0 < self.ratio <= 1 and self.every >= 1):
            raise ConfigError(
                f"stepwise schedule: ratio {self.ratio}, every {self.every}. Accepted: a ratio "
                "above 0 up to 1, a number of iterations from 1."
            )

    def factor(self, iteration: int) -> float:
        """Return the power of the ratio in this iteration."""
        return float(self.ratio ** (iteration // self.every))

    def collects(self, iteration: int) -> bool:
        """Return True: every iteration may leave a draw."""
        del iteration
        return True


@dataclass(frozen=True)
class Cyclical:
    """The step times (1 + cos) / 2 over cycles of `length` iterations, at least `least`."""

    length: int = 1000
    least: float = 0.05

    def __post_init__(self) -> None:
        if not (self.length >= 2 and 0 < self.least <= 1):
            raise ConfigError(
                f"cyclical schedule: length {self.length}, least {self.least}. Accepted: at least "
                "2 iterations, a number above 0 up to 1."
            )

    def factor(self, iteration: int) -> float:
        """Return the value of the cosine in this iteration of its cycle."""
        share = iteration % self.length / self.length
        return max(self.least, 0.5 * (1.0 + math.cos(math.pi * share)))

    def collects(self, iteration: int) -> bool:
        """Return whether the iteration is in the half of its cycle with the small steps."""
        return iteration % self.length >= self.length / 2


Schedule = Constant | Polynomial | Stepwise | Cyclical


def stretched(schedule: Schedule, factor: int) -> Schedule:
    """Return the schedule that takes `factor` times as many iterations for the same factors."""
    if isinstance(schedule, Polynomial):
        return replace(schedule, b=factor * schedule.b)
    if isinstance(schedule, Stepwise):
        return replace(schedule, every=factor * schedule.every)
    return (
        replace(schedule, length=factor * schedule.length)
        if isinstance(schedule, Cyclical)
        else schedule
    )

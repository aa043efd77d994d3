"""Schedules of the step along a chain, and the averages that suit them.

A polynomial schedule h_t = a (b + t)^(-gamma), 1/2 < gamma <= 1, has an infinite sum of h_t and a
finite sum of h_t^2 (Robbins and Monro); means over a chain are then weighted by h_t. A geometric
schedule has a finite sum: the chain stops moving. A cyclical schedule (Zhang and others, 2020)
repeats a fall by a cosine; draws are from the half of each cycle with the small steps.
"""

import math
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Interval

from bandgap.foundation.config import AtLeastTwo, Count, Positive, Settings, ShareAboveZero


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
class Polynomial(Settings):
    """The step times (1 + t / b)^(-gamma)."""

    b: Positive = 100.0
    gamma: Annotated[float, Interval(gt=0.5, le=1)] = 0.6

    def factor(self, iteration: int) -> float:
        """Return (1 + t / b)^(-gamma)."""
        return float((1.0 + iteration / self.b) ** -self.gamma)

    def collects(self, iteration: int) -> bool:
        """Return True: every iteration may leave a draw."""
        del iteration
        return True


@dataclass(frozen=True)
class Stepwise(Settings):
    """The step times `ratio` after each `every` iterations; the sum of all steps is finite."""

    ratio: ShareAboveZero = 0.5
    every: Count = 1000

    def factor(self, iteration: int) -> float:
        """Return the power of the ratio in this iteration."""
        return float(self.ratio ** (iteration // self.every))

    def collects(self, iteration: int) -> bool:
        """Return True: every iteration may leave a draw."""
        del iteration
        return True


@dataclass(frozen=True)
class Cyclical(Settings):
    """The step times (1 + cos) / 2 over cycles of `length` iterations, at least `least`."""

    length: AtLeastTwo = 1000
    least: ShareAboveZero = 0.05

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

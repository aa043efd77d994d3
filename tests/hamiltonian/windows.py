r"""Windowed adaptation of step size and diagonal mass of several chains at once, as Stan does it.

Stan Reference Manual, "HMC algorithm parameters", and Hoffman and Gelman (2014), section 3.2. Warm-up has three parts:
a fast one, slow windows that double in length, and a fast one. The step follows dual averaging all the time; at the end
of every slow window the inverse mass becomes the regularised variance of that window's positions,

    n / (n + 5) var + 5 / (n + 5) 1e-3,

and the step is searched anew. Variances run by Welford's update and join over chains by that of Chan, Golub and LeVeque
(1983). All of it is data: `Adaptation` holds tensors and every function returns the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.network.dual_averaging import averaging_step

FIRST_FAST, FIRST_SLOW, LAST_FAST = 75, 25, 50  # iterations, where warm-up has at least their sum
SHRINK_DRAWS, SHRINK_TO = 5.0, 1e-3
SHORTEST = 20  # iterations of warm-up below which there are no slow windows


@dataclass(frozen=True)
class AdaptationConfig:
    """What warm-up adapts: the step by dual averaging, the mass by windows; for each chain, or `pooled` over chains.

    Unit mass and an adapted step is one dual averaging over the whole warm-up from `start_step`.
    """

    step: Literal["adapted", "fixed"] = "adapted"
    mass: Literal["unit", "diagonal"] = "unit"
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.step not in ("adapted", "fixed") or self.mass not in ("unit", "diagonal"):
            raise ConfigError(
                f"adaptation: step = {self.step!r}, mass = {self.mass!r}. Accepted: step adapted or fixed, mass unit "
                "or diagonal."
            )


def slow_windows(warmup: int) -> tuple[int, ...]:
    """Return the iterations at which slow windows begin and end: (start, end of first, ..., end of last).

    Empty where warm-up is too short. A window that its successor, twice as long, would not fit behind takes the rest.

    >>> slow_windows(1000)
    (75, 100, 150, 250, 450, 950)
    """
    if warmup < SHORTEST:
        return ()
    first, length, last = FIRST_FAST, FIRST_SLOW, LAST_FAST
    if warmup < first + length + last:
        first, last = int(0.15 * warmup), int(0.1 * warmup)
        length = warmup - first - last
    marks, end = [first], first + length
    while end + 2 * length <= warmup - last:
        marks.append(end)
        length *= 2
        end += length
    return (*marks, warmup - last)


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Dual averaging of every chain's step, the running variance of its positions, and its inverse mass."""

    log_step: Tensor  # (chain,)
    log_average: Tensor  # (chain,)
    anchor: Tensor  # (chain,): what the step is drawn to
    gap: Tensor  # (chain,)
    count: Tensor  # (): updates of the step since it was searched
    seen: Tensor  # (): positions in the window
    mean: Tensor  # (chain, dimension)
    squares: Tensor  # (chain, dimension): sum of squares about the mean
    inverse_mass: Tensor  # (chain, dimension), in the positions' type

    @property
    def step(self) -> Tensor:
        """The step to use in warm-up, (chain,)."""
        return torch.exp(self.log_step)

    @property
    def final(self) -> Tensor:
        """The averaged step, to use after warm-up, (chain,)."""
        return torch.exp(self.log_average)

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the fields by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Tensor]) -> "Adaptation":
        """Build the state from `to_arrays`."""
        return Adaptation(**{f.name: arrays[f.name] for f in fields(Adaptation)})


def begin(q: Tensor, *, step: float) -> Adaptation:
    """Start with unit mass and one step for all chains at positions q (chain, dimension)."""
    zero, one = (
        torch.zeros((), dtype=torch.float64, device=q.device),
        torch.ones(q.shape[0], device=q.device).double(),
    )
    empty = torch.zeros_like(q, dtype=torch.float64)
    state = Adaptation(one, one, one, one, zero, zero, empty, empty, torch.ones_like(q))
    return with_step(state, step * one)


def with_step(state: Adaptation, step: Tensor) -> Adaptation:
    """Begin dual averaging anew at `step` (chain,); the search is drawn to ten times it, as the source recommends."""
    log_step = torch.log(step)
    zero = torch.zeros_like(state.count)
    return replace(
        state,
        log_step=log_step,
        log_average=log_step,
        anchor=torch.log(10.0 * step),
        gap=torch.zeros_like(step),
        count=zero,
    )


def follow_acceptance(
    state: Adaptation, accept: Tensor, *, target: float, pooled: bool
) -> Adaptation:
    """Return the state after a transition with acceptance `accept` (chain,); pooled: the mean of it, for all."""
    seen = accept.mean().expand_as(accept) if pooled else accept
    count = state.count + 1
    gap, log_step, log_average = averaging_step(
        state.gap, state.log_average, anchor=state.anchor, miss=target - seen, count=count
    )
    return replace(state, gap=gap, log_step=log_step, log_average=log_average, count=count)


def follow_positions(state: Adaptation, q: Tensor) -> Adaptation:
    """Return the state with positions q (chain, dimension) taken into the window's variance."""
    seen, wide = state.seen + 1, q.double()
    away = wide - state.mean
    mean = state.mean + away / seen
    return replace(state, seen=seen, mean=mean, squares=state.squares + away * (wide - mean))


def end_window(state: Adaptation, *, pooled: bool) -> Adaptation:
    """Return the state with the window's regularised variances as inverse mass, and an empty window."""
    n, squares = state.seen, state.squares
    if pooled:
        chains = squares.shape[0]
        between = n * ((state.mean - state.mean.mean(0)) ** 2).sum(0)
        squares, n = (squares.sum(0) + between).expand_as(squares), n * chains
    variance = squares / (n - 1).clamp(min=1.0)
    shrunk = n / (n + SHRINK_DRAWS) * variance + SHRINK_DRAWS / (n + SHRINK_DRAWS) * SHRINK_TO
    empty = torch.zeros_like(state.mean)
    mass = shrunk.to(state.inverse_mass.dtype).contiguous()
    return replace(
        state, seen=torch.zeros_like(state.seen), mean=empty, squares=empty, inverse_mass=mass
    )

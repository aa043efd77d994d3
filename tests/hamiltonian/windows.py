r"""Windowed adaptation of step size and diagonal mass of several chains, as in Stan.

Stan Reference Manual, "HMC algorithm parameters", and Hoffman and Gelman (2014), section 3.2.
Warm-up has three parts: a fast one, slow windows that double in length, and a fast one. The step
follows dual averaging all the time. At the end of every slow window the inverse mass becomes the
regularised variance of that window's positions,

    n / (n + 5) var + 5 / (n + 5) 1e-3,

and the search of the step restarts. Variances are updated by Welford's method and joined over
chains by that of Chan, Golub and LeVeque (1983). `Adaptation` contains tensors, and every function
returns the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal

import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError
from bandgap.inference.network.dual_averaging import averaging_step

# iterations of the parts, if warm-up has at least their sum
FIRST_FAST = 75
FIRST_SLOW = 25
LAST_FAST = 50
SHRINK_DRAWS = 5.0
SHRINK_TO = 1e-3
SHORTEST = 20  # iterations of warm-up below which there are no slow windows


@dataclass(frozen=True)
class AdaptationConfig:
    """What warm-up adapts: the step by dual averaging, the mass by windows.

    It does so for each chain, or `pooled` over chains. Unit mass with an adapted step is one dual
    averaging over all of warm-up.
    """

    step: Literal["adapted", "fixed"] = "adapted"
    mass: Literal["unit", "diagonal"] = "unit"
    pooled: bool = False

    def __post_init__(self) -> None:
        if self.step not in ("adapted", "fixed") or self.mass not in ("unit", "diagonal"):
            raise ConfigError(
                f"adaptation: step = {self.step!r}, mass = {self.mass!r}. Accepted: step adapted "
                "or fixed, mass unit or diagonal."
            )


def slow_windows(warmup: int) -> tuple[int, ...]:
    """Return the iterations at which slow windows begin and end.

    They are (start, end of the first, ..., end of the last), or empty if warm-up is too short. The
    last window takes all remaining iterations, which do not suffice for one of twice its length.

    >>> slow_windows(1000)
    (75, 100, 150, 250, 450, 950)
    """
    if warmup < SHORTEST:
        return ()
    first = FIRST_FAST
    length = FIRST_SLOW
    last = LAST_FAST
    if warmup < first + length + last:
        first = int(0.15 * warmup)
        last = int(0.1 * warmup)
        length = warmup - first - last
    marks = [first]
    end = first + length
    while end + 2 * length <= warmup - last:
        marks.append(end)
        length *= 2
        end += length
    return (*marks, warmup - last)


@dataclass(frozen=True, eq=False)
class Adaptation:
    """Dual averaging of every chain's step, the running variance of positions, and inverse mass.

    Parameters
    ----------
    log_step, log_average, gap : (chain,)
    anchor : (chain,), the logarithm that the step is drawn to
    count : (), updates of the step since it was searched
    n_positions : (), in the window
    mean : (chain, dimension), of these positions
    squares : (chain, dimension), sum of squares about the mean
    inverse_mass : (chain, dimension), in the positions' type
    """

    log_step: Tensor
    log_average: Tensor
    anchor: Tensor
    gap: Tensor
    count: Tensor
    n_positions: Tensor
    mean: Tensor
    squares: Tensor
    inverse_mass: Tensor

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
    zero = torch.zeros((), dtype=torch.float64, device=q.device)
    one = torch.ones(q.shape[0], device=q.device).double()
    empty = torch.zeros_like(q, dtype=torch.float64)
    state = Adaptation(one, one, one, one, zero, zero, empty, empty, torch.ones_like(q))
    return with_step(state, step * one)


def with_step(state: Adaptation, step: Tensor) -> Adaptation:
    """Restart dual averaging at `step` (chain,).

    The search is drawn to ten times this step, as the source recommends.
    """
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
    """Return the state after a transition with acceptance `accept` (chain,); pooled: its mean."""
    if pooled:
        accept = accept.mean().expand_as(accept)
    count = state.count + 1
    gap, log_step, log_average = averaging_step(
        state.gap, state.log_average, anchor=state.anchor, miss=target - accept, count=count
    )
    return replace(state, gap=gap, log_step=log_step, log_average=log_average, count=count)


def follow_positions(state: Adaptation, q: Tensor) -> Adaptation:
    """Return the state with positions q (chain, dimension) added to the window's variance."""
    n_positions = state.n_positions + 1
    q = q.double()
    deviation = q - state.mean
    mean = state.mean + deviation / n_positions
    squares = state.squares + deviation * (q - mean)
    return replace(state, n_positions=n_positions, mean=mean, squares=squares)


def end_window(state: Adaptation, *, pooled: bool) -> Adaptation:
    """Return the state with the window's regularised variances as inverse mass and a new window."""
    n = state.n_positions
    squares = state.squares
    if pooled:
        chains = squares.shape[0]
        between = n * ((state.mean - state.mean.mean(0)) ** 2).sum(0)
        squares = (squares.sum(0) + between).expand_as(squares)
        n = n * chains
    variance = squares / (n - 1).clamp(min=1.0)
    shrunk = n / (n + SHRINK_DRAWS) * variance + SHRINK_DRAWS / (n + SHRINK_DRAWS) * SHRINK_TO
    empty = torch.zeros_like(state.mean)
    mass = shrunk.to(state.inverse_mass.dtype).contiguous()
    return replace(
        state,
        n_positions=torch.zeros_like(state.n_positions),
        mean=empty,
        squares=empty,
        inverse_mass=mass,
    )

"""What the benchmark on crystals is judged by: best against best, and the method that the page Train proposes.

By RMSE and by CRPS the best of our methods stands beside the best peer, with the paired bootstrap of their difference
(`paired`); the proposed method should be within 3 % of the best, and its 95 % intervals hold 93 to 97 %.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bandgap.runs.compared_fits import ComparedFit, summary
from benchmarks.crystal_peers import PEERS
from benchmarks.paired import Difference, Errors, mean_difference, rmse_difference

NEAR_PERCENT: Final = 3.0
COVERAGE: Final = (0.93, 0.97)
FIGURES: Final[Mapping[str, str]] = {"rmse_eV": "RMSE", "crps_eV": "CRPS"}

ByFit = Mapping[tuple[str, int], Errors]
_DIFFERENCES: Final[Mapping[str, Callable[[Errors, Errors], Difference]]] = {
    "rmse_eV": rmse_difference,
    "crps_eV": mean_difference,
}


@dataclass(frozen=True)
class Best:
    """The best of our methods and the best peer by a figure, and their difference; None where it was not kept."""

    ours: str
    peer: str
    difference: Difference | None


@dataclass(frozen=True)
class Proposed:
    """By how many percent the figures of the proposed method are above the best of all, whose name stands beside it.

    Every method that took part is among all. `coverage` is the share of its 95 % intervals that hold the gap.
    """

    above: Mapping[str, tuple[float, str]]
    coverage: float

    @property
    def near(self) -> bool:
        """Whether it is near the best by every figure."""
        return all(percent <= NEAR_PERCENT for percent, _ in self.above.values())

    @property
    def covers(self) -> bool:
        """Whether its intervals hold about as much as they say."""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1]


def best_of_both(
    fits: Sequence[ComparedFit], values_by_fit: ByFit, *, figure: str, n: int
) -> Best | None:
    """Return the best of our methods and the best peer of size n; None where only one kind took part.

    `each` holds what the figure is a mean of, by structure, of which other splits than those of the fits are left
    out. There is no difference where a split of either lacks it.
    """
    means = _means(fits, figure, n)
    peers = {peer.name for peer in PEERS}
    ours, theirs = (
        {name: mean for name, mean in means.items() if (name in peers) == is_peer}
        for is_peer in (False, True)
    )
    if not ours or not theirs:
        return None
    pair = [min(side, key=side.__getitem__) for side in (ours, theirs)]
    seeds = [_seeds(fits, name, n) for name in pair]
    values_of_pair = [
        {s: v for s, v in values_by_fit.get((name, n), {}).items() if s in wanted_seeds}
        for name, wanted_seeds in zip(pair, seeds, strict=True)
    ]
    complete = all(
        set(values) == wanted_seeds
        for values, wanted_seeds in zip(values_of_pair, seeds, strict=True)
    )
    return Best(
        pair[0],
        pair[1],
        _DIFFERENCES[figure](values_of_pair[0], values_of_pair[1]) if complete else None,
    )


def proposed(fits: Sequence[ComparedFit], n: int, *, method: str) -> Proposed | None:
    """Return how the `method` that the page Train proposes stands at size n; None where it took no part."""
    above = {}
    for figure in FIGURES:
        means = _means(fits, figure, n)
        if method not in means:
            return None
        best = min(means, key=means.__getitem__)
        above[figure] = (100.0 * (means[method] / means[best] - 1.0), best)
    return Proposed(above, _means(fits, "coverage_95", n)[method])


def _means(fits: Sequence[ComparedFit], figure: str, n: int) -> dict[str, float]:
    """Return the mean of a figure at size n by entrant, without those that have none."""
    means = {name: sizes[n][0] for name, sizes in summary(fits, figure).items() if n in sizes}
    return {name: mean for name, mean in means.items() if not math.isnan(mean)}


def _seeds(fits: Sequence[ComparedFit], name: str, n: int) -> set[int]:
    return {fit.seed for fit in fits if (fit.method, fit.n) == (name, n) and not fit.failed}

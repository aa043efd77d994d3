"""Criteria of the benchmark on crystals.

The best method is compared with the best peer by RMSE and by CRPS, with a paired bootstrap of the
difference (`paired`). The method that the page Train proposes is compared with the best other one
in the same way. It should be within 3 % of that, and the coverage of its 95 % intervals should be
between 93 and 97 %.
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
    """The best method and the best peer by a figure, and their difference if it is available."""

    ours: str
    peer: str
    difference: Difference | None


@dataclass(frozen=True)
class Proposed:
    """Comparison of the proposed method with the best of the other methods and peers.

    `above` has, by figure, how many percent it is above the best other one (negative: below), and
    the name of that. `differences` are those of the proposed method minus that, None where values
    of single structures are missing. `coverage` is that of its 95 % intervals.
    """

    above: Mapping[str, tuple[float, str]]
    differences: Mapping[str, Difference | None]
    coverage: float

    @property
    def near(self) -> bool:
        """Whether it is near the best by each figure."""
        return all(percent <= NEAR_PERCENT for percent, _ in self.above.values())

    @property
    def covers(self) -> bool:
        """Whether the coverage of its intervals is within the limits."""
        return COVERAGE[0] <= self.coverage <= COVERAGE[1]


def best_of_both(
    fits: Sequence[ComparedFit], values_by_fit: ByFit, *, figure: str, n: int
) -> Best | None:
    """Return the best method and the best peer at size n, None if either kind is missing.

    `values_by_fit` has the values of single structures; splits without a fit are ignored. The
    difference is None if values of a split are missing.
    """
    means = _means(fits, figure, n)
    peers = {peer.name for peer in PEERS}
    ours, theirs = (
        {name: mean for name, mean in means.items() if (name in peers) == is_peer}
        for is_peer in (False, True)
    )
    if not ours or not theirs:
        return None
    best_ours = min(ours, key=ours.__getitem__)
    best_peer = min(theirs, key=theirs.__getitem__)
    difference = _paired_difference(fits, values_by_fit, best_ours, best_peer, figure=figure, n=n)
    return Best(best_ours, best_peer, difference)


def proposed(
    fits: Sequence[ComparedFit],
    n: int,
    *,
    method: str,
    values_by_fit: Mapping[str, ByFit],
) -> Proposed | None:
    """Compare `method`, which the page Train proposes, at size n.

    `values_by_fit` are the values of single structures by figure. Returns None if the method was
    not fitted, or no other one.
    """
    above = {}
    differences: dict[str, Difference | None] = {}
    for figure in FIGURES:
        means = _means(fits, figure, n)
        if method not in means or len(means) < 2:
            return None
        best = min(means.keys() - {method}, key=means.__getitem__)
        above[figure] = (100.0 * (means[method] / means[best] - 1.0), best)
        differences[figure] = _paired_difference(
            fits, values_by_fit[figure], method, best, figure=figure, n=n
        )
    return Proposed(above, differences, _means(fits, "coverage_95", n)[method])


def _paired_difference(
    fits: Sequence[ComparedFit],
    values_by_fit: ByFit,
    first: str,
    second: str,
    *,
    figure: str,
    n: int,
) -> Difference | None:
    """Return the first method minus the second at size n, None if values of a split are missing."""
    values = []
    for name in (first, second):
        seeds = _seeds(fits, name, n)
        by_seed = {s: v for s, v in values_by_fit.get((name, n), {}).items() if s in seeds}
        if set(by_seed) != seeds:
            return None
        values.append(by_seed)
    return _DIFFERENCES[figure](*values)


def _means(fits: Sequence[ComparedFit], figure: str, n: int) -> dict[str, float]:
    """Return the mean of a figure at size n by method; methods without it are left out."""
    means = {name: sizes[n][0] for name, sizes in summary(fits, figure).items() if n in sizes}
    return {name: mean for name, mean in means.items() if not math.isnan(mean)}


def _seeds(fits: Sequence[ComparedFit], name: str, n: int) -> set[int]:
    return {fit.seed for fit in fits if (fit.method, fit.n) == (name, n) and not fit.failed}

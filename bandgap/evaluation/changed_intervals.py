"""Coverage of a run's held-out structures by p-value, as intervals are withheld or widened.

Loads no torch.
"""

from dataclasses import dataclass

import numpy as np

from bandgap.evaluation.heldout import HeldOut
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.withholding import IntervalChanges, is_below

LEAST_PERCENTAGE = 20  # structures from which a coverage is a percentage, not a count


@dataclass(frozen=True)
class ChangedCoverage:
    """Numbers of held-out structures whose interval contains the gap, by how it is changed.

    Attributes
    ----------
    n, n_covered
        Held-out structures, and those whose unchanged interval contains the gap.
    n_changed, n_changed_covered
        Those of them below the p-value; their unchanged intervals.
    n_widened, n_widened_covered
        Those whose interval is widened, and how many of the wider ones contain the gap.
    """

    n: int
    n_covered: int
    n_changed: int
    n_changed_covered: int
    n_widened: int
    n_widened_covered: int

    @property
    def n_rest(self) -> int:
        """Structures whose interval is not changed."""
        return self.n - self.n_changed

    @property
    def n_rest_covered(self) -> int:
        """Those whose interval contains the gap."""
        return self.n_covered - self.n_changed_covered


def changed_coverage(
    heldout: HeldOut, changes: IntervalChanges, *, level: float, kind: IntervalKind = "prediction"
) -> ChangedCoverage | None:
    """Return how many intervals of held-out structures contain the gap, with and without changes.

    None for a run whose held-out structures have no p-values. Errors are those of
    `Predictions.interval`.
    """
    predictions = heldout.predictions
    if predictions.domain_p is None:
        return None
    is_changed = is_below(predictions, changes.highest_p)
    changed = changes.apply(predictions)
    is_widened = is_changed & np.isfinite(changed.sd_new_eV) & bool(changes.widen_below_p)
    covered = []
    for of_changes in (predictions, changed):
        lower, upper = of_changes.interval(level, kind)
        covered.append((lower <= heldout.gaps_eV) & (heldout.gaps_eV <= upper))
    unchanged, wider = covered
    return ChangedCoverage(
        len(heldout),
        int(unchanged.sum()),
        int(is_changed.sum()),
        int(unchanged[is_changed].sum()),
        int(is_widened.sum()),
        int(wider[is_widened].sum()),
    )


def changed_coverage_sentence(
    coverage: ChangedCoverage | None, changes: IntervalChanges, *, level: float
) -> str:
    """Return the coverage of what remains as it is, and of the changed intervals, in words.

    >>> changes = IntervalChanges(widen_below_p=0.05)
    >>> changed_coverage_sentence(ChangedCoverage(200, 188, 12, 8, 12, 11), changes, level=0.95)
    'Of 200 held-out structures of this run, 188 have a domain_p of 0.05 or more: their 95 % \
intervals contain the gap of 95.7 % of them (of all: 94.0 %). Of the others: 8 of 12 as they are, \
11 of 12 widened 2 times.'
    >>> changed_coverage_sentence(None, changes, level=0.95)
    'No held-out structure of this run has a p-value, so that the coverage of the other intervals \
is not measured.'
    """
    if coverage is None or not coverage.n:
        return (
            "No held-out structure of this run has a p-value, so that the coverage of the other "
            "intervals is not measured."
        )
    of_all = _share(coverage.n_covered, coverage.n)
    n_rest = f"{coverage.n_rest:,}" if coverage.n_rest else "none"
    intervals = f"{100 * level:.3g} % intervals"
    text = (
        f"Of {coverage.n:,} held-out structures of this run, {n_rest} have a "
        f"domain_p of {changes.highest_p:g} or more"
    )
    if coverage.n_rest:
        of_rest = _share(coverage.n_rest_covered, coverage.n_rest)
        text += f": their {intervals} contain the gap of {of_rest} of them (of all: {of_all})."
    else:
        text += f". The {intervals} of all contain the gap of {of_all}."
    if not coverage.n_changed:
        return text
    # these have a smaller p-value, or are not assessable
    text += f" Of the others: {coverage.n_changed_covered:,} of {coverage.n_changed:,} as they are"
    if coverage.n_widened:
        text += (
            f", {coverage.n_widened_covered:,} of {coverage.n_widened:,} widened "
            f"{changes.widen_factor:g} times"
        )
    return text + "."


def _share(part: int, n: int) -> str:
    if n < LEAST_PERCENTAGE:
        return f"{part:,} of {n:,}"
    return f"{100 * part / n:.1f} %"

"""Paired bootstrap of the difference between two runs, over the structures that both held out.

Both runs are measured on the same resampled structures, so that the difficulty of a structure
cancels. The interval contains the central share of the resampled differences (Efron and Tibshirani
1993, An Introduction to the Bootstrap, section 13.3). It describes the variation between test sets,
not between training sets or seeds.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut
from bandgap.foundation.errors import InputError

MIN_COMMON = 10  # structures; resampling fewer is meaningless
RESAMPLES = 2000
SAME_GAP_EV = 1e-6  # labels with a smaller difference are equal

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_CHUNK = 2_000_000  # resampled structures in memory


@dataclass(frozen=True)
class PairedDifference:
    """The RMSE of one run minus that of another in eV (negative: better), with its interval."""

    difference_eV: float
    lower_eV: float
    upper_eV: float
    n: int
    level: float = 0.95

    @property
    def is_significant(self) -> bool:
        """Whether the interval excludes zero, so that the test set shows the difference."""
        return self.lower_eV > 0.0 or self.upper_eV < 0.0


def common_rows(first: HeldOut, second: HeldOut) -> tuple[Rows, Rows]:
    """Return the rows (m,), (m,) of the structures that both runs held out with the
    same known gap.
    """
    row_in_second = {key: i for i, key in enumerate(second.keys)}
    pairs = [
        (i, row_in_second[key])
        for i, key in enumerate(first.keys)
        if key in row_in_second
        and abs(first.gaps_eV[i] - second.gaps_eV[row_in_second[key]]) <= SAME_GAP_EV
    ]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def paired_difference(
    run: HeldOut,
    baseline: HeldOut,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Return the RMSE of `run` minus that of `baseline`, with a percentile interval of the paired
    bootstrap.

    Parameters
    ----------
    run, baseline
        Held-out structures of the two runs.
    level
        Coverage of the interval.
    resamples, seed
        Number of bootstrap samples and seed.

    Raises
    ------
    InputError
        Where both runs held out fewer than `MIN_COMMON` structures with the same gap.
    """
    run_rows, baseline_rows = common_rows(run, baseline)
    n = run_rows.size
    if n < MIN_COMMON:
        raise InputError(
            f"{n} structures were held out by both runs; a paired difference needs at least "
            f"{MIN_COMMON}. Train one of them again with the data set, the seed and the number of "
            "held-out structures of the other."
        )
    # One row a structure, one column a run.
    losses = np.stack(
        [run.errors_eV[run_rows] ** 2, baseline.errors_eV[baseline_rows] ** 2], axis=1
    )
    resampled = _difference(resampled_means(losses, resamples, np.random.default_rng(seed)))
    lower, upper = np.quantile(resampled, [0.5 - level / 2.0, 0.5 + level / 2.0])
    difference = _difference(losses.mean(axis=0))
    return PairedDifference(float(difference), float(lower), float(upper), n, level)


def resampled_means(losses: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    """Return the means (resample, column) of resampled losses (structure, column)."""
    n = len(losses)
    step = max(1, _CHUNK // n)
    starts = range(0, resamples, step)
    return np.concatenate(
        [
            losses[generator.integers(n, size=(min(step, resamples - k), n))].mean(axis=1)
            for k in starts
        ]
    )


def sentence(difference: PairedDifference, *, baseline: str) -> str:
    """Return a difference as a phrase.

    >>> sentence(PairedDifference(-0.03, -0.05, -0.01, 300), baseline="A")
    '0.03 eV better than A on these 300 crystals (95 % interval of the difference 0.01 to 0.05)'
    >>> sentence(PairedDifference(0.01, -0.02, 0.04, 300), baseline="A")  # doctest: +ELLIPSIS
    'no difference to A that this test set can show (+0.01 eV on 300 crystals, 95 % interval ...'
    """
    percent = f"{100 * difference.level:.0f} %"
    digits = _digits(difference)
    if not difference.is_significant:
        low, middle, high = _signed(difference)
        return (
            f"no difference to {baseline} that this test set can show ({middle} eV on "
            f"{difference.n:,} crystals, {percent} interval {low} to {high})"
        )
    comparative = "better" if difference.difference_eV < 0 else "worse"
    near, far = sorted((abs(difference.lower_eV), abs(difference.upper_eV)))
    return (
        f"{abs(difference.difference_eV):.{digits}f} eV {comparative} than {baseline} "
        f"on these {difference.n:,} crystals ({percent} interval of the difference "
        f"{near:.{digits}f} to {far:.{digits}f})"
    )


def interval_text(difference: PairedDifference) -> str:
    """Return a difference with its interval for a cell of a table.

    >>> interval_text(PairedDifference(-0.03, -0.05, -0.01, 300))
    '-0.03 (-0.05 to -0.01)'
    """
    low, middle, high = _signed(difference)
    return f"{middle} ({low} to {high})"


def _digits(difference: PairedDifference) -> int:
    return decimals((difference.upper_eV - difference.lower_eV) / 2.0)


def _signed(difference: PairedDifference) -> list[str]:
    """Return lower end, difference and upper end with signs."""
    digits = _digits(difference)
    values = (difference.lower_eV, difference.difference_eV, difference.upper_eV)
    # + 0.0: never "-0.00"
    return [f"{round(value, digits) + 0.0:+.{digits}f}" for value in values]


def decimals(uncertainty: float) -> int:
    """Return the number of decimals for a number with this uncertainty: two, more for one below
    0.01.

    >>> decimals(0.02), decimals(0.004)
    (2, 3)
    """
    return 2 if uncertainty <= 0 else int(np.clip(-math.floor(math.log10(uncertainty)), 2, 5))


def _difference(means: Floats) -> Floats:
    values = np.sqrt(means)
    return values[..., 0] - values[..., 1]

"""Is one run better than another, or is it this test set? Paired bootstrap over the structures that both held out.

Both runs are measured on the same resampled structures, so that what makes a structure hard for both cancels; the
interval holds the central share of the resampled differences (Efron and Tibshirani 1993, An Introduction to the
Bootstrap, section 13.3). It says what another test set would give, not what another training set or seed would.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.heldout import HeldOut, crps_each
from bandgap.foundation.errors import InputError

Figure = Literal["rmse_eV", "mae_eV", "crps_eV"]

MIN_COMMON = 10  # structures, below which resampling them says nothing
RESAMPLES = 2000
SAME_GAP_EV = 1e-6  # labels that differ by less are the same label, written twice

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

_CHUNK = 2_000_000  # resampled structures that are held at a time

LOSSES: Mapping[Figure, Callable[[HeldOut], Floats]] = {
    "rmse_eV": lambda held: held.errors_eV**2,
    "mae_eV": lambda held: np.abs(held.errors_eV),
    "crps_eV": crps_each,
}


@dataclass(frozen=True)
class PairedDifference:
    """A figure of one run less that of another (eV, negative: better), its interval, and on how many structures."""

    difference_eV: float
    lower_eV: float
    upper_eV: float
    n: int
    level: float = 0.95

    @property
    def shown(self) -> bool:
        """Whether the interval leaves out zero: the test set can show the difference."""
        return self.lower_eV > 0.0 or self.upper_eV < 0.0


def common_rows(first: HeldOut, second: HeldOut) -> tuple[Rows, Rows]:
    """Return the rows (m,), (m,) of the structures that both runs held out with the same known gap."""
    place = {key: i for i, key in enumerate(second.keys)}
    pairs = [
        (i, place[key])
        for i, key in enumerate(first.keys)
        if key in place and abs(first.gaps_eV[i] - second.gaps_eV[place[key]]) <= SAME_GAP_EV
    ]
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return rows[:, 0], rows[:, 1]


def paired_difference(
    run: HeldOut,
    baseline: HeldOut,
    *,
    figure: Figure = "rmse_eV",
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> PairedDifference:
    """Return a figure of `run` less that of `baseline` with the percentile interval of the paired bootstrap.

    Raises InputError where fewer than `MIN_COMMON` structures were held out by both with the same gap.
    """
    ours, theirs = common_rows(run, baseline)
    n = ours.size
    if n < MIN_COMMON:
        raise InputError(
            f"{n} structures were held out by both runs; a paired difference needs at least {MIN_COMMON}. Train one of "
            "them again with the data set, the seed and the number of held-out structures of the other."
        )
    losses = np.stack([LOSSES[figure](run)[ours], LOSSES[figure](baseline)[theirs]], axis=1)  # (n, 2)
    drawn = _difference(resampled_means(losses, resamples, np.random.default_rng(seed)), figure)
    lower, upper = np.quantile(drawn, [0.5 - level / 2.0, 0.5 + level / 2.0])
    found = _difference(losses.mean(axis=0), figure)
    return PairedDifference(float(found), float(lower), float(upper), n, level)


def resampled_means(losses: Floats, resamples: int, generator: np.random.Generator) -> Floats:
    """Return the means (resample, column) of losses (structure, column) whose rows are drawn anew with replacement."""
    n = len(losses)
    step = max(1, _CHUNK // n)
    starts = range(0, resamples, step)
    return np.concatenate(
        [losses[generator.integers(n, size=(min(step, resamples - k), n))].mean(axis=1) for k in starts]
    )


def sentence(found: PairedDifference, *, baseline: str) -> str:
    """Put a difference in words.

    >>> sentence(PairedDifference(-0.03, -0.05, -0.01, 300), baseline="fine-tuning")
    '0.03 eV better than fine-tuning on these 300 crystals (95 % interval of the difference 0.01 to 0.05)'
    >>> sentence(PairedDifference(0.01, -0.02, 0.04, 300), baseline="fine-tuning")
    'no difference to fine-tuning that this test set can show (+0.01 eV on 300 crystals, 95 % interval -0.02 to +0.04)'
    """
    percent, digits = f"{100 * found.level:.0f} %", decimals((found.upper_eV - found.lower_eV) / 2.0)
    if not found.shown:
        values = (found.lower_eV, found.difference_eV, found.upper_eV)
        low, middle, high = (f"{round(value, digits) + 0.0:+.{digits}f}" for value in values)  # + 0.0: never "-0.00"
        return (
            f"no difference to {baseline} that this test set can show ({middle} eV on {found.n:,} crystals, "
            f"{percent} interval {low} to {high})"
        )
    near, far = sorted((abs(found.lower_eV), abs(found.upper_eV)))
    return (
        f"{abs(found.difference_eV):.{digits}f} eV {'better' if found.difference_eV < 0 else 'worse'} than {baseline} "
        f"on these {found.n:,} crystals ({percent} interval of the difference {near:.{digits}f} to {far:.{digits}f})"
    )


def decimals(uncertainty: float) -> int:
    """Return how many decimals a number of this uncertainty is shown with: two, more where it is below 0.01.

    >>> decimals(0.02), decimals(0.004)
    (2, 3)
    """
    return 2 if uncertainty <= 0 else int(np.clip(-math.floor(math.log10(uncertainty)), 2, 5))


def _difference(means: Floats, figure: Figure) -> Floats:
    values = np.sqrt(means) if figure == "rmse_eV" else means
    return values[..., 0] - values[..., 1]

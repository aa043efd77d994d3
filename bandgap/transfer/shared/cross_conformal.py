"""Cross-conformal methods: folds from the seed, one fit without each fold, errors on held-out rows.

Every step that uses gaps is repeated without each fold, the choice of settings included. Otherwise
the errors would be too small. Of the source only the descriptor is used.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.progress import Progress, Update
from bandgap.posterior import ConformalPosterior, Diagnostics
from bandgap.posterior.fold_models import FoldModels
from bandgap.predictions.conformal import smallest_calibration_set
from bandgap.transfer.shared.method import TargetData

FOLDS = 10
PROBABILITY = 0.95  # of the interval that a warning is about


def fold_of_rows(
    n: int, *, folds: int, seed: int, groups: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the fold (n,) of every row: random folds of equal sizes, at most n of them.

    Rows of one of the `groups` (n,) are in one fold; folds then have as many groups.
    """
    if groups is not None:
        numbers, group_of_row = np.unique(groups, return_inverse=True)
        if numbers.size < n:
            return fold_of_rows(numbers.size, folds=folds, seed=seed)[group_of_row]
    order = np.random.default_rng(np.random.SeedSequence([seed, 0xC0F01D])).permutation(n)
    fold = np.empty(n, dtype=np.int64)
    fold[order] = np.arange(n) % min(folds, n)
    return fold


def fold_seed(seed: int, k: int) -> int:
    """Return the seed, below 2^32, of the fit without fold k."""
    return int(np.random.SeedSequence([seed, k]).generate_state(1)[0])


def without_each(
    fold: NDArray[np.int64], *, phase: str, progress: Progress
) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """Yield every fold's number and the rows outside it, and report how many folds are done."""
    folds = int(fold.max()) + 1
    for k in range(folds):
        progress(Update(phase, k, folds))
        yield k, np.flatnonzero(fold != k)
    progress(Update(phase, folds, folds))


def conformal_posterior(
    models: FoldModels, data: TargetData, fold: NDArray[np.int64]
) -> ConformalPosterior:
    """Return the posterior of fold models, from the error of each row in the model without it."""
    n = fold.size
    errors = data.gaps_eV - models.predict_eV(data.features)[fold, np.arange(n)]
    figures = {"cv_rmse_eV": float(np.sqrt(np.mean(errors**2))), "folds": float(fold.max() + 1)}
    return ConformalPosterior(models, fold, errors, diagnostics=Diagnostics(figures, _warnings(n)))


def _warnings(n: int) -> tuple[str, ...]:
    if n >= smallest_calibration_set(PROBABILITY):
        return ()
    return (
        f"{n} labelled structures are too few for {100 * PROBABILITY:g} % intervals, which need "
        f"{smallest_calibration_set(PROBABILITY)} errors: read those of {100 * n // (n + 1)} % or "
        "less.",
    )

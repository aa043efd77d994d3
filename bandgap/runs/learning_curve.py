"""Measure the learning curve of a tested run: its method on a quarter, a half, ... of its labels.

Every fit has the settings of the run and predicts the structures that the run held out. The last
point of the curve is the run itself, whose stored predictions are used.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.shipped_models import folder_of_source
from bandgap.datasets.table import LabelledSet
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.heldout import load_heldout
from bandgap.evaluation.learning_curve import (
    MIN_SIZES,
    N_SEEDS,
    N_SIZES,
    LearningCurve,
    check_numbers,
    learning_curve_of,
    sizes_of,
)
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.runs.parent_test import read_parent
from bandgap.runs.refit import check_content
from bandgap.runs.requests import TransferRequest
from bandgap.runs.results import mean_and_sd
from bandgap.runs.transfer import Prepared, SplitTables, fit, prepare, split_rows

Floats = NDArray[np.float64]


@checked_keywords()
def measure_learning_curve(
    run: Path | str,
    source: Path | str | None,
    data: LabelledSet,
    *,
    n_seeds: int = N_SEEDS,
    n_sizes: int = N_SIZES,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> LearningCurve:
    """Measure the error of a run's method against the number of labels.

    The training structures of the run are permuted once for each seed. The first quarter, half and
    three quarters of each permutation are learned from with the method, settings and source of the
    run, and all are tested on the structures that the run held out. The run is not changed.

    Parameters
    ----------
    run
        Folder of a run with held-out structures.
    source, data
        Source model and labelled structures of the run, as in `transfer_run`.
    n_seeds
        Number of permutations, and of seeds of the method.
    n_sizes
        Number of sizes with that of the run, evenly spaced, at least 3.
    cache, progress
        As in `transfer_run`.

    Returns
    -------
    LearningCurve
        Errors, power law and their uncertainty.

    Raises
    ------
    InputError
        When the run learned from fewer than 40 labels or was tested on fewer than 20 structures.
        When structures, labels or source are not those of the run. For a run without a test, and
        for one that was refitted on all labels.
    """
    parent = read_parent(as_folder(run, name="run"))
    n_test = len(parent.manifest["split"]["test"])
    check_numbers(int(parent.manifest["n"]), n_test, what=str(parent.folder))
    if n_seeds < 1 or n_sizes < MIN_SIZES:
        raise InputError(
            f"learning curve: {n_seeds=}, {n_sizes=}. Accepted: n_seeds from 1, n_sizes from "
            f"{MIN_SIZES}."
        )
    heldout = load_heldout(parent.folder, parent.manifest)
    request = TransferRequest(**parent.manifest["request"])
    prepared = prepare(folder_of_source(source), data, request)
    check_content(parent, prepared)
    tables = split_rows(prepared, cache=cache, progress=progress)
    split = {"train": tables.train.ids, "test": tables.test.ids}
    if split != parent.manifest["split"] or list(heldout.predictions.ids) != tables.test.ids:
        raise InputError(
            f"{parent.folder}: its split cannot be repeated; it was made by another version of "
            "bandgap. Train the run again."
        )
    sizes = sizes_of(len(tables.train), n_sizes)
    errors_eV = np.empty((n_seeds, n_sizes, n_test))
    errors_eV[:, -1] = heldout.errors_eV
    fits = [(seed, k) for k in range(n_sizes - 1) for seed in range(n_seeds)]
    for done, (seed, k) in enumerate(fits):
        text = f"{sizes[k]:,} labels, draw {seed + 1} of {n_seeds}"
        note = _progress_of_fit(progress, done, len(fits), text)
        note(Update("starting"))
        errors_eV[seed, k] = _errors_of_fit(prepared, tables, sizes[k], draw=seed, progress=note)
    progress(Update("fitting the power law", len(fits), len(fits)))
    return learning_curve_of(sizes, errors_eV)


def _errors_of_fit(
    prepared: Prepared, tables: SplitTables, n: int, *, draw: int, progress: Progress
) -> Floats:
    """Return predicted minus known gap (eV) of the test rows, learned from `n` training rows."""
    seed = prepared.request.seed
    rows = np.random.default_rng([seed, draw]).permutation(len(tables.train))[:n]
    request = prepared.request.changed(seed=seed + draw, checkpoint_every=0)
    smaller = replace(tables, train=tables.train.rows(rows))
    try:
        fitted = fit(
            replace(prepared, request=request), smaller, checkpoints=Path(), progress=progress
        )
    except InputError as error:
        raise InputError(
            f"learning curve: the fit with {n:,} of the {len(tables.train):,} labels is refused. "
            f"{error}"
        ) from error
    mean_eV, _ = mean_and_sd(fitted.posterior.predictive_draws(tables.test.inputs))
    return mean_eV - tables.test.gaps_eV


def _progress_of_fit(progress: Progress, done: int, total: int, text: str) -> Progress:
    """Return a progress for one fit, whose updates count the fits of the curve."""

    def note(update: Update, /) -> None:
        message = f"{text}: {update.phase}"
        progress(Update("fitting", done, total, message=message, values=update.values))

    return note

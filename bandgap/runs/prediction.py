"""The prediction of new structures by a stored run: one row for every record."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.calibrators import load_calibrator
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.predictions.conformal import available, conformal_quantile
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import IntervalKind, Predictions, check_kind, check_level
from bandgap.runs.results import DrawnRecords, draw_records, record_details, record_predictions
from bandgap.runs.stored import Run, load_run
from bandgap.structures import StructureRecord


def predict_run(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    *,
    level: float = 0.95,
    interval: IntervalKind = "prediction",
    calibrated: bool = True,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Predictions:
    """Predict the gaps of new structures with a stored run: one row for every record, refused ones with empty numbers.

    `level` and `interval` are only checked here; every level and kind is in what is returned. A calibrator that is
    stored with the run is applied, unless `calibrated` is False. Raises ConfigError or InputError where the run gives
    no interval of this kind and level.
    """
    check_level(level)
    check_kind(interval)
    run = load_run(model_folder)
    calibrator = load_calibrator(Path(model_folder)) if calibrated else None
    if interval == "conformal":
        given = run.conformal if calibrator is None else calibrator.conformal or run.conformal
        conformal_quantile(available(given).scores, level)
    drawn = _drawn(run, records, cache=cache, n_jobs=n_jobs, progress=progress)
    predictions = record_predictions(run, records, drawn)
    return predictions if calibrator is None else calibrator.apply(predictions)


def predict_in_detail(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    *,
    labelled: NDArray[np.bool_],
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> tuple[Predictions, PredictionDetails]:
    """Predict as `predict_run` does, and return the details beside; `labelled` (n,) are records with a known gap."""
    run = load_run(model_folder)
    drawn = _drawn(run, records, cache=cache, n_jobs=n_jobs, progress=progress)
    return record_predictions(run, records, drawn), record_details(records, drawn, labelled=labelled)


def _drawn(
    run: Run,
    records: Sequence[StructureRecord],
    *,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> DrawnRecords:
    described = featurize(list(records), run.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    progress(Update("predicting", 0, len(records)))
    drawn = draw_records(run, records, described)
    progress(Update("predicting", len(records), len(records)))
    return drawn

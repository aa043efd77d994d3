"""The job that predicts all structures of a data set with a finished run, chunk by chunk.

Only few structures are in memory, as structures and predictions are on the disk. A job that was
cancelled or killed leaves its finished chunks, and the next job of the same work resumes.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.matching import match_names
from bandgap.datasets.units import TO_EV
from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs import resuming
from bandgap.jobs.home import shapes_path
from bandgap.jobs.library import Library
from bandgap.jobs.listing import labelled_rows, names_and_numbers
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.tasks.data import write_shapes
from bandgap.jobs.tasks.records import (
    Work,
    baseline_unit,
    spool_records,
    uploaded_features,
    verdict,
)
from bandgap.predictions.table import STATUSES
from bandgap.runs.requests import PredictRequest
from bandgap.storage.manifests import read_manifest
from bandgap.structures.shapes import has_shapes

if TYPE_CHECKING:
    from bandgap.predictions.growing_store import GrowingPrediction
    from bandgap.runs.chunks import ChunkPlan
    from bandgap.structures.spool import Spool

CHUNK = 256  # structures that are predicted and written at once: about a second of work
_BATCH = 1_000  # verdicts that are written at once


def predict(work: Work) -> dict[str, Any]:
    """Predict the gaps of every structure of a data set with a finished run.

    Returns the numbers of rows by status.
    """
    from bandgap.datasets.own_features import own_of_run, run_features
    from bandgap.predictions.growing_store import GrowingPrediction
    from bandgap.runs.chunks import ChunkPlan, work_of
    from bandgap.runs.row_digest import RowDigest

    library = work.library
    dataset = work.dataset
    payload = work.job.payload
    folder = work.home.run_folder(work.run.id)
    records = spool_records(library, dataset, progress=work.progress)
    if not len(records):
        raise InputError(f"{dataset.name} contains no files. Upload its structures again.")
    if dataset.purpose == "prediction":
        _check(library, dataset, records, progress=work.progress)
    labelled = labelled_rows(library, dataset.id)
    if labelled.size != len(records):
        labelled = np.zeros(len(records), dtype=bool)
    upload = uploaded_features(work.home, payload.get("features", ""))
    table = run_features(upload, own_of_run(read_manifest(folder, kind="run")))
    baseline = baseline_of(library, dataset, work.run, payload.get("baselines"))
    plan = ChunkPlan(  # not calibrated: the dashboard applies a stored calibrator
        folder,
        PredictRequest(chunk_size=CHUNK, calibrated=False),
        cache=work.cache,
        user_features=table,
    )
    made_by = [
        work_of(plan, has_baseline=baseline is not None),
        hashlib.sha256(labelled.tobytes()).hexdigest(),
    ]
    chunks_folder = resuming.unfinished_prediction_folder(work.home, payload)
    made_of = RowDigest(records, baseline)
    with GrowingPrediction(chunks_folder, work=fingerprint(made_by), made_of=made_of) as growing:
        _predict(
            growing, records, plan, baseline_eV=baseline, labelled=labelled, progress=work.progress
        )
        work.progress(Update("writing the table"))
        growing.finish(work.home.prediction_folder(work.run.id, work.job.id))
    shutil.rmtree(chunks_folder, ignore_errors=True)
    counts = dict.fromkeys(STATUSES, 0) | growing.counts
    return {"n": growing.rows, "n_resumed_rows": growing.n_resumed_rows, **counts}


def _predict(
    growing: GrowingPrediction,
    records: Spool,
    plan: ChunkPlan,
    *,
    baseline_eV: NDArray[np.float64] | None,
    labelled: NDArray[np.bool_],
    progress: Progress,
) -> None:
    """Add the missing chunks."""
    from bandgap.runs.chunks import predict_chunks

    chunks = predict_chunks(
        records,
        plan,
        n=len(records),
        first=growing.rows,
        baseline_eV=baseline_eV,
        labelled=labelled,
        progress=progress,
    )
    for chunk in chunks:
        assert chunk.details is not None  # as `labelled` is given
        growing.add(chunk.predictions, chunk.details, chunk.records)


def _check(library: Library, dataset: Dataset, records: Spool, *, progress: Progress) -> None:
    """Store the verdicts and the shapes of structures that were uploaded to be predicted."""
    remaining_records = iter(records)
    for first in range(0, len(records), _BATCH):
        progress(Update("storing verdicts", first, len(records)))
        batch = islice(remaining_records, _BATCH)
        library.save_verdicts(dataset.id, map(verdict, batch), first=first)
    # an earlier attempt may have written the shapes
    if not has_shapes(shapes_path(library.home, dataset.id), len(records)):
        write_shapes(library.home, dataset.id, records, n=len(records), progress=progress)


def baseline_of(
    library: Library, dataset: Dataset, run: RunRow, table: Mapping[str, Any] | None
) -> NDArray[np.float64] | None:
    """Return the baseline (n,) in eV of the structures of a data set; None for a run without one.

    Values of `table` (`ids`, `files`, `gaps_eV`) have priority over those of the store. Raises
    InputError where no structure has a value.
    """
    name = run.request.baseline
    if not name:
        return None
    ids, files, values = names_and_numbers(library, dataset.id, name)
    if np.isfinite(values).any():
        values = values * TO_EV[baseline_unit(dataset, name)]
    if table is not None:
        gaps = np.array(table["gaps_eV"], dtype=np.float64)
        table_values = match_names(
            ids, files, label_ids=table["ids"], label_files=table["files"], gaps_eV=gaps
        ).gaps
        values = np.where(np.isfinite(table_values), table_values, values)
    if not np.isfinite(values).any():
        raise InputError(
            f"This run corrects {name} of every structure, and none of these has it. Give a table "
            f"with a column id or file and a column {name}, or extXYZ files that hold it."
        )
    return values

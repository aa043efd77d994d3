"""The jobs that transfer a source model to the labelled structures of a data set, and that predict with the run."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.matching import match_names
from bandgap.foundation.errors import Cancelled, InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs import resuming
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.sources import source_path
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.data import write_shapes
from bandgap.jobs.tasks.records import dataset_of, labelled_records, numbers, read_records, verdict
from bandgap.sources.cards import NO_SOURCE

SETTINGS = (
    "method",
    "n",
    "n_test",
    "seed",
    "conformal_share",
    "by_formula",
    "levels",
    "baseline",
    "settings",
    "device",
)


def transfer(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Transfer a source model to the labelled structures of a data set and write the run's folder.

    A job that does the same as one that was interrupted goes on from where that one was; a cancelled one leaves
    nothing behind.
    """
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.machine import set_threads
    from bandgap.inference.checkpoints import ForeignCheckpointError
    from bandgap.runs.transfer import transfer_run

    set_threads()
    library, dataset = dataset_of(job, home)
    named = str(job.payload.get("baseline", ""))
    records, gaps, baseline = labelled_records(library, dataset, baseline=named, progress=progress)
    checkpoints = resuming.checkpoints_of(home, job.payload)
    resumed, source = checkpoints.exists(), job.payload["source"]

    def run() -> Path:
        return transfer_run(
            None if source == NO_SOURCE else source_path(library, job.workspace, source),
            records,
            gaps,
            baseline_eV=baseline,
            **{name: value for name, value in job.payload.items() if name in SETTINGS},
            out=home.run_folder(job.payload["run"]),
            level_of_theory=dataset.level_of_theory,
            cache=DescriptorCache(home.cache),
            progress=progress,
            checkpoints=checkpoints,
        )

    try:
        folder = run()
    except Cancelled:
        shutil.rmtree(checkpoints, ignore_errors=True)
        raise
    except ForeignCheckpointError:  # the data set's gaps or the program have changed since
        shutil.rmtree(checkpoints, ignore_errors=True)
        folder = run()
    return {"folder": folder.name, "resumed": resumed}


def predict(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Predict the gaps of every structure of a data set with a finished run."""
    from bandgap.descriptors.cache import DescriptorCache
    from bandgap.foundation.machine import set_threads
    from bandgap.predictions.store import write_prediction
    from bandgap.runs.prediction import predict_in_detail

    set_threads()
    (library, dataset), run_id = dataset_of(job, home), job.payload["run"]
    if (run := library.run(job.workspace, run_id)) is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    records = read_records(library, dataset, progress=progress)
    if dataset.purpose == "prediction":
        library.save_verdicts(dataset.id, [verdict(record) for record in records])
        write_shapes(home, dataset.id, records, progress=progress)
    known = np.array([v.gap_eV is not None for v in library.verdicts(dataset.id)], dtype=bool)
    labelled = known if known.size == len(records) else np.zeros(len(records), dtype=bool)
    predictions, details = predict_in_detail(  # as trained: pages apply a stored calibrator
        home.run_folder(run_id),
        records,
        labelled=labelled,
        baseline_eV=baseline_of(library, dataset, run, job.payload.get("baselines")),
        cache=DescriptorCache(home.cache),
        progress=progress,
    )
    write_prediction(home.prediction_folder(run_id, job.id), predictions, details, records)
    return {"n": len(predictions), "refused": sum(status == "refused" for status in predictions.status)}


def baseline_of(
    library: Library, dataset: Dataset, run: RunRow, table: Mapping[str, Any] | None
) -> NDArray[np.float64] | None:
    """Return the baseline (n,) in eV that a run asks for, of all structures of a data set; None where it asks for none.

    What a table has (`ids`, `files`, `gaps_eV`) goes before what the store has. Raises InputError where no structure
    has any.
    """
    name = str(run.config.get("baseline", ""))
    if not name:
        return None
    verdicts = library.verdicts(dataset.id)
    values = numbers(verdicts, name)
    if table is not None:
        gaps = np.array(table["gaps_eV"], dtype=np.float64)
        ids, files = [v.id for v in verdicts], [v.file for v in verdicts]
        found = match_names(ids, files, label_ids=table["ids"], label_files=table["files"], gaps_eV=gaps).gaps
        values = np.where(np.isfinite(found), found, values)
    if not np.isfinite(values).any():
        raise InputError(
            f"This run corrects {name} of every structure, and none of these has it. Give a table with a column id or "
            f"file and a column {name}, or extXYZ files that hold it."
        )
    return values

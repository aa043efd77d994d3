"""The jobs that transfer a source model to the labelled structures of a data set, and that predict with the run."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.foundation.errors import Cancelled, InputError
from bandgap.foundation.progress import Progress
from bandgap.jobs import resuming
from bandgap.jobs.home import Home
from bandgap.jobs.sources import source_path
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.data import write_shapes
from bandgap.jobs.tasks.records import dataset_of, labelled_records, read_records, verdict

SETTINGS = ("method", "n", "n_test", "seed", "conformal_share", "by_formula", "levels", "settings", "device")


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
    records, gaps = labelled_records(library, dataset, progress=progress)
    checkpoints = resuming.checkpoints_of(home, job.payload)
    resumed = checkpoints.exists()

    def run() -> Path:
        return transfer_run(
            source_path(library, job.workspace, job.payload["source"]),
            records,
            gaps,
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
    if library.run(job.workspace, run_id) is None:
        raise InputError("This workspace has no such run. Choose a finished run from the list.")
    records = read_records(library, dataset, progress=progress)
    if dataset.purpose == "prediction":
        library.save_verdicts(dataset.id, [verdict(record) for record in records])
        write_shapes(home, dataset.id, records, progress=progress)
    known = np.array([v.gap_eV is not None for v in library.verdicts(dataset.id)], dtype=bool)
    labelled = known if known.size == len(records) else np.zeros(len(records), dtype=bool)
    predictions, details = predict_in_detail(  # as trained: pages apply a stored calibrator
        home.run_folder(run_id), records, labelled=labelled, cache=DescriptorCache(home.cache), progress=progress
    )
    write_prediction(home.prediction_folder(run_id, job.id), predictions, details, records)
    return {"n": len(predictions), "refused": sum(status == "refused" for status in predictions.status)}

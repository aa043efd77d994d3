"""The job that transfers a source model to the labelled structures of a data set."""

import shutil
from pathlib import Path
from typing import Any

from bandgap.foundation.errors import Cancelled
from bandgap.foundation.machine import cores
from bandgap.jobs import resuming
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.more_draws import copy_checkpoints, keep_last_checkpoint
from bandgap.jobs.refitting import parent_folder
from bandgap.jobs.sources import source_path
from bandgap.jobs.starting import EXTENDS
from bandgap.jobs.tasks.records import Work, labelled_set
from bandgap.runs.requests import TransferRequest
from bandgap.sources.cards import NO_SOURCE


def transfer(work: Work) -> dict[str, Any]:
    """Transfer a source model to the labelled structures of a data set and write the run's folder.

    With a parent in the payload, that run is refitted on all labels. An interrupted transfer
    resumes from its checkpoints. A cancelled one leaves no files.
    """
    from bandgap.inference.checkpoints import ForeignCheckpointError
    from bandgap.runs.refit import refit_run
    from bandgap.runs.transfer import transfer_run

    job = work.job
    library = work.library
    request = TransferRequest(**job.payload["request"]).changed(n_jobs=cores())
    dataset = work.dataset
    licence = str(dataset.labels.get("source", "")) if dataset.origin in DEMOS else ""
    data = labelled_set(library, dataset, request, licence=licence, progress=work.progress)
    source = job.payload["source"]
    source_folder = None if source == NO_SOURCE else source_path(library, job.workspace, source)
    checkpoints = resuming.checkpoint_folder(work.home, job.payload)
    if EXTENDS in job.payload:
        copy_checkpoints(library, job)
    resumed = checkpoints.exists()

    options: dict[str, Any] = {
        "out": work.home.run_folder(job.payload["run"]),
        "cache": work.cache,
        "progress": work.progress,
        "checkpoints": checkpoints,
        "inputs": {"data_set": dataset.name},
    }

    def run() -> Path:
        if resuming.PARENT in job.payload:
            parent = parent_folder(library, job)
            return refit_run(parent, source_folder, data, **options)
        return transfer_run(source_folder, data, request, keeps_checkpoints=True, **options)

    try:
        folder = run()
    except Cancelled:
        shutil.rmtree(checkpoints, ignore_errors=True)
        raise
    except ForeignCheckpointError:  # the gaps of the data set or the program have changed
        shutil.rmtree(checkpoints, ignore_errors=True)
        folder = run()
    if checkpoints.is_dir():
        keep_last_checkpoint(work.home, job, checkpoints)
    return {"folder": folder.name, "resumed": resumed}

"""The job that transfers a source model to the labelled structures of a data set."""

import shutil
from pathlib import Path
from typing import Any

from bandgap.foundation.errors import Cancelled
from bandgap.foundation.progress import Progress
from bandgap.jobs import resuming
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.sources import source_path
from bandgap.jobs.store import Job
from bandgap.jobs.tasks.records import labelled_records


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
    library, payload = Library(home), job.payload
    dataset = library.dataset(job.workspace, payload["dataset"])
    records, gaps = labelled_records(library, dataset, progress=progress)
    checkpoints = resuming.checkpoints_of(home, payload)
    resumed = checkpoints.exists()

    def run() -> Path:
        return transfer_run(
            source_path(library, job.workspace, payload["source"]),
            records,
            gaps,
            method=payload["method"],
            n=payload["n"],
            n_test=payload["n_test"],
            seed=payload["seed"],
            conformal_share=payload.get("conformal_share", 0.0),
            by_formula=payload.get("by_formula", False),
            out=home.run_folder(payload["run"]),
            level_of_theory=dataset.level_of_theory,
            levels=payload.get("levels", "none"),
            settings=payload.get("settings", {}),
            device=payload.get("device", "auto"),
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

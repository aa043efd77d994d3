"""Start the measurement of a run's learning curve, and find its file."""

from pathlib import Path

from bandgap.evaluation.learning_curve import FILE, N_SEEDS
from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job, JobStore

KIND = "learning_curve"


def start_curve(jobs: JobStore, library: Library, run: RunRow, *, n_seeds: int = N_SEEDS) -> Job:
    """Queue the measurement of the learning curve of a finished run, or return the active job.

    Raises InputError when the data set of the run was deleted, and for a run that is not finished.
    """
    transfer = jobs.job(run.workspace, run.job)
    if transfer is None or transfer.state != "finished":
        raise InputError(f"{run.title} is not finished. Only a finished run has a learning curve.")
    dataset = library.dataset(run.workspace, run.dataset)
    return jobs.start(
        run.workspace,
        KIND,
        title=f"Learning curve of {run.title}",
        payload={
            "run": run.id,
            "dataset": dataset.id,
            "source": run.source,
            "n_seeds": n_seeds,
        },
        subject=run.id,
        again=True,
    )


def curve_path(home: Home, run_id: str) -> Path:
    """Return the path of the learning curve of a run; it need not exist."""
    return home.run_folder(run_id) / FILE

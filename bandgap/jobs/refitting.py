"""Start the refit of a tested run on all labels, and find the refits of a workspace."""

from collections.abc import Mapping
from pathlib import Path

from bandgap.foundation.errors import InputError
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import PARENT
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest

MAX_TITLE = 120


def start_refit(jobs: JobStore, library: Library, run: RunRow) -> Started:
    """Queue the refit of a finished run, or return the refit of it that exists.

    Raises InputError when its data set was deleted, and when the run is a refit or not finished.
    """
    job = jobs.job(run.workspace, run.job)
    if job is None or job.state != "finished":
        raise InputError(f"{run.title} is not finished. Only a finished run can be refitted.")
    if PARENT in job.payload:
        raise InputError(f"{run.title} has learned from all labels already.")
    dataset = library.dataset(run.workspace, run.dataset)
    n_labels = library.counts(dataset.id)["usable"]
    return start_transfer(
        jobs,
        library,
        dataset,
        source=run.source,
        request=request_for_all(run.request, n_labels),
        title=title_for_all(run.title, run.request.n, n_labels),
        parent=run.id,
    )


def request_for_all(request: TransferRequest, n_labels: int) -> TransferRequest:
    """Return the request as the lists of runs and the estimate of the time show it."""
    return request.changed(n=n_labels, n_test=0, test_ids=None, conformal_share=0.0)


def title_for_all(title: str, n: int | None, n_labels: int) -> str:
    """Return the title of the refit of a run that learned from `n` labels.

    >>> title_for_all("BTL-PCP, n = 212, by formula", 212, 303)
    'Refitted on all 303, BTL-PCP, by formula'
    """
    shortened = title.replace(f", n = {n}", "", 1)
    return f"Refitted on all {n_labels:,}, {shortened}"[:MAX_TITLE]


def parent_of(job: Job | None) -> str:
    """Return the id of the run that the job of a run refits, "" for other runs."""
    return "" if job is None else str(job.payload.get(PARENT, ""))


def refit_of(run_id: str, runs: Mapping[str, RunRow], jobs: Mapping[str, Job]) -> RunRow | None:
    """Return the newest refit of a run among `runs`, ordered from new to old; None without one."""
    return next((row for row in runs.values() if parent_of(jobs.get(row.job)) == run_id), None)


def parent_folder(library: Library, job: Job) -> Path:
    """Return the folder of the run that a job refits.

    Raises InputError when the run was deleted.
    """
    parent = library.run(job.workspace, parent_of(job))
    if parent is None:
        raise InputError(
            "The run to refit was deleted. Train a new run with some structures held out, and "
            "refit that one."
        )
    return library.home.run_folder(parent.id)

"""Start transfers: one job for each method, however often the same is asked for.

The key of a job is what it computes. Pressed twice, the second press finds the first one's run; so it does when the
run is finished, as the same settings and seed give the same result. Only a run that did not finish is started anew.
"""

import hashlib
import uuid
from dataclasses import dataclass

from bandgap.foundation.config import fingerprint
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest


@dataclass(frozen=True)
class Started:
    """The run of a transfer that was asked for, and whether it was there before."""

    run: str
    job: Job
    new: bool


def start_transfer(
    jobs: JobStore,
    library: Library,
    dataset: Dataset,
    *,
    source: str,
    request: TransferRequest,
    title: str,
) -> Started:
    """Queue a transfer to a data set and add its run, or return the run that did or does the same work.

    `source` is the id of a source model in the workspace, or `NO_SOURCE`. The request names its method.
    """
    workspace = dataset.workspace
    work = fingerprint([dataset.id, _gaps(library, dataset), source, request.work])
    earlier = [
        job for job in jobs.jobs(workspace, kinds=["transfer"], limit=10_000) if _work(job) == work
    ]
    if earlier and (earlier[0].active or earlier[0].state == "finished"):
        return Started(earlier[0].subject, earlier[0], new=False)
    key = f"transfer-{work}-{earlier[0].id if earlier else 'first'}"
    run_id = _run_id(workspace, key)
    with jobs.database.writing():  # a job never without its run, whenever the page's process ends
        job = jobs.submit(
            workspace,
            "transfer",
            title=title,
            payload={
                "dataset": dataset.id,
                "source": source,
                "request": request.to_values(),
                "run": run_id,
                "work": work,
            },
            subject=run_id,
            submit_key=key,
        )
        library.add_run(
            workspace,
            job=job.id,
            run_id=run_id,
            dataset=dataset.id,
            source=source,
            request=request,
            title=title,
        )
    return Started(run_id, job, new=True)


def _work(job: Job) -> str:
    return str(job.payload.get("work", ""))


def _gaps(library: Library, dataset: Dataset) -> str:
    """Return what tells whether the gaps of a data set have changed, without reading every verdict."""
    (row,) = library.database.rows(
        "SELECT count(gap_eV), total(gap_eV), total(gap_eV * row), total(gap_eV * gap_eV) FROM structure"
        " WHERE dataset = ?",
        dataset.id,
    )
    return f"{tuple(row)!r} {dataset.level_of_theory}"


def _run_id(workspace: str, key: str) -> str:
    """Return an id that two presses of a button agree on and that nobody outside of the workspace can know."""
    digest = hashlib.sha256(f"{workspace} {key}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))

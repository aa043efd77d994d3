"""Start transfers: one job for each method, however often the same one is requested.

The key of a job is what it computes. A second press of the button finds the run of the first one,
also when it is finished, as the same settings and seed give the same result. Only a run that did
not finish is started again.
"""

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from bandgap.foundation.config import fingerprint
from bandgap.jobs.deletions import make_room
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import PARENT
from bandgap.jobs.rows import Dataset
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest

EXTENDS = "extends"  # in the payload: the id of the finished run of fewer draws
FIRST_ANSWER = (
    "first_answer"  # in the payload: the id of the run of a quicker method before this one
)


@dataclass(frozen=True)
class Started:
    """The run of a requested transfer, its job, and whether they are new."""

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
    parent: str = "",
    extends: str = "",
    first_answer: str = "",
) -> Started:
    """Queue a transfer to a data set and add its run, or return the run of the same work.

    `source` is the id of a source model in the workspace, or `NO_SOURCE`. The request names its
    method. With `parent`, the id of a tested run, the job refits that run on all labels. With
    `extends`, the id of a finished run of fewer draws, sampling continues from that run's last
    checkpoint if it is still stored; the result is the same without. `first_answer` is the id of
    the run of a quicker method on the same split that was started before this one.
    """
    workspace = dataset.workspace
    gaps = _gaps(library, dataset)
    work = _work_of(dataset, gaps, source=source, request=request, parent=parent)
    earlier = _of_work(_transfers(jobs, workspace), work)
    if earlier and earlier[0].is_current:
        return Started(earlier[0].subject, earlier[0], new=False)
    key = f"transfer-{work}-{earlier[0].id if earlier else 'first'}"
    run_id = _run_id(workspace, key)
    # one transaction: no job without its run, whenever the process of the page ends
    with jobs.database.writing():
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
                **({PARENT: parent} if parent else {}),
                **({EXTENDS: extends} if extends else {}),
                **({FIRST_ANSWER: first_answer} if first_answer else {}),
            },
            subject=run_id,
            submit_key=key,
        )
        make_room(jobs, library, "run", run_id)
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


def _work_of(
    dataset: Dataset, gaps: str, *, source: str, request: TransferRequest, parent: str = ""
) -> str:
    """Return the fingerprint of what a transfer computes; `gaps` are those of `_gaps`."""
    return fingerprint([dataset.id, gaps, source, request.work, *([parent] if parent else [])])


def _transfers(jobs: JobStore, workspace: str) -> list[Job]:
    return jobs.jobs(workspace, kinds=["transfer"], limit=10_000)


def _of_work(transfers: Sequence[Job], work: str) -> list[Job]:
    """Return the jobs that compute this, newest first."""
    return [job for job in transfers if job.payload.get("work", "") == work]


def _gaps(library: Library, dataset: Dataset) -> str:
    """Return a text that differs where the gaps of a data set differ, without reading them all."""
    (row,) = library.database.rows(
        "SELECT count(gap_eV), total(gap_eV), total(gap_eV * row), total(gap_eV * gap_eV)"
        " FROM structure WHERE dataset = ?",
        dataset.id,
    )
    return f"{tuple(row)!r} {dataset.level_of_theory}"


def _run_id(workspace: str, key: str) -> str:
    """Return an id that two presses of a button share and that nobody outside can guess."""
    digest = hashlib.sha256(f"{workspace} {key}".encode()).digest()
    return str(uuid.UUID(bytes=digest[:16], version=4))

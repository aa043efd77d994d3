"""The place of a waiting job in its lane, and when it will probably start.

The start is the sum of the estimated times of the jobs before it (`bandgap.jobs.estimates`). Jobs
of other workspaces count, but only their times are shown.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from bandgap.jobs.estimates import JobTimes
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore

T = TypeVar("T")


@dataclass(frozen=True)
class QueuePlace:
    """The place of a waiting job.

    Attributes
    ----------
    n_before
        Number of jobs that run or wait before it.
    wait_s
        Seconds until it probably starts, without jobs of unknown length.
    at_least
        Whether it may take longer, as a job before it has no estimate or exceeds it.
    """

    n_before: int
    wait_s: float
    at_least: bool


def queue_place(jobs: JobStore, library: Library, job: Job) -> QueuePlace:
    """Return the place of a waiting job and the seconds until it probably starts."""
    jobs_before = jobs.jobs_before(job)
    times = JobTimes(jobs, library)
    now = time.time()
    wait_s = 0.0
    at_least = False
    for job_before in jobs_before:
        estimate = times.estimate(job_before.kind, job_before.payload)
        elapsed_s = now - job_before.started if job_before.started else 0.0
        if estimate is None or estimate.seconds < elapsed_s:
            at_least = True
        else:
            wait_s += estimate.seconds - elapsed_s
    return QueuePlace(len(jobs_before), wait_s, at_least)


def active_first(items: Iterable[T], job_of: Callable[[T], Job | None]) -> list[T]:
    """Return items with the running one first, then the waiting ones in the order of their start.

    Parameters
    ----------
    items
        Items, the newest first.
    job_of
        Returns the job of an item.
    """
    running: list[T] = []
    waiting: list[T] = []
    ended: list[T] = []
    for item in items:
        job = job_of(item)
        if job is None or not job.active:
            ended.append(item)
        elif job.state == "queued":
            waiting.append(item)
        else:
            running.append(item)
    return [*running, *reversed(waiting), *ended]

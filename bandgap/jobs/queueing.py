"""The place of a waiting job in its lane, and when it will probably start.

The worker stores the estimated time of each waiting job (`bandgap.jobs.estimates`) before it claims
one. The start follows from the estimates of the jobs before it. Jobs of other workspaces count, but
only their times are shown.
"""

import heapq
import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import BandgapError
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


def estimate_waiting(jobs: JobStore, library: Library) -> None:
    """Store the seconds that each waiting job will take, infinite where they are not known."""
    waiting = jobs.unestimated()
    if not waiting:
        return
    times = JobTimes(jobs, library)
    for job in waiting:
        try:
            estimate = times.estimate(job.kind, job.payload)
        except (*DAMAGE, BandgapError):  # the job itself will fail and say why
            estimate = None
        jobs.set_estimate(job.id, estimate.seconds if estimate else math.inf)


def queue_place(jobs: JobStore, job: Job) -> QueuePlace:
    """Return the place of a waiting job and the seconds until it probably starts."""
    jobs_before = jobs.jobs_before(job)
    now = time.time()
    ends: list[float] = []  # seconds until each running job ends, as all of these places are taken
    at_least = False
    for job_before in jobs_before:
        elapsed_s = now - job_before.started if job_before.started else 0.0
        left_s = (job_before.estimate_s or math.inf) - elapsed_s
        if not 0.0 <= left_s < math.inf:
            at_least = True
            left_s = 0.0
        if job_before.state == "queued" and ends:
            left_s += heapq.heappop(ends)
        heapq.heappush(ends, left_s)
    return QueuePlace(len(jobs_before), min(ends, default=0.0), at_least)


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

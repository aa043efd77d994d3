"""Waits of five people who share a server with two trainings side by side, before and after turns.

The first person requests many trainings at once; the others follow. The jobs are real ones of a
worker with two places in each lane. "Before" are the same requests and durations, as one worker
took them: in the order of the requests, one job of each lane at a time.
"""

import itertools
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.home import Home
from bandgap.jobs.kinds import KINDS
from bandgap.jobs.library import Library
from bandgap.jobs.people import claim
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.sources.cards import NO_SOURCE
from benchmarks.sample_workspace import SPLIT, checked_crystals

PEOPLE = ("ada", "bo", "cy", "di", "ed")
SESSIONS = 2  # of each person, each in a workspace
AT_ONCE = 12  # trainings of the first person
JOBS = 40
PLACES = 2
APART_S = 1.0  # mean time between two requests of the others
METHODS = ("last_layer_ridge", "kernel_ridge", "random_forest", "gradient_boosting")


@dataclass(frozen=True)
class Served:
    """A job of a person in a lane, with the times of request, start and end in seconds."""

    person: str
    lane: str
    created: float
    started: float
    finished: float

    @property
    def wait_s(self) -> float:
        return self.started - self.created


def run_group(folder: Path, *, seed: int, progress: Progress) -> dict[str, Any]:
    """Return the waits of each person, before and after, as rows of `table_rows`."""
    home = Home(folder)
    store = JobStore(home)
    library = Library(home)
    sessions = []
    for number, person in enumerate(PEOPLE * SESSIONS):
        progress(Update("checking crystals", number, len(PEOPLE) * SESSIONS))
        workspace, dataset = checked_crystals(home)
        claim(store.database, workspace, person)
        sessions.append((person, workspace, dataset))
    command = [sys.executable, "-m", "bandgap.jobs.worker", str(PLACES)]
    with subprocess.Popen(command, env={**os.environ, "BANDGAP_HOME": str(folder)}) as worker:
        try:
            jobs = _requested(store, library, sessions, random.Random(seed))
            while n_left := sum(not store.has_ended(job.id) for job in jobs):
                progress(Update("jobs of the group", len(jobs) - n_left, len(jobs)))
                time.sleep(1.0)
        finally:
            worker.terminate()
    ended = [one for job in jobs if (one := store.claimed(job.id))]
    after = [_served(job) for job in ended]
    return {
        "before": table_rows(in_order_of_requests(after)),
        "after": table_rows(after),
        "states": Counter(job.state for job in ended),
    }


def _requested(
    store: JobStore,
    library: Library,
    sessions: Sequence[tuple[str, str, str]],
    draw: random.Random,
) -> list[Job]:
    """Request trainings of the first person at once, then jobs of all others at random."""
    later_sessions = [session for session in sessions if session[0] != PEOPLE[0]]
    jobs = []
    for number in range(JOBS):
        is_first = number < AT_ONCE
        _, workspace, dataset = (
            sessions[0] if is_first else later_sessions[number % len(later_sessions)]
        )
        if is_first or draw.random() < 0.5:
            request = SPLIT.changed(method=draw.choice(METHODS), seed=number)
            source = "demo" if request.method == METHODS[0] else NO_SOURCE
            target = library.dataset(workspace, dataset)
            job = start_transfer(
                store, library, target, source=source, request=request, title="training"
            ).job
        else:
            files = library.files(dataset)
            copy = library.add_dataset(workspace, "a copy", stored=files).id
            payload = {"dataset": copy}
            job = store.submit(workspace, "check", title="check", payload=payload, subject=copy)
        jobs.append(job)
        time.sleep(0.0 if is_first else draw.expovariate(1 / APART_S))
    return jobs


def _served(job: Job) -> Served:
    assert job.started and job.finished
    return Served(job.person, KINDS[job.kind].lane, job.created, job.started, job.finished)


def in_order_of_requests(jobs: Sequence[Served]) -> list[Served]:
    """Return the jobs as they would have run in the order of their requests, one of each lane."""
    served = []
    free: dict[str, float] = {}
    for job in sorted(jobs, key=lambda job: job.created):
        started = max(job.created, free.get(job.lane, 0.0))
        free[job.lane] = started + job.finished - job.started
        served.append(Served(job.person, job.lane, job.created, started, free[job.lane]))
    return served


def table_rows(jobs: Sequence[Served]) -> list[dict[str, Any]]:
    """Return the figures of each person.

    `of_another` is the largest number of jobs of one other person that started, in the same lane,
    between request and start of a job that had no own job before it.
    """
    rows = []
    for person in PEOPLE:
        own_jobs = [job for job in jobs if job.person == person]
        first = [job for job in own_jobs if not any(_waits(one, job) for one in own_jobs)]
        rows.append(
            {
                "person": person,
                "jobs": len(own_jobs),
                "mean_s": mean(job.wait_s for job in own_jobs),
                "longest_s": max(job.wait_s for job in own_jobs),
                "of_another": max((_most_of_another(job, jobs) for job in first), default=0),
            }
        )
    return rows


def _waits(one: Served, job: Served) -> bool:
    """Return whether a job waits or runs when another one of its lane is requested."""
    return one.lane == job.lane and one.created < job.created < one.finished


def _most_of_another(job: Served, jobs: Sequence[Served]) -> int:
    started = Counter(
        one.person
        for one in jobs
        if one.lane == job.lane
        and one.person != job.person
        and job.created <= one.started < job.started
    )
    return max(started.values(), default=0)


def paired_rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the rows of the printed table: each figure before and after."""
    rows = []
    for before, after in zip(result["before"], result["after"], strict=True):
        figures = [
            f"{one[name]:.0f}"
            for name, one in itertools.product(
                ("mean_s", "longest_s", "of_another"), (before, after)
            )
        ]
        rows.append((before["person"], str(before["jobs"]), *figures))
    return rows

"""People take turns in the queue: whom anyone waits for, short jobs, and how many may wait."""

import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.people import claim
from bandgap.jobs.store import MAX_QUEUED, Job, JobStore

PEOPLE = ("ada@x.org", "bo@x.org", "cy@x.org")


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(Home(tmp_path))


def submit(store: JobStore, person: str, *, kind: str = "transfer", estimate_s: float = 1e4) -> Job:
    """Queue a job in a new workspace of a person."""
    workspace = str(uuid.uuid4())
    claim(store.database, workspace, person)
    job = store.submit(workspace, kind, title="", payload={}, subject="")
    store.set_estimate(job.id, estimate_s)
    return job


STEPS = st.lists(
    st.tuples(st.sampled_from([*PEOPLE, "claim", "claim", "end", "cancel"]), st.booleans()),
    max_size=60,
)


@given(STEPS)
@settings(max_examples=40, deadline=None)
def test_nobody_waits_for_more_than_two_jobs_of_another_and_one_for_each_own(steps) -> None:
    with TemporaryDirectory() as folder:
        store = JobStore(Home(Path(folder)))
        own_before: dict[str, int] = {}  # of each job, the jobs of its person that waited then
        overtaken: dict[str, list[str]] = {}  # of each waiting job, whose jobs started since
        owner: dict[str, str] = {}
        running: list[str] = []
        for step, is_short in [*steps, *[("claim", False)] * 60]:
            if step == "claim":
                job = store.claim("w")
                if job is None:
                    continue
                running.append(job.id)
                since = overtaken.pop(job.id)
                for other in set(since) - {job.person}:
                    assert since.count(other) <= own_before[job.id] + 2
                for started in overtaken.values():
                    started.append(job.person)
            elif step == "end":
                if running:
                    store.end(running.pop(0), "finished")
            elif step == "cancel":
                if overtaken:
                    cancelled = store.claimed(next(iter(overtaken)))
                    assert cancelled is not None
                    store.request_cancel(cancelled.workspace, cancelled.id)
                    del overtaken[cancelled.id]
            else:
                waiting = [one for one in overtaken if owner[one] == step]
                if len(waiting) < MAX_QUEUED:
                    job = submit(store, step, estimate_s=5.0 if is_short else 1e4)
                    owner[job.id] = step
                    own_before[job.id] = len(waiting)
                    overtaken[job.id] = []
        assert not overtaken, "jobs that never started"


def test_short_job_is_before_the_long_ones_of_its_turn_alone(store: JobStore) -> None:
    long_jobs = [submit(store, "ada@x.org") for _ in range(2)]
    short = submit(store, "bo@x.org", estimate_s=5.0)
    order = [job.id for job in iter(lambda: store.claim("w"), None)]
    assert order == [short.id, long_jobs[0].id, long_jobs[1].id]


def test_trainings_of_others_do_not_change_the_turns_of_short_jobs(store: JobStore) -> None:
    for _ in range(5):
        submit(store, "ada@x.org")
    check = submit(store, "ada@x.org", kind="check")
    submit(store, "bo@x.org", kind="check")
    first = store.claim("w", lanes=["short"])
    assert first is not None and first.id == check.id


def test_of_201_jobs_of_a_person_20_wait_in_whatever_workspace(store: JobStore) -> None:
    refused = 0
    for _ in range(201):
        try:
            submit(store, "ada@x.org")
        except InputError as error:
            refused += 1
            assert "20 of your jobs wait already" in str(error)
    assert refused == 201 - MAX_QUEUED
    submit(store, "ada@x.org", kind="check")
    first = submit(store, "bo@x.org")
    assert {job.person for job in store.jobs_before(first)} == {"ada@x.org"}
    assert len(store.jobs_before(first)) == 1
    assert store.claim("w") is not None
    submit(store, "ada@x.org")  # one of 20 has begun

"""The place of a waiting job: who is before it, and when it will probably start."""

import time
import uuid

import pytest

from bandgap.jobs.entries import MethodEntry
from bandgap.jobs.estimates import FEATURES_S, START_S
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.queueing import QueuePlace, active_first, estimate_waiting, queue_place
from bandgap.jobs.store import Job, JobStore
from bandgap.transfer.shared.cost import Cost

WS = str(uuid.uuid4())
OTHER = str(uuid.uuid4())
TRANSFER_S = START_S + 200 * FEATURES_S[0] + 100


@pytest.fixture
def store(tmp_path):
    Library(Home(tmp_path)).register_methods(
        {"fine_tune": MethodEntry("Fine-tuning", "", duration="", cost=Cost(100.0, 100.0))}
    )
    return JobStore(Home(tmp_path))


def transfer(store: JobStore, *, method: str = "fine_tune", workspace: str = WS) -> Job:
    request = {"method": method, "n": 200}
    payload = {"source": "demo", "dataset": "d", "run": "r", "request": request}
    return store.submit(workspace, "transfer", title="t", payload=payload, subject="r")


def place_of(store: JobStore, job: Job) -> QueuePlace:
    """The place of a job, after the worker has estimated what waits."""
    estimate_waiting(store, Library(store.home))
    return queue_place(store, job)


def test_queue_place_of_the_first_job_is_now(store: JobStore) -> None:
    place = place_of(store, transfer(store))
    assert (place.n_before, place.wait_s, place.at_least) == (0, 0.0, False)


def test_queue_place_sums_the_estimates_of_all_workspaces_less_what_has_passed(
    store: JobStore,
) -> None:
    transfer(store, workspace=OTHER)
    estimate_waiting(store, Library(store.home))
    claimed = store.claim("w", lanes=["long"])
    assert claimed is not None
    with store.database.writing() as connection:
        connection.execute("UPDATE job SET started = ?", (time.time() - 30,))
    transfer(store)
    place = place_of(store, transfer(store))
    assert place.n_before == 2 and not place.at_least
    assert place.wait_s == pytest.approx(2 * TRANSFER_S - 30, abs=2)


def test_queue_place_behind_a_job_without_an_estimate_is_the_earliest(store: JobStore) -> None:
    transfer(store, method="unknown")
    transfer(store)
    place = place_of(store, transfer(store))
    assert place.at_least and place.wait_s == pytest.approx(TRANSFER_S)


def test_queue_place_behind_a_job_that_exceeds_its_estimate_is_the_earliest(
    store: JobStore,
) -> None:
    transfer(store)
    estimate_waiting(store, Library(store.home))
    store.claim("w", lanes=["long"])
    with store.database.writing() as connection:
        connection.execute("UPDATE job SET started = ?", (time.time() - 3600,))
    place = place_of(store, transfer(store))
    assert place.at_least and place.wait_s == 0


def test_queue_place_beside_two_running_jobs_is_the_end_of_the_first(store: JobStore) -> None:
    for workspace in (WS, OTHER):
        transfer(store, workspace=workspace)
    estimate_waiting(store, Library(store.home))
    started = [store.claim("w", lanes=["long"]) for _ in range(2)]
    assert all(started)
    store.database.write("UPDATE job SET started = ? WHERE workspace = ?", time.time() - 30, OTHER)
    first, second = transfer(store), transfer(store)
    assert place_of(store, first).wait_s == pytest.approx(TRANSFER_S - 30, abs=2)
    assert place_of(store, second).wait_s == pytest.approx(TRANSFER_S, abs=2)


def test_job_that_cannot_be_estimated_waits_as_one_of_unknown_length(store: JobStore) -> None:
    store.submit(WS, "transfer", title="t", payload={"dataset": "gone"}, subject="r")
    assert place_of(store, transfer(store)).at_least


def test_active_first_lists_the_running_job_then_the_waiting_ones_as_they_will_start(
    store: JobStore,
) -> None:
    ended = transfer(store)
    store.claim("w", lanes=["long"])
    store.end(ended.id, "finished")
    running = transfer(store)
    store.claim("w", lanes=["long"])
    waiting = [transfer(store), transfer(store)]
    ordered = active_first(store.jobs(WS), lambda job: job)
    assert [job.id for job in ordered] == [running.id, waiting[0].id, waiting[1].id, ended.id]

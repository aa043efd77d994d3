"""The job table: submit, claim, cancel, heartbeat, what pages may see."""

import multiprocessing
import sqlite3
import subprocess
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bandgap.foundation.progress import Update
from bandgap.jobs.database import SCHEMA_VERSION, Database, StoreError
from bandgap.jobs.heartbeats import STALE_S
from bandgap.jobs.home import Home
from bandgap.jobs.store import Job, JobStore

WS = str(uuid.uuid4())


@pytest.fixture
def store(tmp_path: Path) -> JobStore:
    return JobStore(Home(tmp_path))


def submit(store: JobStore, kind: str = "check", **more: str) -> Job:
    return store.submit(WS, kind, title="a job", payload={"dataset": "d"}, subject="d", **more)


def claim_all(folder: str, worker: str, out: str) -> None:
    store = JobStore(Home(Path(folder)))
    with Path(out).open("w", encoding="utf-8") as file:
        while job := store.claim(worker):
            file.write(job.id + "\n")


def test_submit_with_the_same_key_makes_one_job(store: JobStore) -> None:
    first, second = submit(store, submit_key="form-1"), submit(store, submit_key="form-1")
    assert first.id == second.id
    assert len(store.jobs(WS)) == 1


def start(store: JobStore, **more: bool) -> Job:
    return store.start(WS, "check", title="a job", payload={}, subject="d", **more)


def test_start_gives_the_active_or_finished_job_about_the_subject(store: JobStore) -> None:
    other = store.submit(WS, "shapes", title="another kind", payload={}, subject="d")
    first = start(store)
    assert first.id != other.id and start(store).id == first.id
    store.end(first.id, "finished")
    assert start(store).id == first.id
    again = start(store, again=True)
    assert again.id != first.id and start(store, again=True).id == again.id
    store.end(again.id, "failed")
    assert start(store).id not in (first.id, again.id)
    assert store.latest(WS, "d", "shapes") == other


def test_claim_takes_the_oldest_first_and_none_when_empty(store: JobStore) -> None:
    ids = [submit(store).id for _ in range(3)]
    assert [job.id for job in iter(lambda: store.claim("w"), None)] == ids
    assert store.claim("w") is None


def test_claim_of_one_lane_leaves_the_other(store: JobStore) -> None:
    long_job = submit(store, "transfer")
    short_job = submit(store, "check")
    claimed = store.claim("w", lanes=["short"])
    assert claimed is not None and claimed.id == short_job.id
    waiting = store.job(WS, long_job.id)
    assert waiting is not None and waiting.state == "queued"


def test_claim_by_three_processes_gives_every_job_once(store: JobStore, tmp_path: Path) -> None:
    people = [str(uuid.uuid4()) for _ in range(5)]
    ids = {
        store.submit(one, "check", title="a job", payload={}, subject="d").id
        for one in people
        for _ in range(18)
    }
    context = multiprocessing.get_context("spawn")
    outs = [tmp_path / f"claimed-{k}" for k in range(3)]
    workers = [
        context.Process(target=claim_all, args=(str(tmp_path), f"w{k}", str(out)))
        for k, out in enumerate(outs)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    claimed = [line for out in outs for line in out.read_text().split()]
    assert len(claimed) == len(set(claimed)) == 90
    assert set(claimed) == ids


def test_cancel_of_a_queued_job_ends_it_immediately(store: JobStore) -> None:
    job = submit(store)
    store.request_cancel(WS, job.id)
    ended = store.job(WS, job.id)
    assert ended is not None and ended.state == "cancelled" and ended.finished is not None
    assert store.claim("w") is None


def test_cancel_of_a_running_job_asks_its_worker(store: JobStore) -> None:
    job = submit(store)
    store.claim("w")
    assert not store.cancel_requested(job.id)
    store.request_cancel(WS, job.id)
    cancelling = store.job(WS, job.id)
    assert cancelling is not None and cancelling.state == "cancelling"
    assert store.cancel_requested(job.id)


def test_end_of_a_job_is_written_once(store: JobStore) -> None:
    job = submit(store)
    store.claim("w")
    assert store.end(job.id, "finished", result={"n": 3})
    assert not store.end(job.id, "failed", error="too late")
    ended = store.job(WS, job.id)
    assert ended is not None and (ended.state, ended.result, ended.error) == (
        "finished",
        {"n": 3},
        "",
    )


def test_running_job_with_an_old_heartbeat_reads_as_interrupted(store: JobStore) -> None:
    job = submit(store)
    store.claim("w")
    with store.database.writing() as connection:
        connection.execute("UPDATE job SET heartbeat = ?", (time.time() - STALE_S - 1,))
    stored = store.job(WS, job.id)
    assert stored is not None and stored.state == "interrupted" and not stored.active
    store.beat("w", [job.id])
    again = store.job(WS, job.id)
    assert again is not None and again.state == "running"


def test_end_orphans_marks_jobs_of_a_dead_worker(store: JobStore) -> None:
    running = submit(store)
    cancelling = submit(store)
    of_living_worker = submit(store)
    store.claim("dead"), store.claim("dead"), store.claim("me")
    store.request_cancel(WS, cancelling.id)
    assert store.end_orphans("me") == 2
    states = {job.id: job.state for job in store.jobs(WS)}
    assert states == {
        running.id: "interrupted",
        cancelling.id: "cancelled",
        of_living_worker.id: "running",
    }


def test_events_come_back_in_order_and_only_the_last(store: JobStore) -> None:
    job = submit(store)
    for k in range(30):
        store.add_event(
            job.id, "progress", Update("sampling", k, 30, values={"rhat": 1.5}), since=1.0
        )
    events = store.events(job.id, last=5)
    assert [event.update.done for event in events] == [25, 26, 27, 28, 29]
    assert events[-1].update.values == {"rhat": 1.5}


def test_jobs_before_are_the_running_and_the_older_ones_of_the_lane(store: JobStore) -> None:
    submit(store), submit(store, "transfer")
    store.claim("w", lanes=["short"])
    submit(store)
    assert len(store.jobs_before(submit(store))) == 2


def test_transaction_ends_after_the_disk_has_stored_it(tmp_path: Path) -> None:
    """In a new process, as the tests turn this off in their own."""
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from bandgap.jobs.database import Database\n"
        "with Database(Path(sys.argv[1])).writing() as connection:\n"
        "    print(connection.execute('PRAGMA synchronous').fetchone()[0])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "bandgap.sqlite3")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("2\n", "")  # FULL


@pytest.mark.parametrize("version", [1, 99])
def test_database_of_another_schema_is_refused(tmp_path: Path, version: int) -> None:
    path = tmp_path / "bandgap.sqlite3"
    Database(path)
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    message = rf"another version of bandgap \(schema {version}; .* reads schema {SCHEMA_VERSION}\)"
    with pytest.raises(StoreError, match=message):
        Database(path)


def test_calls_inside_of_a_transaction_belong_to_it_and_other_threads_wait(store: JobStore) -> None:
    with pytest.raises(RuntimeError), store.database.writing():
        submitted = submit(store)
        assert store.job(WS, submitted.id) == submitted
        with ThreadPoolExecutor(1) as other:
            assert other.submit(store.jobs, WS).result() == []
        raise RuntimeError
    assert store.jobs(WS) == []
    with store.database.writing():
        submitted = submit(store)
    assert store.job(WS, submitted.id) == submitted


def test_database_rolls_back_when_a_transaction_fails(store: JobStore) -> None:
    submit(store)
    with pytest.raises(RuntimeError), store.database.writing() as connection:
        connection.execute("DELETE FROM job")
        raise RuntimeError
    assert len(store.jobs(WS)) == 1


def test_kept_connection_reads_everything_and_sees_what_others_commit(store: JobStore) -> None:
    other = JobStore(store.home)
    with store.database.kept_open():
        with store.database.reading() as first:
            assert other.jobs(WS) == []
        job = submit(other)
        with other.database.reading() as second:
            assert first is second
            assert [row["id"] for row in second.execute("SELECT id FROM job")] == [job.id]
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(store.jobs, WS).result() == [job]  # by a connection of its own
    with store.database.reading() as last:
        assert last is not first


def test_damage_read_by_a_kept_connection_is_an_error_of_the_store(store: JobStore) -> None:
    with store.database.kept_open():
        store.database.path.write_bytes(b"damaged" * 1000)
        with pytest.raises(StoreError, match="cannot be used|damaged"):
            store.jobs(WS)


def test_errors_of_a_page_are_none_of_its_kept_connection(store: JobStore) -> None:
    with pytest.raises(UnicodeDecodeError), store.database.kept_open():
        b"\xff of another file".decode()
    with pytest.raises(StoreError, match="damaged"), store.database.kept_open():
        store.database.row("SELECT json_extract('{', '$.dataset')")
    assert store.jobs(WS) == []

"""One job for equal requests, however often they are sent; and the deletion of runs."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs import resuming
from bandgap.jobs.deletions import bin_run, deletions
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run, rename_run
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, RunRow, Verdict
from bandgap.jobs.starting import Started, start_transfer
from bandgap.jobs.store import MAX_QUEUED, JobStore
from bandgap.runs.requests import TransferRequest

WS = str(uuid.uuid4())
REQUEST = TransferRequest(method="fine_tune", n=10, n_test=2, seed=0, device="cpu")


class Store:
    """Jobs and library of one data directory, with a labelled data set."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.jobs, self.library = JobStore(self.home), Library(self.home)
        dataset = self.library.add_dataset(WS, "set")
        verdicts = [
            Verdict(str(k), "f", "ready", "", "CH4", 5, False, 1.0 + k, {}) for k in range(4)
        ]
        self.library.save_verdicts(dataset.id, verdicts)
        self.dataset: Dataset = self.library.dataset(WS, dataset.id)

    def start(self, **changed) -> Started:
        request = REQUEST.changed(**changed)
        return start_transfer(
            self.jobs, self.library, self.dataset, source="demo", request=request, title="a run"
        )

    def run(self, run_id: str) -> RunRow:
        run = self.library.run(WS, run_id)
        assert run is not None
        return run

    def end(self, started: Started, state="finished") -> None:
        assert self.jobs.claim("w") is not None
        self.jobs.end(started.job.id, state)

    def count(self, table: str) -> int:
        with self.jobs.database.reading() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0])


@pytest.fixture
def store(tmp_path) -> Store:
    return Store(tmp_path)


def test_presses_at_the_same_time_make_one_job_and_one_run(store):
    with ThreadPoolExecutor(8) as pool:
        started = list(pool.map(lambda _: store.start(), range(16)))
    assert len({s.run for s in started}) == len({s.job.id for s in started}) == 1
    assert len(store.library.runs(WS)) == 1


@pytest.mark.parametrize(
    "changed", [{"seed": 1}, {"n": 11}, {"method": "nptl"}, {"by_formula": True}], ids=str
)
def test_other_settings_are_another_run(store, changed):
    assert store.start().run != store.start(**changed).run


def test_finished_run_is_found_again_until_the_gaps_change(store):
    first = store.start()
    store.end(first)
    assert store.start() == Started(first.run, store.jobs.job(WS, first.job.id), new=False)
    store.library.save_gaps(
        store.dataset.id, np.array([1.0, 2.0, 3.0, 9.0]), labels={}, level_of_theory=""
    )
    assert store.start().new


@pytest.mark.parametrize("state", ["failed", "cancelled", "interrupted"])
def test_unfinished_run_is_started_again_once(store, state):
    first = store.start()
    store.end(first, state)
    second = store.start()
    third = store.start()
    assert second.new and not third.new and second.run == third.run != first.run


def test_start_again_works_on_the_same_run_once(store):
    first = store.start()
    store.end(first, "interrupted")
    run = store.run(first.run)
    again = resuming.restart_run(store.jobs, store.library, run)
    assert again.payload == first.job.payload and store.run(first.run).job == again.id
    assert resuming.restart_run(store.jobs, store.library, run).id == again.id
    with pytest.raises(InputError, match="is queued. Only a run that was interrupted"):
        resuming.restart_run(store.jobs, store.library, store.run(first.run))


def test_refused_start_of_a_deleted_run_leaves_it_in_the_bin(store):
    first = store.start()
    store.end(first, "cancelled")
    bin_run(store.jobs, store.library, store.run(first.run))
    for seed in range(1, 1 + MAX_QUEUED):
        store.start(seed=seed)
    with pytest.raises(InputError, match="wait already"):
        store.start()
    assert [one.id for one in deletions(store.library, WS)] == [first.run]
    store.jobs.claim("w")
    assert store.start().run == first.run and not deletions(store.library, WS)


class Ended(BaseException):
    """Raised where the process of the page ends."""


@pytest.mark.parametrize("again", [False, True])
def test_page_that_ends_between_the_job_and_its_run_leaves_neither(store, monkeypatch, again):
    if again:
        store.end(store.start(), "interrupted")
    before = (store.count("job"), store.count("run"))

    def ends(*values, **keywords):
        raise Ended

    with monkeypatch.context() as patch, pytest.raises(Ended):
        patch.setattr(Library, "set_job" if again else "add_run", ends)
        if again:
            resuming.restart_run(store.jobs, store.library, store.library.runs(WS)[0])
        else:
            store.start()
    assert (store.count("job"), store.count("run")) == before
    assert store.jobs.claim("w") is None
    started = (
        resuming.restart_run(store.jobs, store.library, store.library.runs(WS)[0])
        if again
        else store.start().job
    )
    assert store.library.runs(WS)[0].job == started.id


def test_rename_keeps_the_text_and_refuses_an_empty_one(store):
    run = store.run(store.start().run)
    rename_run(store.library, run, "  with  H ")
    assert store.run(run.id).title == "with H"
    for text in ("  ", "x" * 121):
        with pytest.raises(InputError, match="Accepted: 1 to 120"):
            rename_run(store.library, run, text)


def test_run_at_work_is_not_deleted(store):
    run = store.run(store.start().run)
    with pytest.raises(
        InputError, match="a run: a run is queued. Cancel it first, then delete the run."
    ):
        delete_run(store.jobs, store.library, run)
    assert store.run(run.id) == run


def test_deleted_run_leaves_nothing_but_what_others_use(store):
    started = store.start()
    other = store.start(seed=1)
    for transfer in (started, other):
        store.end(transfer)
    sets = [
        store.library.add_dataset(WS, f"new {k}", purpose="prediction", files=[("a.cif", b"x")])
        for k in (0, 1)
    ]
    for run, dataset in ((started, sets[0]), (started, sets[1]), (other, sets[1])):
        payload = {"run": run.run, "dataset": dataset.id, "name": dataset.name}
        job = store.jobs.submit(WS, "predict", title="p", payload=payload, subject=dataset.id)
        assert store.jobs.claim("w") is not None
        store.jobs.end(job.id, "finished")
    folder = store.home.run_folder(started.run)
    folder.mkdir(parents=True)
    (folder / "draws").write_bytes(bytes(500))
    run = store.run(started.run)
    delete_run(store.jobs, store.library, run)
    assert not folder.exists() and store.library.run(WS, started.run) is None
    assert [d.name for d in store.library.datasets(WS, purpose="prediction")] == ["new 1"]
    assert (
        store.count("job"),
        store.count("dataset_file"),
        len(store.library.verdicts(store.dataset.id)),
    ) == (2, 1, 4)
    assert store.start().new

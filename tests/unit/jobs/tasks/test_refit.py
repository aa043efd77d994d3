"""The job of a refit: it starts from a finished run and learns from all labels of its data set."""

import json
import uuid

import pytest

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.library import Library
from bandgap.jobs.refitting import parent_of, refit_of, start_refit
from bandgap.jobs.resuming import restart_run
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.unit.jobs.labelled_sets import add_labelled_set

WS = str(uuid.uuid4())
REQUEST = TransferRequest(
    method="freeze",
    n=18,
    n_test=6,
    seed=1,
    device="cpu",
    settings={"training": {"max_epochs": 3}},
)


class Store:
    """Jobs and library with a tested run of 18 molecules, 6 held out."""

    def __init__(self, folder, world, source_folder) -> None:
        self.home = Home(folder)
        self.jobs, self.library = JobStore(self.home), Library(self.home)
        self.dataset = add_labelled_set(self.home, WS, world, source_folder)
        started = start_transfer(
            self.jobs,
            self.library,
            self.dataset,
            source="toy",
            request=REQUEST,
            title="Frozen layers, n = 18",
        )
        work_all(self.home)
        self.parent = self.run(started.run)

    def run(self, run_id: str) -> RunRow:
        run = self.library.run(WS, run_id)
        assert run is not None
        return run

    def state(self, run: RunRow) -> str:
        job = self.jobs.job(WS, run.job)
        assert job is not None
        return job.state

    def manifest(self, run_id: str):
        return json.loads((self.home.run_folder(run_id) / "manifest.json").read_text())

    def refit_of_parent(self) -> RunRow | None:
        jobs = {job.id: job for job in self.jobs.jobs(WS, kinds=["transfer"])}
        return refit_of(self.parent.id, {run.id: run for run in self.library.runs(WS)}, jobs)


@pytest.fixture
def store(tmp_path, world, source_folder) -> Store:
    return Store(tmp_path, world, source_folder)


def test_refit_learns_from_all_and_reports_the_test_of_its_parent(store):
    assert store.refit_of_parent() is None
    started = start_refit(store.jobs, store.library, store.parent)
    again = start_refit(store.jobs, store.library, store.parent)
    assert (again.run, again.new) == (started.run, False)
    work_all(store.home)
    refit = store.run(started.run)
    assert store.state(refit) == "finished"
    assert (refit.title, refit.request.n) == ("Refitted on all 24, Frozen layers", 24)
    assert store.refit_of_parent() == refit
    assert parent_of(store.jobs.job(WS, refit.job)) == store.parent.id
    manifest = store.manifest(refit.id)
    before = store.manifest(store.parent.id)
    assert (manifest["n"], manifest["metrics"]) == (24, before["metrics"])
    assert manifest["refit"]["parent"] == store.parent.id
    assert manifest["inputs"] == {"data_set": store.dataset.name}
    with pytest.raises(InputError, match="has learned from all labels already"):
        start_refit(store.jobs, store.library, refit)


def test_run_is_not_deleted_while_its_refit_waits_and_a_refit_without_it_fails(store):
    started = start_refit(store.jobs, store.library, store.parent)
    with pytest.raises(
        InputError, match="Refitted on all 24, Frozen layers is queued. Cancel it first"
    ):
        delete_run(store.jobs, store.library, store.parent)
    store.jobs.request_cancel(WS, started.job.id)
    delete_run(store.jobs, store.library, store.parent)
    again = restart_run(store.jobs, store.library, store.run(started.run))
    work_all(store.home)
    job = store.jobs.job(WS, again.id)
    assert job is not None and job.state == "failed"
    assert "The run to refit was deleted" in job.error


def test_refit_of_a_run_that_is_not_finished_is_refused(store):
    waiting = start_transfer(
        store.jobs,
        store.library,
        store.dataset,
        source="toy",
        request=REQUEST.changed(seed=2),
        title="another",
    )
    with pytest.raises(InputError, match="another is not finished"):
        start_refit(store.jobs, store.library, store.run(waiting.run))

"""Draws are added to a finished run: the job continues from the end of that run."""

import json
import os
import time
import uuid

import numpy as np
import pytest
from safetensors.numpy import load_file

from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.more_draws import can_continue, extended_request
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from tests.unit.jobs.labelled_sets import add_labelled_set

WS = str(uuid.uuid4())
SAMPLER = {"chains": 2, "warmup": 20, "draws": 30, "keep": 20}
REQUEST = TransferRequest(
    method="btl_pcp_pe", n=16, n_test=6, seed=1, device="cpu", settings={"sampler": SAMPLER}
)


class Store:
    """Jobs and library with a finished run of 30 draws of each chain."""

    def __init__(self, folder, world, source_folder) -> None:
        self.home = Home(folder)
        self.jobs, self.library = JobStore(self.home), Library(self.home)
        self.dataset = add_labelled_set(self.home, WS, world, source_folder)
        self.first = self.start(REQUEST)

    def start(self, request, *, extends="") -> RunRow:
        started = start_transfer(
            self.jobs,
            self.library,
            self.dataset,
            source="toy",
            request=request,
            title="a run",
            extends=extends,
        )
        work_all(self.home)
        run = self.library.run(WS, started.run)
        assert run is not None
        assert self.job(run).state == "finished", self.job(run).error
        return run

    def job(self, run: RunRow) -> Job:
        job = self.jobs.job(WS, run.job)
        assert job is not None
        return job

    def longer_request(self):
        folder = self.home.run_folder(self.first.id)
        manifest = json.loads((folder / "manifest.json").read_text())
        return extended_request(
            REQUEST, manifest["config"]["sampler"], coordinates="partially centred", more=15
        )

    def traces(self, run: RunRow):
        return load_file(self.home.run_folder(run.id) / "diagnostics.safetensors")

    def summaries(self, run: RunRow):
        return load_file(self.home.run_folder(run.id) / "summaries.safetensors")


@pytest.fixture
def store(tmp_path, world, source_folder) -> Store:
    return Store(tmp_path, world, source_folder)


def test_added_draws_follow_those_of_the_finished_run(store):
    assert can_continue(store.home, store.first)
    longer = store.start(store.longer_request(), extends=store.first.id)
    assert store.job(longer).result["resumed"]
    before, after = (store.traces(run) for run in (store.first, longer))
    for name in ("trace.tau", "trace.sigma", "energy"):
        assert (before[name].shape[1], after[name].shape[1]) == (30, 45)
        np.testing.assert_array_equal(after[name][:, :30], before[name])
    c_before, c_after = (store.summaries(run)["c"] for run in (store.first, longer))
    assert (c_before.shape[1], c_after.shape[1]) == (10, 15)
    np.testing.assert_array_equal(c_after[:, :10], c_before)


def test_draws_are_the_same_when_the_end_of_the_run_is_no_longer_stored(store):
    folder = store.home.last_checkpoint(store.first.id)
    store.home.drop_checkpoints(older_than_s=0.0)
    assert can_continue(store.home, store.first)
    four_days_ago = time.time() - 4 * 86_400
    for path in (folder, *folder.iterdir()):
        os.utime(path, (four_days_ago, four_days_ago))
    store.home.drop_checkpoints(older_than_s=14 * 86_400)
    assert not can_continue(store.home, store.first)
    longer = store.start(store.longer_request(), extends=store.first.id)
    assert not store.job(longer).result["resumed"]
    before, after = (store.traces(run) for run in (store.first, longer))
    np.testing.assert_array_equal(after["trace.tau"][:, :30], before["trace.tau"])

"""The prediction job in chunks gives the files of one chunk, also after a cancel or a kill."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import Cancelled, InputError
from bandgap.foundation.progress import RATE, Update, no_progress
from bandgap.jobs import resuming
from bandgap.jobs.home import Home, shapes_path
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.tasks import prediction
from bandgap.jobs.tasks.prediction import predict
from bandgap.jobs.tasks.records import Work
from bandgap.jobs.worker import Worker, work_all
from bandgap.predictions.details import JOINT, ROWS
from bandgap.predictions.growing_store import GrowingPrediction
from bandgap.predictions.store import (
    DETAILS,
    EXTXYZ,
    PREDICTIONS_CSV,
    QUANTILES,
    load_details,
    load_predictions,
)
from bandgap.predictions.table import NUMBERS, TEXTS, Predictions
from bandgap.runs.prediction import predict_run
from bandgap.runs.requests import TransferRequest
from bandgap.structures import read_structures
from bandgap.structures.reading import with_unique_ids
from bandgap.structures.shapes import load_shape
from tests.unit.jobs.labelled_sets import add_labelled_set

WS = str(uuid.uuid4())
SAMPLER = {"chains": 2, "warmup": 20, "draws": 30, "keep": 16}
WATER = (
    "3\nProperties=species:S:1:pos:R:3 id={id}\nO 0 0 0.119\nH 0 {x:.4f} "
    "-0.477\nH 0 -{x:.4f} -0.477\n"
)


@pytest.fixture
def home(tmp_path, world, source_folder) -> Home:
    """A data directory with a finished run on labelled molecules."""
    home = Home(tmp_path)
    library = Library(home)
    jobs = JobStore(home)
    gaps = np.where(np.arange(24) < 20, world.gaps_eV, np.nan)
    dataset = add_labelled_set(home, WS, world, source_folder, gaps_eV=gaps)
    run = str(uuid.uuid4())
    request = TransferRequest(
        method="btl_pcp_pe", n=16, n_test=4, seed=1, device="cpu", settings={"sampler": SAMPLER}
    )
    payload = {"source": "toy", "dataset": dataset.id, "run": run, "request": request.to_values()}
    job = jobs.submit(WS, "transfer", title="t", payload=payload, subject=run)
    library.add_run(
        WS, job=job.id, run_id=run, dataset=dataset.id, source="toy", title="t", request=request
    )
    work_all(home)
    assert JobStore(home).job(WS, job.id).state == "finished"
    return home


def files(n: int) -> list[tuple[str, bytes]]:
    """Return two files of waters with shared ids, a refused file, and one without descriptor."""
    waters = [WATER.format(id=f"w{k % (n - 3)}", x=0.7 + 0.0001 * k) for k in range(n)]
    first, second = waters[: n // 2], waters[n // 2 :]
    return [
        ("a.extxyz", "".join(first).encode()),
        ("b.cif", b"data_x\n"),
        ("c.extxyz", ("".join(second) + "1\nneon\nNe 0 0 0\n").encode()),
    ]


def submitted(home: Home, n: int = 20) -> Job:
    library = Library(home)
    dataset = library.add_dataset(WS, "new", purpose="prediction", files=files(n))
    (run,) = library.runs(WS)
    payload = {"run": run.id, "dataset": dataset.id, "name": dataset.name}
    return JobStore(home).submit(
        WS, "predict", title="Predicting new", payload=payload, subject=dataset.id
    )


def expected(home: Home, n: int) -> Predictions:
    """Return the run's predictions of the same files in one chunk."""
    records = [record for name, data in files(n) for record in read_structures(data, name)]
    (run,) = Library(home).runs(WS)
    return predict_run(home.run_folder(run.id), with_unique_ids(records))


def folder_of(home: Home, job: Job) -> Path:
    return home.prediction_folder(job.payload["run"], job.id)


def assert_same_files(one: Path, other: Path) -> None:
    for name in (PREDICTIONS_CSV, EXTXYZ, QUANTILES, DETAILS):
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def stopped_after(rows: int) -> Callable[[Update], None]:
    """Return a progress that cancels after so many predicted structures."""

    def progress(update: Update, /) -> None:
        if update.phase == "predicting" and update.done >= rows:
            raise Cancelled("The job was cancelled.")

    return progress


def test_prediction_by_chunks_has_the_numbers_of_all_at_once(home, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK", 6)
    job = submitted(home)
    updates: list[Update] = []
    result = predict(Work(job, home, updates.append))
    stored = load_predictions(folder_of(home, job) / QUANTILES)
    all_at_once = expected(home, 20)
    for name in TEXTS:
        assert getattr(stored, name) == getattr(all_at_once, name), name
    for name in NUMBERS:
        np.testing.assert_array_equal(
            getattr(stored, name), getattr(all_at_once, name), err_msg=name
        )
    assert (folder_of(home, job) / PREDICTIONS_CSV).read_text() == all_at_once.to_csv()
    assert stored.level_of_theory == all_at_once.level_of_theory == "PBE"
    assert len(read_structures((folder_of(home, job) / EXTXYZ).read_bytes(), "p.extxyz")) == 20
    assert (result["n"], result["refused"], result["ok"] + result["warning"]) == (22, 2, 20)
    assert result["like"] + result["unlike"] == 20
    rate_updates = [update for update in updates if RATE in update.values]
    assert {update.done for update in rate_updates} == {6, 12, 18, 22} and all(
        u.values[RATE] > 0 for u in rate_updates
    )
    assert not list((home.folder / "checkpoints").glob("*"))


def test_details_do_not_depend_on_the_chunks(home, monkeypatch):
    (run,), library = Library(home).runs(WS), Library(home)
    payload = {"run": run.id, "dataset": run.dataset, "name": "own"}
    details = []
    for size in (5, 1000):
        monkeypatch.setattr(prediction, "CHUNK", size)
        job = JobStore(home).submit(WS, "predict", title="p", payload=payload, subject=run.dataset)
        predict(Work(job, home, no_progress))
        details.append(load_details(folder_of(home, job) / DETAILS))
    small, all_rows = details
    assert small.nearest == all_rows.nearest and len(small) == 24
    for name in (*ROWS, *JOINT):
        np.testing.assert_array_equal(getattr(small, name), getattr(all_rows, name), err_msg=name)
    assert (
        small.labelled.sum() == 20
        and small.joint_rows.tolist() == [20, 21, 22, 23]
        and small.means_eV.shape[1] == 4
    )
    assert [v.gap_eV is not None for v in library.verdicts(run.dataset)] == small.labelled.tolist()


def test_verdicts_and_shapes_of_uploaded_structures_are_stored(home, monkeypatch):
    monkeypatch.setattr(prediction, "_BATCH", 7)
    job = submitted(home)
    predict(Work(job, home, no_progress))
    verdicts = Library(home).verdicts(job.subject)
    assert [v.id for v in verdicts] == list(load_predictions(folder_of(home, job) / QUANTILES).ids)
    assert [v.status == "refused" for v in verdicts].count(True) == 1
    shapes = [load_shape(shapes_path(home, job.subject), row) for row in range(22)]
    assert [shape is None for shape in shapes] == [v.status == "refused" for v in verdicts]


def test_cancelled_prediction_resumes_after_its_last_chunk(home, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK", 6)
    finished = submitted(home)
    job = submitted(home)
    predict(Work(finished, home, no_progress))
    with pytest.raises(Cancelled):
        predict(Work(job, home, stopped_after(12)))
    assert (
        resuming.n_predicted_rows(home, job.payload) == 6
    )  # the second was not written when the end was asked for
    JobStore(home).request_cancel(WS, job.id)
    stopped = JobStore(home).job(WS, job.id)
    again = resuming.resume_prediction(JobStore(home), stopped)
    assert resuming.resume_prediction(JobStore(home), stopped).id == again.id
    assert resuming.without_resumed([again, stopped, finished]) == [again, finished]
    updates: list[Update] = []
    assert predict(Work(again, home, updates.append))["n_resumed_rows"] == 6
    assert min(u.done for u in updates if u.phase == "predicting") == 6
    assert not [
        u for u in updates if u.phase == "finding bonds and contacts"
    ]  # the shapes are there
    assert_same_files(folder_of(home, again), folder_of(home, finished))


def test_running_prediction_is_not_resumed(home):
    job = submitted(home)
    with pytest.raises(
        InputError,
        match=r"^Predicting new is queued\. Only a prediction that was stopped can be resumed\.",
    ):
        resuming.resume_prediction(JobStore(home), job)


def test_gaps_that_came_since_are_noticed(home, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK", 6)
    (run,), library = Library(home).runs(WS), Library(home)
    payload = {"run": run.id, "dataset": run.dataset, "name": "own"}
    job = JobStore(home).submit(WS, "predict", title="p", payload=payload, subject=run.dataset)
    with pytest.raises(Cancelled):
        predict(Work(job, home, stopped_after(18)))
    assert resuming.n_predicted_rows(home, job.payload) == 12
    library.save_gaps(run.dataset, np.full(24, 3.0), labels={}, level_of_theory="PBE")
    assert predict(Work(job, home, no_progress))["n_resumed_rows"] == 0
    assert load_details(folder_of(home, job) / DETAILS).labelled.all()


def test_prediction_killed_while_its_files_are_made_writes_them_again(home, monkeypatch):
    finished = submitted(home)
    job = submitted(home)
    predict(Work(finished, home, no_progress))

    class Killed(BaseException):
        """Raised where the process ends."""

    def killed(update: Update, /) -> None:
        if update.phase == "writing the table":
            raise Killed

    with pytest.raises(Killed):
        predict(Work(job, home, killed))
    assert resuming.n_predicted_rows(home, job.payload) == 22
    assert predict(Work(job, home, no_progress))["n_resumed_rows"] == 22
    assert_same_files(folder_of(home, job), folder_of(home, finished))


def test_kept_parts_go_with_their_run(home, monkeypatch):
    monkeypatch.setattr(prediction, "CHUNK", 6)
    job = submitted(home)
    with pytest.raises(Cancelled):
        predict(Work(job, home, stopped_after(12)))
    JobStore(home).request_cancel(WS, job.id)
    assert resuming.unfinished_prediction_folder(home, job.payload).is_dir()
    delete_run(JobStore(home), Library(home), Library(home).runs(WS)[0])
    assert not list((home.folder / "checkpoints").glob("*"))


def test_long_extxyz_is_left_out(home, monkeypatch):
    monkeypatch.setattr("bandgap.predictions.growing_store.MAX_EXTXYZ_BYTES", 1000)
    monkeypatch.setattr(prediction, "CHUNK", 6)
    job = submitted(home)
    sizes: list[int] = []
    add = GrowingPrediction.add

    def noted(self, *args):
        add(self, *args)
        sizes.append(self._table.files["structures"].size)

    monkeypatch.setattr(GrowingPrediction, "add", noted)
    predict(Work(job, home, no_progress))
    assert sizes[0] > 1000 and set(sizes) == {sizes[0]}
    assert (
        not (folder_of(home, job) / EXTXYZ).exists()
        and (folder_of(home, job) / PREDICTIONS_CSV).exists()
    )


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_prediction_of_a_killed_worker_resumes_in_the_next(home):
    n = 4 * prediction.CHUNK
    jobs = JobStore(home)
    job = submitted(home, n)
    environment = {**os.environ, "BANDGAP_HOME": str(home.folder)}
    worker = subprocess.Popen([sys.executable, "-m", "bandgap.jobs.worker"], env=environment)
    try:
        deadline = time.monotonic() + 300
        while not 0 < resuming.n_predicted_rows(home, job.payload) < n:
            assert jobs.job(WS, job.id).active and time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()
    n_rows = resuming.n_predicted_rows(home, job.payload)
    Worker(home).serve(until=lambda: True)  # the next worker finds it, and says how it ended
    stopped = jobs.job(WS, job.id)
    assert stopped.state == "interrupted" and 0 < n_rows < n and not folder_of(home, job).exists()
    again = resuming.resume_prediction(jobs, stopped)
    Worker(home).serve(until=lambda: not jobs.job(WS, again.id).active)
    ended = jobs.job(WS, again.id)
    assert (
        ended.state == "finished"
        and ended.result["n_resumed_rows"] >= n_rows
        and ended.result["n"] == n + 2
    )
    assert (folder_of(home, again) / PREDICTIONS_CSV).read_text() == expected(home, n).to_csv()

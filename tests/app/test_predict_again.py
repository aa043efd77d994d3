"""The page Predict while a prediction runs, after it was stopped, and after it was resumed."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.progress import RATE, Update
from bandgap.jobs import resuming
from bandgap.jobs.store import Job
from bandgap.jobs.tasks import prediction
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_workspace, texts, waters
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


@pytest.fixture
def workspace(
    tested_waters: tuple[Workspace, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace, which a test may change."""
    return copied_workspace(tested_waters[0], tmp_path, monkeypatch)


@pytest.fixture
def run(tested_waters: tuple[Workspace, str]) -> str:
    return tested_waters[1]


def queued_prediction(workspace: Workspace, run: str) -> Job:
    """Return a queued prediction of 20 structures."""
    return workspace.ask_prediction(run, [("new.extxyz", waters(20, step=0.01))])


def cancelled_after(
    workspace: Workspace, job: Job, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the job as its process would, and cancel it after so many structures."""
    monkeypatch.setattr(prediction, "CHUNK", 4)
    add = prediction._predict

    def predict_and_cancel(
        growing: object, *args: object, progress: Callable[[Update], None], **options: object
    ) -> None:
        def report(update: Update, /) -> None:
            if update.done >= rows:
                workspace.jobs.request_cancel(workspace.id, job.id)
                time.sleep(0.3)  # the request is looked up four times a second
            progress(update)

        add(growing, *args, progress=report, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patched:
        patched.setattr(prediction, "_predict", predict_and_cancel)
        work_all(workspace.home)


def test_panel_of_a_running_prediction_shows_rate_and_time_left(
    workspace: Workspace, visit: Visit, run: str
) -> None:
    job = queued_prediction(workspace, run)
    workspace.jobs.claim("a worker", lanes=["short"])
    update = Update("predicting", 4_096, 16_000, values={RATE: 128.3})
    workspace.jobs.add_event(job.id, "progress", update, since=time.time() - 32)
    at = visit("predict", run=run, prediction=job.id)
    (bar,) = at.get("progress")
    assert bar.proto.text.startswith("Predicting · 4,096 of 16,000 · 128 a second · about 1 min 3")
    assert bar.proto.text.endswith(" left") and "items a second" not in texts(at)


def test_cancelled_prediction_is_resumed_from_the_page(
    workspace: Workspace, visit: Visit, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = queued_prediction(workspace, run)
    cancelled_after(workspace, job, 12, monkeypatch)
    stopped = workspace.jobs.job(workspace.id, job.id)
    assert stopped is not None and stopped.state == "cancelled"
    at = visit("predict", run=run, prediction=job.id)
    assert "Stored: 8 structures predicted already." in texts(at)
    assert "Its results so far are stored: resume it when you like." in texts(
        at
    ) and "tart it again" not in texts(at)
    click(at, "Resume this prediction")
    again = at.query_params["prediction"]
    assert again != job.id and "Predicting new" in texts(at)
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, again)
    assert ended is not None and ended.state == "finished" and ended.result["n_resumed_rows"] == 8
    at = visit("predict", run=run)
    assert "**20 structures predicted**" in texts(at) and len(at.dataframe[0].value) == 20
    assert "Like the training set: " in texts(at)
    # The stopped prediction is not listed as well.
    (predicted,) = [box for box in at.selectbox if box.label == "Predicted structures"]
    assert len(predicted.options) == 1


def test_stopped_prediction_without_a_chunk_is_started_again(
    workspace: Workspace, visit: Visit, run: str
) -> None:
    job = queued_prediction(workspace, run)
    workspace.jobs.request_cancel(workspace.id, job.id)
    at = visit("predict", run=run)
    assert "Stored:" not in texts(at)
    assert "Nothing else was touched; start it again when you like." in texts(at)
    click(at, "Start it again")
    (again,) = resuming.without_resumed(workspace.jobs.jobs(workspace.id, kinds=["predict"]))
    assert again.state == "queued" and again.payload["continues"] == job.id

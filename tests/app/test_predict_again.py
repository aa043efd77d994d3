"""The page Predict while a prediction runs, after it was stopped, and after it was resumed."""

import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.progress import RATE, Update
from bandgap.jobs import resuming
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.store import Job
from bandgap.jobs.tasks import prediction
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, copied_home, empty_workspace, texts
from tests.app.small_runs import train_source
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str]:
    """A workspace and its finished run."""
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    source = SourceEntry("demo molecules", str(train_source(tmp_path_factory.mktemp("source"))))
    workspace.library.register_sources({"demo": source})
    run, _ = workspace.add_run(workspace.add_labelled(), method="fine_tune")
    work_all(workspace.home)
    return workspace, run


@pytest.fixture
def workspace(
    example: tuple[Workspace, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace, which a test may change."""
    home = copied_home(example[0], tmp_path / "home", monkeypatch)
    return Workspace(example[0].id, home)


@pytest.fixture
def run(example: tuple[Workspace, str]) -> str:
    return example[1]


def queued_prediction(workspace: Workspace, run: str) -> Job:
    """Return a queued prediction of 20 structures."""
    text = b"".join(WATER.replace(b"0.763", f"{0.70 + 0.01 * k:.3f}".encode()) for k in range(20))
    files = [("new.extxyz", text)]
    dataset = workspace.library.add_dataset(
        workspace.id, "new.extxyz", purpose="prediction", files=files
    )
    payload = {"run": run, "dataset": dataset.id, "name": "new.extxyz"}
    return workspace.jobs.submit(
        workspace.id, "predict", title="Predicting new", payload=payload, subject=dataset.id
    )


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


def test_another_visitor_cannot_go_on_with_it(workspace: Workspace, visit: Visit, run: str) -> None:
    job = queued_prediction(workspace, run)
    workspace.jobs.request_cancel(workspace.id, job.id)
    at = visit("predict", ws=str(uuid.uuid4()), run=run, prediction=job.id)
    assert "Start it again" not in [
        button.label for button in at.button
    ] and "Predicting new" not in texts(at)

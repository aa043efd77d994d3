"""The learning curve on the page Result: button, job, sentence, refusals."""

import json
import shutil
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.learning_curves import KIND, curve_path, start_curve
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, empty_workspace, texts

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Workspace, str, str]:
    """A workspace with a run on 40 waters, 20 held out, and one on 30."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    dataset = example.add_labelled()
    options = {"method": "kernel_ridge", "source": "none", "n_test": 20}
    large, _ = example.add_run(dataset, n=40, **options)
    small, _ = example.add_run(dataset, n=30, **options)
    work_all(example.home)
    assert [job.state for job in example.jobs.jobs(example.id)] == ["finished"] * 3
    return example, large, small


@pytest.fixture
def workspace(tmp_path, trained, monkeypatch) -> Workspace:
    """A copy of the workspace, which a test may change."""
    folder = tmp_path / "home"
    shutil.copytree(trained[0].home.folder, folder)
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    return Workspace(trained[0].id, Home(folder))


def curve_jobs(workspace: Workspace) -> list[Job]:
    return workspace.jobs.jobs(workspace.id, kinds=[KIND])


def button(at: AppTest, label: str):
    """Return the button whose label begins with this text."""
    return next(b for b in at.button if b.label.startswith(label))


def test_button_measures_the_curve_and_the_page_says_what_more_labels_give(
    visit: Visit, workspace: Workspace, trained
) -> None:
    run = workspace.library.run(workspace.id, trained[1])
    assert run is not None
    at = visit("result", run=run.id, tab="details")
    button(at, "Measure the learning curve (at most about").click().run()
    assert not at.exception
    (job,) = curve_jobs(workspace)
    assert job.title == f"Learning curve of {run.title}"
    assert job.active and button(at, "Cancel")
    work_all(workspace.home)
    (job,) = curve_jobs(workspace)
    assert (job.state, job.error) == ("finished", "")
    at = visit("result", run=run.id, tab="details")
    assert f"**{job.result['sentence']}**" in texts(at).replace("\\", "")
    assert "20 more labels: about" in job.result["sentence"]
    at.slider(key=f"more-labels-{run.id}").set_value(40).run()
    assert "**40 more labels: about" in texts(at)
    figures = [json.loads(chart.proto.spec) for chart in at.get("plotly_chart")]
    titles = [figure["layout"].get("xaxis", {}).get("title", {}).get("text") for figure in figures]
    assert titles.count("labels learned from") == 1


def test_cancelled_measurement_leaves_no_curve_and_can_be_started_again(
    visit: Visit, workspace: Workspace, trained
) -> None:
    run = workspace.library.run(workspace.id, trained[1])
    assert run is not None
    first = start_curve(workspace.jobs, workspace.library, run)
    assert start_curve(workspace.jobs, workspace.library, run).id == first.id
    with pytest.raises(InputError, match="Learning curve of .* is queued. Cancel it first"):
        delete_run(workspace.jobs, workspace.library, run)
    workspace.jobs.request_cancel(workspace.id, first.id)
    work_all(workspace.home)
    assert not curve_path(workspace.home, run.id).exists()
    at = visit("result", run=run.id, tab="details")
    assert "The learning curve was cancelled" in "\n".join(w.value for w in at.warning)
    button(at, "Measure the learning curve").click().run()
    assert len(curve_jobs(workspace)) == 2


def test_damaged_curve_is_named_and_can_be_measured_again(
    visit: Visit, workspace: Workspace, trained
) -> None:
    curve_path(workspace.home, trained[1]).write_text("{")
    at = visit("result", run=trained[1], tab="details")
    assert any("not readable as a learning curve" in error.value for error in at.error)
    assert button(at, "Measure the learning curve")


def test_run_with_few_labels_says_why_it_has_no_learning_curve(visit: Visit, trained) -> None:
    at = visit("result", run=trained[2], tab="details")
    text = texts(at)
    assert "This run learned from 30 labels. A learning curve needs at least 40" in text
    assert not [b for b in at.button if b.label.startswith("Measure")]

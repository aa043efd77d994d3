"""The learning curve on the page Result: button, job, sentence, refusals."""

import json
from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs.housekeeping import delete_run
from bandgap.jobs.learning_curves import KIND, curve_path, start_curve
from bandgap.jobs.store import Job
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_workspace, texts
from tests.app.test_result import button

Visit = Callable[..., AppTest]


@pytest.fixture
def workspace(tmp_path, predicted_waters, monkeypatch) -> Workspace:
    """A copy of the workspace, which a test may change."""
    return copied_workspace(predicted_waters[0], tmp_path, monkeypatch)


def curve_jobs(workspace: Workspace) -> list[Job]:
    return workspace.jobs.jobs(workspace.id, kinds=[KIND])


def test_button_measures_the_curve_and_the_page_says_what_more_labels_give(
    visit: Visit, workspace: Workspace, predicted_waters
) -> None:
    run = workspace.library.run(workspace.id, predicted_waters[1])
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
    visit: Visit, workspace: Workspace, predicted_waters
) -> None:
    run = workspace.library.run(workspace.id, predicted_waters[1])
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
    visit: Visit, workspace: Workspace, predicted_waters
) -> None:
    curve_path(workspace.home, predicted_waters[1]).write_text("{")
    at = visit("result", run=predicted_waters[1], tab="details")
    assert any("not readable as a learning curve" in error.value for error in at.error)
    assert button(at, "Measure the learning curve")


def test_run_with_few_labels_says_why_it_has_no_learning_curve(
    visit: Visit, workspace: Workspace
) -> None:
    dataset = workspace.library.datasets(workspace.id)[0].id
    run, _ = workspace.add_run(dataset, method="kernel_ridge", source="none", n=30, n_test=20)
    work_all(workspace.home)
    at = visit("result", run=run, tab="details")
    text = texts(at)
    assert "This run learned from 30 labels. A learning curve needs at least 40" in text
    assert not [b for b in at.button if b.label.startswith("Measure")]

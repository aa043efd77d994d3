"""The shipped model in an empty workspace: Home, the page Predict, and its run afterwards."""

from collections.abc import Callable

from streamlit.testing.v1 import AppTest

from bandgap.jobs.deletions import bin_run
from bandgap.jobs.disk import workspace_usage
from bandgap.jobs.explanations import start_explanation
from bandgap.jobs.shipped_runs import shipped_run
from bandgap.jobs.worker import work_all
from tests.app.conftest import WATER, Workspace, texts
from tests.app.test_actions import click, upload

Visit = Callable[..., AppTest]


def predict_water(at: AppTest, workspace: Workspace) -> None:
    upload(at, "New structures", [("water.extxyz", WATER, "")])
    click(at, "Predict")
    work_all(workspace.home)


def test_shipped_model_predicts_an_upload_in_an_empty_workspace(
    visit: Visit, workspace: Workspace
) -> None:
    at = visit("predict")
    (box,) = at.selectbox
    assert (box.label, box.options) == ("Predict with", ["PBE model (no labels needed)"])
    predict_water(at, workspace)
    run = shipped_run(workspace.library, workspace.id)
    assert workspace.library.runs(workspace.id) == [run]
    at = visit("predict", run=run.id)
    assert "These are PBE gaps." in texts(at)
    assert "With 50 labels of your own level of theory" in texts(at)
    (gap,) = at.dataframe[0].value["mean_eV"]
    assert float(gap) > 0.0
    assert workspace_usage(workspace.library, workspace.id).runs < 500_000  # links, no copy
    (prediction,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    job = start_explanation(
        workspace.jobs, workspace.library, run, prediction=prediction.id, n=1, row=0
    )
    work_all(workspace.home)
    explained = workspace.jobs.job(workspace.id, job.id)
    assert explained is not None and explained.result == {"n": 1}, explained
    for page in ("home", "result", "train", "compare"):
        assert not visit(page, run=run.id).error, page
    (errors,) = visit("result", run=run.id).dataframe
    assert list(errors.value["chemistry"])[:2] == ["all", "oxides"]


def test_home_leads_to_the_page_predict_with_the_shipped_model(visit: Visit) -> None:
    at = click(visit("home"), "Predict band gaps of my crystals")
    assert at.title[0].value == "Predict"
    assert "does not contain the run" not in texts(at)
    assert at.selectbox[0].value


def test_shipped_model_that_was_deleted_predicts_again(visit: Visit, workspace: Workspace) -> None:
    predict_water(visit("predict"), workspace)
    bin_run(workspace.jobs, workspace.library, shipped_run(workspace.library, workspace.id))
    predict_water(visit("predict"), workspace)
    predictions = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert [job.state for job in predictions] == ["finished"]

"""Why this number, on the page Predict: button, job, labels with weights and elements."""

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.foundation.errors import InputError
from bandgap.jobs.added_runs import RUNS
from bandgap.jobs.explanations import explanation_path, start_explanation
from bandgap.jobs.housekeeping import delete_dataset
from bandgap.jobs.worker import work_all
from bandgap.storage.run_archives import run_archive
from tests.app.conftest import WATER, Workspace, empty_workspace, texts

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> tuple[Workspace, str, str]:
    """A workspace with a run on 40 waters, 20 held out, and a prediction of 12 others."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    dataset = example.add_labelled()
    run, _ = example.add_run(dataset, method="kernel_ridge", source="none", n=40, n_test=20)
    work_all(example.home)
    text = b"".join(WATER.replace(b"0.763", f"{0.71 + 0.01 * k:.3f}".encode()) for k in range(12))
    new = example.library.add_dataset(
        example.id, "new", purpose="prediction", files=[("new.extxyz", text)]
    )
    payload = {"run": run, "dataset": new.id, "name": "new"}
    job = example.jobs.submit(
        example.id, "predict", title="Predicting", payload=payload, subject=new.id
    )
    work_all(example.home)
    assert {job.state for job in example.jobs.jobs(example.id)} == {"finished"}
    return example, run, job.id


@pytest.fixture
def workspace(trained, monkeypatch) -> Workspace:
    """The workspace, which the test changes."""
    monkeypatch.setenv("BANDGAP_HOME", str(trained[0].home.folder))
    return trained[0]


def pick(at: AppTest, prediction: str, row: int) -> AppTest:
    """Select a row of the table of predictions."""
    at.session_state[f"predicted-{prediction}-all-"] = {
        "selection": {"rows": [row], "columns": [], "cells": []}
    }
    return at.run()


def test_button_explains_all_structures_of_a_small_prediction(
    visit: Visit, workspace: Workspace, trained
) -> None:
    _, run, prediction = trained
    at = pick(visit("predict", run=run), prediction, 2)
    button = next(b for b in at.button if b.label == "Compare it with the labels")
    button.click().run()
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["explain"])
    assert (job.state, job.error, job.result) == ("finished", "", {"n": 12})
    assert explanation_path(workspace.home, run, prediction, n=12, row=2).is_file()
    at.run()
    assert not at.exception
    table = next(f.value for f in at.dataframe if "weight" in f.value)
    assert len(table) == 5
    assert table["weight"].abs().is_monotonic_decreasing
    assert "What makes the interval wide?" in texts(at)
    assert "What matters?" in texts(at)
    pick(at, prediction, 5)  # needs no further job
    assert any("weight" in f.value for f in at.dataframe)
    assert len(workspace.jobs.jobs(workspace.id, kinds=["explain"])) == 1


def test_runs_whose_labels_are_not_there_offer_no_comparison_with_them(
    visit: Visit, workspace: Workspace, trained
) -> None:
    """An added run, and then one whose data set was deleted."""
    _, run, prediction = trained
    library, jobs = workspace.library, workspace.jobs
    archive = run_archive(workspace.home.run_folder(run), name="copy")
    adding = RUNS.add_archive(jobs, library, workspace.id, archive, name="copy")
    work_all(workspace.home)
    added = library.run(workspace.id, adding.payload["run"])
    assert added is not None
    with pytest.raises(InputError, match="made elsewhere and came without its labelled"):
        start_explanation(jobs, library, added, prediction=prediction, n=12, row=2)
    delete_dataset(library, workspace.id, library.run(workspace.id, run).dataset)
    explanation_path(workspace.home, run, prediction, n=12, row=2).unlink(missing_ok=True)
    at = pick(visit("predict", run=run), prediction, 2)
    assert not at.exception
    assert "The data set of this run was deleted" in texts(at)
    assert "Compare it with the labels" not in [button.label for button in at.button]

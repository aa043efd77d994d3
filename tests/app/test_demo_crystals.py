"""The new crystals of the demo are the first prediction of a run on the demo crystals."""

from collections.abc import Callable
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from bandgap.datasets.demo_files import unlabelled_cifs
from bandgap.jobs.demos import DEMOS
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, copied_workspace, primary
from tests.app.test_actions import click

Visit = Callable[..., AppTest]
LABEL = "Predict the demo's 12 new crystals"


def test_other_runs_are_not_offered_the_demo_crystals(
    visit: Visit,
    tested_waters: tuple[Workspace, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example, run = tested_waters
    copied_workspace(example, tmp_path, monkeypatch)
    assert primary(visit("predict", ws=example.id, run=run)) == ["Predict"]


def test_demo_goes_to_its_end_with_one_click_after_the_transfer(
    visit: Visit, workspace: Workspace
) -> None:
    folder = str(DEMOS["demo"].folder())
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", folder)})
    click(visit("data"), "Use the demo data")
    work_all(workspace.home)
    (dataset,) = workspace.library.datasets(workspace.id)
    run, _ = workspace.add_run(dataset.id, method="last_layer_ridge", n=30, n_test=20)
    work_all(workspace.home)
    at = visit("predict", run=run)
    assert primary(at) == [LABEL]
    again = visit("predict", run=run)  # another tab
    click(at, LABEL)
    click(again, LABEL)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert LABEL not in [button.label for button in at.button]
    work_all(workspace.home)
    at = visit("predict", run=run, prediction=job.id)
    table = at.dataframe[0].value
    assert len(table) == len(unlabelled_cifs()) == 12
    assert (table["status"] == "refused").sum() == 3 and table["mean_eV"].notna().sum() == 9
    assert workspace.library.datasets(workspace.id) == [dataset]  # the new ones are not for Train
    assert primary(at) == []

"""Intervals of every kind on the page Predict, and conformal ones on the page Train."""

from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, texts
from tests.app.small_runs import predict, workspace_with_source
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str, str]:
    """A workspace with predictions of two runs: one held back 20 of 40 structures, one none."""
    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled()
    runs = [
        example.add_run(dataset, method="fine_tune", conformal_share=share)[0]
        for share in (0.5, 0.0)
    ]
    work_all(example.home)
    for run in runs:
        predict(example, run)
    return example, runs[0], runs[1]


@pytest.fixture
def workspace(trained: tuple[Workspace, str, str], monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(trained[0].home.folder))
    return trained[0]


def test_predict_page_shows_the_conformal_interval_and_what_it_rests_on(
    visit: Visit, trained: tuple[Workspace, str, str]
) -> None:
    at = visit("predict", run=trained[1])
    usual = at.dataframe[0].value.iloc[0]
    assert at.segmented_control(key="interval-kind").options == [
        "prediction",
        "credible",
        "conformal",
    ]
    at.segmented_control(key="interval-kind").set_value("conformal").run()
    assert (
        "Conformal interval (rests on 20 held-back crystals, no model assumption: the gap of "
        "another" in texts(at)
    )
    assert "crystal like them falls in it with 95 % probability)." in texts(at)
    first_row = at.dataframe[0].value.iloc[0]
    assert first_row["mean_eV"] == usual["mean_eV"] and first_row["interval"] != usual["interval"]
    middle = np.mean([float(end) for end in first_row["interval"].split(" to ")])
    assert middle == pytest.approx(first_row["mean_eV"], abs=0.006)  # of two rounded ends


def test_predict_page_says_which_levels_the_held_back_crystals_give(
    visit: Visit, trained: tuple[Workspace, str, str]
) -> None:
    at = visit("predict", run=trained[1])
    at.segmented_control(key="interval-kind").set_value("conformal").run()
    at.slider[0].set_value(97).run()
    assert (
        "20 held-back structures are too few for 97 % conformal intervals, which need 33"
        in texts(at)
    )
    assert "read those of 95 % or less" in texts(at)
    assert not at.dataframe
    at.slider[0].set_value(95).run()
    assert len(at.dataframe[0].value) == 2


def test_predict_page_shows_intervals_and_the_slider_needs_no_job(
    visit: Visit, trained: tuple[Workspace, str, str]
) -> None:
    example, _, run = trained
    before = len(example.jobs.jobs(example.id))
    at = visit("predict", run=run)
    assert "**1 structure predicted**; 1 of them with a warning; 1 refused." in texts(at)
    table = at.dataframe[0].value
    assert list(table["file"]) == ["new.xyz", "broken.cif"]
    good = table.iloc[0]
    bad = table.iloc[1]
    lower, upper = map(float, good["interval"].split(" to "))
    assert lower < good["mean_eV"] < upper
    assert bad["status"] == "refused" and "cell" in bad["note"] and np.isnan(bad["mean_eV"])

    at.slider[0].set_value(50).run()
    narrow_lower, narrow_upper = map(float, at.dataframe[0].value.iloc[0]["interval"].split(" to "))
    assert narrow_upper - narrow_lower < upper - lower
    assert "falls in it with 50 % probability" in texts(at)
    kinds = at.segmented_control(key="interval-kind")
    assert kinds.options == ["prediction", "credible"]  # nothing was held back
    kinds.set_value("credible").run()
    assert "Credible interval of the mean" in texts(at)
    assert len(example.jobs.jobs(example.id)) == before


def test_train_page_holds_back_the_share_of_the_slider(visit: Visit, workspace: Workspace) -> None:
    at = visit("train")
    (slider,) = [s for s in at.slider if s.label == "Hold back for conformal intervals"]
    assert slider.value == 0
    slider.set_value(30)
    click(at, "Start training")
    newest = workspace.jobs.jobs(workspace.id, kinds=["transfer"])[0]
    assert newest.payload["request"]["conformal_share"] == 0.3
    assert "30 % held back, 39 " in newest.title

"""Intervals of unusual structures on the page Predict."""

import json
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.predict.prediction_files import companion_json
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import QUANTILES, load_predictions
from bandgap.runs.requests import PredictRequest
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

Visit = Callable[..., AppTest]

N = 80
FRAME = """3
Properties=species:S:1:pos:R:3 id={id}
O 0 0 0.119
H 0 {first:.4f} {second:.4f}
H 0 {third:.4f} -0.477
"""
# a water of usual shape, and one with both H atoms on one side
NEW = FRAME.format(id="usual", first=0.80, second=-0.48, third=-0.78)
NEW += FRAME.format(id="one-sided", first=0.8, second=0.9, third=-0.8)


def add_waters(example: Workspace) -> str:
    """Store labelled water molecules that differ in three coordinates; return the id of the set."""
    rng = np.random.default_rng(0)
    shapes = rng.normal([0.8, -0.48, -0.8], 0.08, (N, 3))
    text = "".join(
        FRAME.format(id=f"water-{k}", first=first, second=second, third=third)
        for k, (first, second, third) in enumerate(shapes)
    )
    dataset = example.add_checked([("waters.extxyz", text.encode())], name="waters")
    example.library.save_gaps(
        dataset,
        6.0 + 5.0 * (shapes[:, 0] - 0.8),
        labels={"source": "gaps.csv", "matched": N},
        level_of_theory="PBE",
    )
    return dataset


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str, str, str]:
    """A workspace, a run, a data set of two structures, and its prediction."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    source = train_source(tmp_path_factory.mktemp("source"))
    example.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = add_waters(example)
    run, _ = example.add_run(dataset, method="last_layer_ridge", n=60, n_test=20)
    new = example.add_checked([("new.xyz", NEW.encode())], name="new waters")
    job = example.jobs.submit(
        example.id,
        "predict",
        title="Predicting",
        payload={"run": run, "dataset": new, "name": "new waters"},
        subject=new,
    )
    work_all(example.home)
    return example, run, new, job.id


@pytest.fixture
def workspace(
    tmp_path, trained: tuple[Workspace, str, str, str], monkeypatch: pytest.MonkeyPatch
) -> Workspace:
    """A copy of the workspace, which a test may change."""
    folder = tmp_path / "home"
    shutil.copytree(trained[0].home.folder, folder)
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    return Workspace(trained[0].id, Home(folder))


def test_intervals_of_unusual_structures_are_widened_or_withheld_by_choice(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    _, run, _, prediction = trained
    at = visit("predict", run=run, prediction=prediction)
    before = at.dataframe[0].value
    stored = load_predictions(workspace.home.prediction_folder(run, prediction) / QUANTILES)
    assert stored.domain_p is not None and stored.domain_p[1] < stored.domain_p[0]
    id_before = at.dataframe[0].proto.id
    assert "held-out structures of this run" not in texts(at)
    at.segmented_control(key="unusual-intervals").set_value("widened").run()
    at.number_input(key="unusual-below").set_value(float(stored.domain_p.mean())).run()
    assert not at.exception
    widened = at.dataframe[0].value
    widths = [(frame["upper_eV"] - frame["lower_eV"]).to_numpy() for frame in (before, widened)]
    np.testing.assert_allclose(widths[1] / widths[0], [1.0, 2.0], rtol=1e-6)
    assert "Interval widened 2 times: domain_p is below" in widened["note"].iloc[1]
    assert "Of 20 held-out structures of this run" in texts(at)
    # rows may have another order and another status, so that a selection is not kept
    assert at.dataframe[0].proto.id != id_before
    at.segmented_control(key="unusual-intervals").set_value("withheld").run()
    withheld = at.dataframe[0].value
    assert withheld["upper_eV"].isna().tolist() == [False, True]
    assert withheld["mean_eV"].tolist() == before["mean_eV"].tolist()


def test_companion_of_the_download_has_the_changes(
    workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    _, run_id, _, prediction = trained
    stored = load_predictions(workspace.home.prediction_folder(run_id, prediction) / QUANTILES)
    assert stored.domain_p is not None
    run = workspace.library.run(workspace.id, run_id)
    assert run is not None
    body = json.loads(
        companion_json(
            json.loads((workspace.home.run_folder(run_id) / "manifest.json").read_text()),
            run=run,
            prediction=prediction,
            name="waters",
            request=PredictRequest(widen_below_p=0.05, widen_factor=3.0),
            columns=["domain_p"],
            counts={"all": 2},
        )
    )
    assert body["widen_below_p"] == 0.05 and body["widen_factor"] == 3.0
    assert "--widen-below-p 0.05" in body["repeat"] and "--widen-factor 3" in body["repeat"]

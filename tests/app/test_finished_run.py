"""Pages of a trained run and of its predictions, on small data."""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.descriptors import config_for
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from bandgap.networks.training import TrainingConfig
from bandgap.sources.model import SourceConfig
from bandgap.sources.training import train_source_folder
from bandgap.structures import read_structures
from tests.app.conftest import BROKEN, WATER, Workspace, empty_workspace, texts

Visit = Callable[..., AppTest]
SHORT = {"warmup": 20, "draws": 40, "keep": 40, "chains": 2}


@dataclass(frozen=True)
class Trained:
    """A workspace with a finished run of each kind and a prediction by each."""

    workspace: Workspace
    bayesian: str
    fine_tuned: str
    predictions: dict[str, str]  # job of the prediction by run


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Everything trained once, on distorted water molecules, as the worker would."""
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    source = train_source(tmp_path_factory.mktemp("source"))
    workspace.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = workspace.add_labelled()
    bayesian, first = workspace.add_run(dataset, method="btl_pcp_pe", settings={"sampler": SHORT})
    fine_tuned, second = workspace.add_run(dataset, method="fine_tune")
    work_all(workspace.home)
    for job in (first, second):
        ended = workspace.jobs.job(workspace.id, job.id)
        assert ended is not None and ended.state == "finished", ended
    return Trained(
        workspace,
        bayesian,
        fine_tuned,
        {run: predict(workspace, run) for run in (bayesian, fine_tuned)},
    )


@pytest.fixture
def workspace(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(trained.workspace.home.folder))
    return trained.workspace


@cache
def source_files() -> dict[str, bytes]:
    """Return the files of a source network of toy size, trained once in a process."""
    text = b"".join(WATER.replace(b"0.119", f"{0.05 + 0.002 * k:.3f}".encode()) for k in range(80))
    records = read_structures(text, "molecules.extxyz")
    config = SourceConfig(hidden=(8, 4), training=TrainingConfig(max_epochs=5))
    descriptor = config_for(species=("H", "O"))
    gaps = np.linspace(6.0, 9.0, 80)
    with TemporaryDirectory() as folder:
        out = train_source_folder(
            records,
            gaps,
            descriptor=descriptor,
            config=config,
            out=Path(folder) / "source",
            seed=0,
            device="cpu",
        )
        return {path.name: path.read_bytes() for path in out.iterdir()}


def train_source(out: Path) -> Path:
    """Write a source network of toy size to a folder and return it."""
    out.mkdir(exist_ok=True)
    for name, content in source_files().items():
        (out / name).write_bytes(content)
    return out


def predict(workspace: Workspace, run: str) -> str:
    """Predict a good and a broken file with a run as the worker would and return the job's id."""
    files = [("new.xyz", WATER), ("broken.cif", BROKEN)]
    dataset = workspace.library.add_dataset(
        workspace.id, "new.xyz and 1 more file", purpose="prediction", files=files
    )
    payload = {"run": run, "dataset": dataset.id, "name": dataset.name}
    job = workspace.jobs.submit(
        workspace.id, "predict", title="Predicting", payload=payload, subject=dataset.id
    )
    work_all(workspace.home)
    return job.id


def figure(at: AppTest, index: int) -> dict[str, Any]:
    """Return a Plotly figure of the page as plain values."""
    return json.loads(at.get("plotly_chart")[index].proto.spec)  # type: ignore[no-any-return]


def test_train_page_shows_that_a_run_is_finished(visit: Visit, trained: Trained) -> None:
    at = visit("train", run=trained.bayesian)
    assert list(at.dataframe[0].value["state"]) == ["finished", "finished"]
    assert "The training is finished after" in texts(at)
    assert "See the result" in [link.proto.label for link in at.get("page_link")]


def test_layers_show_weights_with_prior(visit: Visit, trained: Trained) -> None:
    at = visit("result", run=trained.bayesian, tab="layers")
    assert "RMSE" in texts(at)
    weights = figure(at, 0)
    assert weights["layout"]["yaxis"]["ticktext"] == ["layer 1", "layer 2", "output layer"]
    assert weights["layout"]["xaxis"]["title"]["text"].startswith("layer weight c")
    row_of_quantity = {row["quantity"]: row for row in at.dataframe[0].value.to_dict("records")}
    assert {"c1", "c2", "c3", "tau", "sigma", "predictions"} <= set(row_of_quantity)
    assert row_of_quantity["c1"]["mean"] + row_of_quantity["c2"]["mean"] + row_of_quantity["c3"][
        "mean"
    ] == pytest.approx(1.0)
    assert row_of_quantity["tau"]["R-hat"] > 0.9


def test_result_warns_once_of_chains_that_disagree(visit: Visit, trained: Trained) -> None:
    text = texts(visit("result", run=trained.bayesian, tab="layers"))  # 40 draws can never agree
    assert text.count("The chains have not agreed yet on") == 1
    assert "Chains agree" not in text


def test_predict_page_shows_intervals_and_the_slider_needs_no_job(
    visit: Visit, trained: Trained
) -> None:
    before = len(trained.workspace.jobs.jobs(trained.workspace.id))
    at = visit("predict", run=trained.bayesian)
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
    at.segmented_control(key="interval-kind").set_value("credible").run()
    assert "Credible interval of the mean" in texts(at)
    assert len(trained.workspace.jobs.jobs(trained.workspace.id)) == before


def test_result_of_a_point_estimate_has_no_tab_of_what_it_learned(
    visit: Visit, trained: Trained
) -> None:
    at = visit("result", run=trained.fine_tuned)
    assert [tab.label for tab in at.tabs] == ["Errors", "Intervals", "Details and files"]


def test_predict_page_of_damaged_predictions_says_what_to_do(
    visit: Visit, trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(trained.workspace.home.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    run = trained.fine_tuned
    folder = Home(tmp_path).prediction_folder(run, trained.predictions[run])
    (folder / "quantiles.safetensors").write_bytes(b"\x00 damaged")
    at = visit("predict", run=run)
    assert "Run predict again" in at.error[0].value and "Traceback" not in texts(at)

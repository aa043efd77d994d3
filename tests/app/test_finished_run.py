"""Pages of a run that was really trained and of predictions that were really made, on small data."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.descriptors import config_for
from bandgap.jobs.library import Library
from bandgap.jobs.worker import work_all
from bandgap.runs import train_source_run
from bandgap.source import SourceConfig
from bandgap.structures import read_structures
from bandgap.training import TrainingConfig
from tests.app.conftest import BROKEN, WATER, Workspace, texts

Visit = Callable[..., AppTest]
SHORT = {"warmup": 20, "draws": 40, "keep": 40, "chains": 2}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A source network of toy size, trained on distorted water molecules."""
    text = b"".join(WATER.replace(b"0.119", f"{0.05 + 0.002 * k:.3f}".encode()) for k in range(80))
    records = read_structures(text, "molecules.extxyz")
    config = SourceConfig(hidden=(8, 4), training=TrainingConfig(max_epochs=5))
    out = tmp_path_factory.mktemp("source")
    gaps = np.linspace(6.0, 9.0, 80)
    descriptor = config_for(species=("H", "O"))
    return train_source_run(records, gaps, descriptor=descriptor, config=config, out=out, seed=0, device="cpu")


def train(workspace: Workspace, source: Path, *, method: str = "btl_pcp_pe") -> str:
    """Run a transfer to its end as the worker would and return the run's id."""
    workspace.library.register("source", {"demo": {"title": "demo molecules", "folder": str(source)}})
    settings = {"sampler": SHORT} if method == "btl_pcp_pe" else {}
    run, job = workspace.add_run(workspace.add_labelled(), method=method, settings=settings)
    work_all(workspace.home)
    ended = workspace.jobs.job(workspace.id, job.id)
    assert ended is not None and ended.state == "finished", ended
    return run


def predict(workspace: Workspace, run: str) -> str:
    """Predict a good and a broken file with a run as the worker would and return the job's id."""
    files = [("new.xyz", WATER), ("broken.cif", BROKEN)]
    dataset = workspace.library.add_dataset(workspace.id, "new.xyz and 1 more file", purpose="prediction", files=files)
    payload = {"run": run, "dataset": dataset.id, "name": dataset.name}
    job = workspace.jobs.submit(workspace.id, "predict", title="Predicting", payload=payload, subject=dataset.id)
    work_all(workspace.home)
    return job.id


def figure(at: AppTest, index: int) -> dict:  # type: ignore[type-arg]
    return json.loads(at.get("plotly_chart")[index].proto.spec)  # type: ignore[no-any-return]


def test_pages_of_a_finished_run(visit: Visit, workspace: Workspace, source: Path) -> None:
    run = train(workspace, source)
    at = visit("train", run=run)
    assert at.dataframe[0].value["state"][0] == "finished"
    assert "The transfer is finished after" in texts(at)

    at = visit("posterior", run=run)
    assert "On 10 held-out structures the error is **" in texts(at)
    weights = figure(at, 0)
    assert weights["layout"]["yaxis"]["ticktext"] == ["layer 1", "layer 2", "output layer"]
    assert weights["layout"]["xaxis"]["title"]["text"].startswith("layer weight c")
    named = {row["quantity"]: row for row in at.dataframe[0].value.to_dict("records")}
    assert {"c1", "c2", "c3", "tau", "sigma", "predictions"} <= set(named)
    assert named["c1"]["mean"] + named["c2"]["mean"] + named["c3"]["mean"] == pytest.approx(1.0)
    assert named["tau"]["R-hat"] > 0.9
    heldout = at.dataframe[1].value
    assert len(heldout) == 10 and heldout["gap_eV"].between(5, 8).all()

    at = visit("predict", run=run)
    assert [button.label for button in at.button] == ["Predict"]
    assert at.get("plotly_chart") == []


def test_predict_page_shows_intervals_and_the_slider_needs_no_job(
    visit: Visit, workspace: Workspace, source: Path
) -> None:
    run = train(workspace, source)
    predict(workspace, run)
    at = visit("predict", run=run)
    assert "**1 structure predicted**; 1 refused." in texts(at)
    table = at.dataframe[0].value
    assert list(table["file"]) == ["new.xyz", "broken.cif"]
    good, bad = table.iloc[0], table.iloc[1]
    assert good["lower_eV"] < good["mean_eV"] < good["upper_eV"]
    assert bad["status"] == "refused" and "cell" in bad["note"] and np.isnan(bad["mean_eV"])

    at.slider[0].set_value(50).run()
    narrower = at.dataframe[0].value.iloc[0]
    assert narrower["upper_eV"] - narrower["lower_eV"] < good["upper_eV"] - good["lower_eV"]
    assert "falls in it with 50 % probability" in texts(at)
    at.get("button_group")[0].set_value(["credible"]).run()
    assert "Credible interval of the mean" in texts(at)
    assert len(workspace.jobs.jobs(workspace.id, kinds=["predict"])) == 1


def test_posterior_page_of_a_point_estimate_says_that_it_has_none(
    visit: Visit, workspace: Workspace, source: Path
) -> None:
    at = visit("posterior", run=train(workspace, source, method="fine_tune"))
    assert "gives one best answer: it has no posterior of layer weights." in texts(at)
    assert len(at.get("plotly_chart")) == 1


@pytest.mark.parametrize("name", ["posterior", "predict"])
def test_result_pages_of_a_damaged_artifact_say_what_is_safe(
    visit: Visit, workspace: Workspace, source: Path, name: str
) -> None:
    run = train(workspace, source, method="fine_tune")
    prediction = predict(workspace, run)
    folder = workspace.home.run_folder(run)
    for path in (folder / "manifest.json", workspace.home.prediction_folder(run, prediction) / "quantiles.safetensors"):
        path.write_bytes(b"\x00 damaged")
    at = visit(name, run=run)
    expected = {"posterior": "train this one again", "predict": "Run predict again"}[name]
    assert expected in at.error[0].value and "Traceback" not in texts(at)


def test_another_workspace_cannot_predict_with_the_run(workspace: Workspace, source: Path) -> None:
    run = train(workspace, source, method="fine_tune")
    stranger = "00000000-0000-4000-8000-000000000000"
    dataset = Library(workspace.home).add_dataset(stranger, "x", purpose="prediction", files=[("new.xyz", WATER)])
    payload = {"run": run, "dataset": dataset.id}
    job = workspace.jobs.submit(stranger, "predict", title="p", payload=payload, subject=dataset.id)
    work_all(workspace.home)
    ended = workspace.jobs.job(stranger, job.id)
    assert ended is not None and ended.state == "failed"
    assert ended.error == "This workspace has no such run. Choose a finished run from the list."

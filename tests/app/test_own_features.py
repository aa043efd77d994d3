"""Own features on the pages: a table to train with, and its columns for a prediction."""

from collections.abc import Callable

import numpy as np
from streamlit.testing.v1 import AppTest

from bandgap.jobs.catalogue import register_methods
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import load_predictions
from tests.app.conftest import Workspace, labelled
from tests.app.test_actions import click, upload
from tests.app.test_baseline_column import CHEAP, DEAR
from tests.app.test_crystal_source import N, perovskites

Visit = Callable[..., AppTest]


def features(n: int) -> bytes:
    lines = ["id,x,y", *(f"Cs_{k:02d},{CHEAP[k]:.4f},{k % 7}" for k in range(n))]
    return ("\n".join(lines) + "\n").encode()


def test_table_is_learned_from_alone_and_predicted_with(visit: Visit, workspace: Workspace) -> None:
    register_methods(workspace.library)
    dataset = workspace.add_checked([("perovskites.extxyz", perovskites(N))], name="perovskites")
    workspace.give_gaps(dataset, DEAR, level="HSE06")
    at = visit("train", data=dataset)
    at.selectbox[1].set_value("none").run()
    upload(at, "Your own features", [("mine.csv", features(N), "text/csv")])
    at.run()
    labelled(at.checkbox, "Learn from your own features alone").check().run()
    click(at, "Start training")
    work_all(workspace.home)
    (job,) = workspace.jobs.jobs(workspace.id, kinds=["transfer"])
    assert job.state == "finished", job.error
    assert "own features alone, " in job.title
    at = visit("result", run=job.subject, tab="details")
    assert not at.exception
    assert any("--features mine.csv" in c.value and "--preset none" in c.value for c in at.code)

    at = visit("predict", run=job.subject)
    upload(at, "New structures", [("new.extxyz", perovskites(4), "")])
    upload(at, "Own features of these structures", [("new.csv", features(3), "text/csv")])
    click(at, "Predict")
    work_all(workspace.home)
    (prediction,) = workspace.jobs.jobs(workspace.id, kinds=["predict"])
    assert prediction.state == "finished", prediction.error
    folder = workspace.home.prediction_folder(job.subject, prediction.id)
    predictions = load_predictions(folder / "quantiles.safetensors")
    assert "has no own features (x, y, as in mine.csv)" in predictions.problem[3]
    np.testing.assert_allclose(predictions.mean_eV[:3], DEAR[:3], atol=0.2)
    assert not visit("predict", run=job.subject).exception

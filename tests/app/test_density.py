"""The p-value of the domain on the pages Train, Result, Predict and Data."""

import csv
import dataclasses
import io
import json
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.predict.prediction_files import companion_json
from app.components.predict.prediction_table import Table
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import PREDICTIONS_CSV, QUANTILES, load_predictions
from bandgap.predictions.unusual_rows import unusual_facts
from bandgap.predictions.window import Window
from bandgap.predictions.withholding import IntervalChanges
from tests.app.conftest import Workspace, empty_workspace, texts
from tests.app.test_finished_run import train_source

Visit = Callable[..., AppTest]

N = 230
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
    """A workspace, a run with a density, a data set of two structures, and its prediction."""
    example = empty_workspace(tmp_path_factory.mktemp("home"))
    source = train_source(tmp_path_factory.mktemp("source"))
    example.library.register_sources({"demo": SourceEntry("demo molecules", str(source))})
    dataset = add_waters(example)
    run, _ = example.add_run(dataset, method="last_layer_ridge", n=210, n_test=20, density="flow")
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


def test_predict_shows_the_p_value_its_range_and_the_number_expected_by_chance(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    _, run, _, prediction = trained
    at = visit("predict", run=run, prediction=prediction)
    p = at.dataframe[0].value["domain_p"]
    expected = (
        f"domain_p up to 0.05): {(p <= 0.05).sum()} of 2, where about 0.1 are expected by chance."
    )
    assert expected in texts(at) and "At a false discovery rate of 10 %" in texts(at)
    # the p-value beat the distance with a source network
    assert "Read the p-value first" in texts(at) and "1.00 and 0.86 on demo" in texts(at)
    assert texts(at).index("Read the p-value first") < texts(at).index("(domain_p up to")
    columns = list(at.dataframe[0].value.columns)
    assert columns.index("nearest_percentile") < columns.index("domain_p")
    stored = workspace.home.prediction_folder(run, prediction) / PREDICTIONS_CSV
    rows = list(csv.DictReader(io.StringIO(stored.read_text())))
    np.testing.assert_allclose([float(row["domain_p"]) for row in rows], p, atol=1e-6)
    assert p[1] < p[0] and len(set(p)) == 2


def test_intervals_of_unusual_structures_are_widened_or_withheld_by_choice(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    _, run, _, prediction = trained
    at = visit("predict", run=run, prediction=prediction)
    before = at.dataframe[0].value
    id_before = at.dataframe[0].proto.id
    assert "held-out structures of this run" not in texts(at)
    at.segmented_control(key="unusual-intervals").set_value("widened").run()
    at.number_input(key="unusual-below").set_value(float(before["domain_p"].mean())).run()
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


def test_companion_of_the_download_has_the_changes_and_the_counts_of_the_batch(
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
            level=0.95,
            kind="prediction",
            changes=IntervalChanges(widen_below_p=0.05, widen_factor=3.0),
            columns=["domain_p"],
            counts={"all": 2},
            unusual=unusual_facts(stored.domain_p[0], stored.status),
        )
    )
    assert body["widen_below_p"] == 0.05 and body["widen_factor"] == 3.0
    assert body["unusual"]["n_assessed"] == 2
    assert body["unusual"]["n_expected_by_chance"] == 0.1
    assert "--widen-below-p 0.05" in body["repeat"] and "--widen-factor 3" in body["repeat"]


def test_selected_structure_has_the_range_of_its_p_value(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    _, run, _, prediction = trained
    path = workspace.home.prediction_folder(run, prediction) / QUANTILES
    stored = load_predictions(path)
    assert stored.domain_p is not None
    lines = Table(stored.to_columns()).about(1)
    p, lowest, highest = stored.domain_p[:, 1]
    assert lines["p-value of the domain"] == (
        f"{p:.2g} ({lowest:.2g} to {highest:.2g} over the flows)"
    )
    unseen = dataclasses.replace(stored, domain_p=np.full((3, 2), np.nan))
    assert Table(unseen.to_columns()).about(1)["p-value of the domain"].startswith("not assessable")
    withheld = IntervalChanges(withhold_below_p=1.0).apply(stored)
    lines = Table(withheld.to_columns(window=Window(1.0, 2.0))).about(1)
    assert lines["95 % prediction interval"] == "withheld"
    assert not any("nan" in text for text in lines.values())


def test_applicability_shows_the_p_values_of_a_predicted_data_set(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    new = trained[2]
    at = visit("data", data=new)
    at.segmented_control(key="data-view").set_value("Applicability").run()
    assert not at.exception
    assert "of 2, where about 0.1 are expected by chance" in texts(at)
    assert "Read the p-value first" in texts(at)
    table = at.dataframe[0].value
    assert list(table["id"]) == ["one-sided", "usual"]
    assert table["domain_p"].is_monotonic_increasing


def test_applicability_of_a_data_set_without_prediction_says_what_to_do(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    dataset = workspace.add_checked([("more.xyz", NEW.encode())], name="more")
    at = visit("data", data=dataset)
    at.segmented_control(key="data-view").set_value("Applicability").run()
    assert "No run with a density has predicted this data set yet" in texts(at)


def test_result_says_how_many_structures_the_density_has(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    text = texts(visit("result", run=trained[1]))
    assert "by the density of 210 structures in" in text and "smallest possible value is" in text


def test_run_on_too_few_structures_says_how_many_a_density_needs(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    dataset = workspace.library.datasets(workspace.id)[-1].id
    run, _ = workspace.add_run(dataset, method="last_layer_ridge", n=60, n_test=20, density="flow")
    work_all(workspace.home)
    text = texts(visit("result", run=run))
    assert "no p-value of the domain: 60 different structures are too few" in text


def test_train_offers_the_density_and_its_default_is_none(
    visit: Visit, workspace: Workspace, trained: tuple[Workspace, str, str, str]
) -> None:
    labelled = workspace.library.datasets(workspace.id)[-1].id
    box = visit("train", data=labelled).selectbox(key="train-density")
    assert box.value == "none" and box.options == ["none", "flow"]

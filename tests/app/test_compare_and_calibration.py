"""The page Compare, and the intervals of the page Result, for trained runs."""

import base64
import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from bandgap.evaluation.calibrators import FILE, load_calibrator
from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from tests.app.conftest import Workspace, primary, texts
from tests.app.small_runs import predict, workspace_with_source
from tests.app.test_actions import click

Visit = Callable[..., AppTest]


@dataclass(frozen=True)
class Trained:
    """A workspace with a prediction and three runs on 100 structures.

    Two of the runs have the same 40 held-out structures.
    """

    workspace: Workspace
    large: str
    small: str
    other_seed: str
    prediction: str


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """Everything trained once, as the worker would."""
    example = workspace_with_source(tmp_path_factory)
    dataset = example.add_labelled(100)
    numbers = [{"n": 50, "seed": 0}, {"n": 20, "seed": 0}, {"n": 50, "seed": 1}]
    runs = [
        example.add_run(dataset, method="last_layer_ridge", n_test=40, **settings)[0]
        for settings in numbers
    ]
    work_all(example.home)
    return Trained(example, *runs, predict(example, runs[0]))


@pytest.fixture
def workspace(trained: Trained, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """The workspace of the trained runs."""
    monkeypatch.setenv("BANDGAP_HOME", str(trained.workspace.home.folder))
    return trained.workspace


@pytest.fixture
def copied(trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A copy of the trained workspace that a test may change."""
    shutil.copytree(trained.workspace.home.folder, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path))
    return Home(tmp_path)


def plain(value: Any) -> Any:
    """Return a part of a figure with its arrays as lists; Plotly sends them as base64."""
    if isinstance(value, dict) and set(value) >= {"dtype", "bdata"}:
        return np.frombuffer(base64.b64decode(value["bdata"]), dtype=value["dtype"]).tolist()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list) else value


def figures(at: AppTest) -> dict[str, Any]:
    """Return the Plotly figures of a page as plain values, by the title of their x axis."""
    specs = [plain(json.loads(chart.proto.spec)) for chart in at.get("plotly_chart")]
    return {spec["layout"]["xaxis"]["title"]["text"]: spec for spec in specs}


def test_compare_page_measures_the_runs_on_a_data_set_against_the_baseline(
    visit: Visit, trained: Trained
) -> None:
    at = visit("compare", runs=trained.small)
    assert at.selectbox[0].value == trained.small
    table = at.data_editor[0].value
    runs = [trained.large, trained.small, trained.other_seed]
    assert table.loc[runs, "run"].tolist() == [
        "last_layer_ridge, n = 50, seed 0",
        "last_layer_ridge, n = 20",
        "last_layer_ridge, n = 50, seed 1",
    ]
    drawn = figures(at)["difference in RMSE (eV)"]
    values = [value for trace in drawn["data"] for value in trace["x"]]
    expected = table.loc[trained.large, "rmse_eV"] - table.loc[trained.small, "rmse_eV"]
    assert any(value == pytest.approx(expected) for value in values)
    cell = table.loc[trained.large, "difference"]
    assert float(cell.split()[0]) == pytest.approx(expected, abs=0.006) and " to " in cell
    assert table.loc[trained.small, "difference"] == ""
    (flag,) = [w.value for w in at.warning if "tested on different crystals" in w.value]
    assert "40 and 40" in flag
    (differing,) = [frame.value for frame in at.dataframe if "setting" in frame.value]
    assert differing["setting"].tolist() == ["learned from", "seed"]
    keys = [button.proto.id for button in at.get("download_button")]
    assert any("csv-settings.csv" in key for key in keys)


def test_intervals_draw_coverage_and_spread(visit: Visit, trained: Trained) -> None:
    at = visit("result", run=trained.large, tab="intervals")
    assert "of 40 known gaps fall in their 95 % prediction interval" in texts(at)
    drawn = figures(at)
    curve = drawn["level of the interval"]["data"][2]
    assert len(curve["x"]) == 99 and np.all(np.diff(curve["y"]) >= 0)
    assert "predicted standard deviation (eV)" in drawn


def test_intervals_names_the_kinds_and_the_slider_needs_no_job(
    visit: Visit, trained: Trained
) -> None:
    at = visit("result", run=trained.large, tab="intervals")
    assert at.segmented_control[0].options == ["prediction", "credible"]
    at.segmented_control[0].set_value("credible").run()
    assert "single gaps scatter more" in texts(at)
    at.slider[0].set_value(80).run()
    assert "80 % credible interval" in texts(at)


def widths_eV(at: AppTest) -> np.ndarray:
    """Return the widths of the intervals in the figure of the page Predict."""
    drawn = figures(at)["structures, sorted by prediction"]["data"]
    ends = np.concatenate([np.reshape(trace["customdata"], (-1, 2)) for trace in drawn])
    return ends[:, 1] - ends[:, 0]


def test_intervals_stores_a_calibrator_that_predict_uses(
    visit: Visit, trained: Trained, copied: Home
) -> None:
    before_eV = widths_eV(visit("predict", run=trained.large))
    at = visit("result", run=trained.large, tab="intervals")
    at.radio[0].set_value("variance")
    click(at, "Fit and store the calibrator")
    stored = load_calibrator(copied.run_folder(trained.large))
    assert stored is not None and stored.kind == "variance" and len(stored) == stored.n_test == 20
    assert "it rests on 20 held-out crystals" in texts(
        at
    ) and "On 20 other held-out crystals" in texts(at)
    names = [trace.get("name") for trace in figures(at)["level of the interval"]["data"]]
    assert "as trained" in names and "calibrated" in names
    page = visit("predict", run=trained.large)
    assert "Variance scaling is stored with this model" in texts(page)
    assert widths_eV(page) / before_eV == pytest.approx(stored.factor, rel=1e-6)
    click(at, "Remove the calibrator")
    assert load_calibrator(copied.run_folder(trained.large)) is None


def test_intervals_of_a_damaged_calibrator_says_what_is_safe(
    visit: Visit, trained: Trained, copied: Home
) -> None:
    (copied.run_folder(trained.large) / FILE).write_text("{", encoding="utf-8")
    at = visit("result", run=trained.large, tab="intervals")
    assert "The run itself is not touched; remove this file" in at.error[0].value
    assert "level of the interval" in figures(at)
    click(at, "Remove the calibrator")
    assert not (copied.run_folder(trained.large) / FILE).exists()


@pytest.mark.parametrize("name", ["compare", "result"])
def test_pages_of_a_run_with_damaged_predictions_say_what_is_wrong(
    visit: Visit, trained: Trained, copied: Home, name: str
) -> None:
    (copied.run_folder(trained.small) / "quantiles.safetensors").write_bytes(b"\x00 damaged")
    at = visit(name, run=trained.small, runs=trained.large)
    assert "not readable as stored predictions" in at.error[0].value
    assert "Traceback" not in texts(at)
    if name == "compare":  # the others are still compared
        assert at.data_editor[0].value["difference"].str.contains(" to ").sum() == 1


def curve_of(coverages: Any, n: int) -> Any:
    """Return a coverage curve at all levels."""
    from bandgap.evaluation.calibration import CoverageCurve

    return CoverageCurve(np.arange(1, 100) / 100, np.asarray(coverages), n)


def test_intervals_proposes_a_calibrator_only_where_cross_fitting_shows_that_it_helps(
    visit: Visit, trained: Trained
) -> None:
    from bandgap.evaluation.heldout import load_heldout
    from bandgap.evaluation.proposed_calibrator import proposed_kind

    runs = (trained.large, trained.small, trained.other_seed)
    for run in runs:
        folder = trained.workspace.home.run_folder(run)
        manifest = json.loads((folder / "manifest.json").read_text())
        kind = proposed_kind(load_heldout(folder, manifest))
        at = visit("result", run=run)
        assert (primary(at) == ["Calibrate the intervals"]) == (kind is not None)


def test_calibrator_that_makes_the_check_crystals_worse_says_so() -> None:
    from app.components.result.calibrator_view import worse_sentence
    from bandgap.evaluation.calibrators import fit_calibrator
    from tests.unit.evaluation.test_paired import normal_heldout

    rng = np.random.default_rng(2)
    errors = np.concatenate([rng.normal(0, 0.3, 200), rng.normal(0, 0.6, 200)])
    gaps = rng.normal(3.0, 1.0, 400)
    calibrated = normal_heldout(errors[:200], 0.3, gaps=gaps[:200])
    narrow = normal_heldout(errors[200:], 0.3, gaps=gaps[200:])
    fitted = fit_calibrator(narrow, "variance", seed=0)
    assert worse_sentence(fitted, narrow) == ""
    fitted_elsewhere = dataclasses.replace(
        fitted, ids=tuple(f"x{k}" for k in range(len(fitted))), n_test=len(calibrated)
    )
    text = worse_sentence(fitted_elsewhere, calibrated)
    assert "It made these 200 check crystals worse: miscalibration area 0.0" in text
    assert "wider. Remove it in the tab Intervals." in text


def test_coverage_near_a_limit_of_chance_gets_the_decimal_that_shows_its_side() -> None:
    from app.components.result.intervals_view import coverage_sentence

    shares = np.round(np.arange(1, 100) / 100 * 320) / 320
    shares[92:95] = 293 / 320
    text = coverage_sentence(curve_of(shares, 320), 0.95, "prediction")
    assert "**91.6 %** of 320 known gaps" in text and "by chance 92.5 % to 97.2 %" in text
    assert "The whole curve lies within what chance explains" in text


def test_verdict_on_calibration_is_on_the_whole_curve() -> None:
    from app.components.result.intervals_view import coverage_sentence

    levels = np.arange(1, 100) / 100
    wide = np.clip(levels + 0.75 * levels * (1 - levels) ** 0.5, 0, 1)
    wide[89:] = levels[89:]
    text = coverage_sentence(curve_of(np.round(wide * 91) / 91, 91), 0.95, "prediction")
    assert "farther from the diagonal than chance explains" in text

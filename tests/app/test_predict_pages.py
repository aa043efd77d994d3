"""Predict with more rows than the table shows: search, figure and CSV."""

import csv
import io
import shutil
from collections.abc import Callable

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from app.components.predict import prediction_view
from app.components.predict.prediction_table import page_frame, passing_rows, prediction_rows
from app.components.predict.prediction_view import interval_caption
from bandgap.foundation.csv_tables import csv_text
from bandgap.jobs.home import Home
from bandgap.jobs.worker import work_all
from bandgap.plots.predictions import MAX_INTERVALS, intervals
from bandgap.predictions.store import DETAILS, QUANTILES, load_details, load_predictions
from tests.app.conftest import WATER, Workspace, texts
from tests.app.small_runs import figure

Visit = Callable[..., AppTest]
N = 25
REFUSED = 4
BROKEN = b"3\n\nO 0 0 x\nH 1 0 0\nH 0 1 0\n"


@pytest.fixture(scope="module")
def example(
    tmp_path_factory: pytest.TempPathFactory, tested_waters: tuple[Workspace, str]
) -> tuple[Workspace, str, str]:
    """A workspace, its run, and its prediction of 25 structures, the fifth of which is refused."""
    original, run = tested_waters
    folder = tmp_path_factory.mktemp("home")
    shutil.copytree(original.home.folder, folder, dirs_exist_ok=True)
    workspace = Workspace(original.id, Home(folder))
    files = [
        (
            f"w{k:02d}.xyz",
            BROKEN if k == REFUSED else WATER.replace(b"0.763", f"{0.70 + 0.01 * k:.3f}".encode()),
        )
        for k in range(N)
    ]
    job = workspace.ask_prediction(run, files)
    work_all(workspace.home)
    return workspace, run, job.id


@pytest.fixture
def workspace(example: tuple[Workspace, str, str], monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(example[0].home.folder))
    return example[0]


@pytest.fixture
def predicted(example: tuple[Workspace, str, str]) -> tuple[str, str]:
    return example[1:]


def test_long_table_is_searched_and_cut_and_the_csv_and_figure_have_all(
    visit: Visit, predicted: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, prediction = predicted
    at = visit("predict", run=run, prediction=prediction)
    assert len(at.dataframe[0].value) == N and "the CSV has all" not in texts(at)
    monkeypatch.setattr(prediction_view, "MOST_ROWS", 10)
    at = visit("predict", run=run, prediction=prediction)
    assert "The first 10 of 25; the CSV has all." in texts(at)
    assert len(at.dataframe[0].value) == 10
    at.text_input(key=f"find-{prediction}").set_value("W0").run()
    frame = at.dataframe[0].value
    assert len(frame) == 10 and frame["id"].str.startswith("w0").all()
    assert frame["status"].iloc[-1] == "refused"
    # The figure contains all rows, not only those in the table.
    assert sum(len(trace["text"]) for trace in figure(at, 0)["data"]) == N - 1


def test_csv_of_the_page_has_every_row_as_the_table_of_pandas_would(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    predictions = load_predictions(folder / QUANTILES)
    details = load_details(folder / DETAILS)
    frame = predictions.to_frame(0.8, "credible").assign(
        nearest_known=list(details.nearest),
        nearest_distance=details.distance,
        nearest_percentile=details.percentile,
    )
    content = csv_text(prediction_rows(predictions.to_columns(0.8, "credible"), details))
    assert content == csv_text(frame)
    rows = list(csv.DictReader(io.StringIO(content)))
    assert (rows[0]["level"], rows[0]["interval"]) == ("0.8", "credible")
    assert len(rows) == N and rows[REFUSED]["mean_eV"] == "" and rows[REFUSED]["problem"]


def test_row_without_a_prediction_has_no_interval_text(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    columns = load_predictions(folder / QUANTILES).to_columns()
    table = prediction_rows(columns, load_details(folder / DETAILS))
    frame = page_frame(table.loc[[0, REFUSED]])
    lower, upper = table.loc[0, ["lower_eV", "upper_eV"]]
    assert list(frame["interval"]) == [f"{lower:.2f} to {upper:.2f}", ""]


def test_rows_pass_by_status_and_by_text_in_any_case(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    columns = load_predictions(folder / QUANTILES).to_columns()
    table = prediction_rows(columns, load_details(folder / DETAILS))
    assert passing_rows(table, show="refused").index.tolist() == [REFUSED]
    assert passing_rows(table, "W1").index.tolist() == list(range(10, 20))
    assert len(passing_rows(table, "h2o")) == N - 1
    assert passing_rows(table, "none of these").empty


def test_figure_of_many_predictions_has_some_of_them_at_their_ranks() -> None:
    n = 3 * MAX_INTERVALS
    mean = np.random.default_rng(0).permutation(n) / n
    mean[0] = np.nan
    unusual = np.zeros(n, dtype=bool)
    ids = [str(k) for k in range(n)]
    fig = intervals(mean, mean - 0.1, mean + 0.1, ids=ids, unusual=unusual)
    ranks = np.asarray(fig.data[0].x)
    assert ranks.size == MAX_INTERVALS
    assert (ranks[0], ranks[-1]) == (1, n - 1)
    assert np.asarray(fig.data[0].y) == pytest.approx(np.sort(mean[1:])[ranks - 1])
    assert "5,000 of 15,000 are drawn" in interval_caption(n)
    assert "drawn" not in interval_caption(MAX_INTERVALS)

"""Predict with more rows than fit on a page of the table: pages, order, search, figure and CSV."""

import csv
import io
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from app.components.predict import prediction_table
from app.components.predict.prediction_files import download_csv
from app.components.predict.prediction_table import Filter, Table
from bandgap.foundation.csv_tables import csv_text
from bandgap.jobs.entries import SourceEntry
from bandgap.jobs.worker import work_all
from bandgap.predictions.store import DETAILS, QUANTILES, load_details, load_predictions
from bandgap.runs.requests import PredictRequest
from tests.app.conftest import WATER, Workspace, empty_workspace, texts
from tests.app.test_finished_run import figure, train_source

Visit = Callable[..., AppTest]
N = 25
PHONE = 366  # pixels of a table in a window of 400
REFUSED = 4
BROKEN = b"3\n\nO 0 0 x\nH 1 0 0\nH 0 1 0\n"


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> tuple[Workspace, str, str]:
    """A workspace, its run, and its prediction of 25 structures, the fifth of which is refused."""
    workspace = empty_workspace(tmp_path_factory.mktemp("home"))
    source = SourceEntry("demo molecules", str(train_source(tmp_path_factory.mktemp("source"))))
    workspace.library.register_sources({"demo": source})
    run, _ = workspace.add_run(workspace.add_labelled(), method="fine_tune")
    files = [
        (
            f"w{k:02d}.xyz",
            BROKEN if k == REFUSED else WATER.replace(b"0.763", f"{0.70 + 0.01 * k:.3f}".encode()),
        )
        for k in range(N)
    ]
    dataset = workspace.library.add_dataset(workspace.id, "new", purpose="prediction", files=files)
    payload = {"run": run, "dataset": dataset.id, "name": "new"}
    job = workspace.jobs.submit(
        workspace.id, "predict", title="Predicting", payload=payload, subject=dataset.id
    )
    work_all(workspace.home)
    return workspace, run, job.id


@pytest.fixture
def workspace(example: tuple[Workspace, str, str], monkeypatch: pytest.MonkeyPatch) -> Workspace:
    monkeypatch.setenv("BANDGAP_HOME", str(example[0].home.folder))
    return example[0]


@pytest.fixture
def predicted(example: tuple[Workspace, str, str]) -> tuple[str, str]:
    return example[1:]


def test_long_table_has_pages_in_the_selected_order(
    visit: Visit, predicted: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, prediction = predicted
    first_page = visit("predict", run=run, prediction=prediction)
    every = first_page.dataframe[0].value
    assert len(every) == N and "Order" not in [box.label for box in first_page.selectbox]
    monkeypatch.setattr(prediction_table, "PAGE", 10)
    at = visit("predict", run=run, prediction=prediction)
    assert "25 structures on 3 pages. The CSV has all of them." in texts(at)
    parts = []
    for page in (1, 2, 3):
        at.session_state[f"page-predicted-{prediction}-all--as given"] = page
        parts.append(at.run().dataframe[0].value)
    assert [len(part) for part in parts] == [10, 10, 5]
    assert [id for part in parts for id in part["id"]] == list(every["id"])
    assert parts[2]["status"].iloc[-1] == "refused" and not (parts[0]["status"] == "refused").any()
    at.selectbox(key=f"order-{prediction}").set_value("highest gap first").run()
    assert (
        list(at.dataframe[0].value["mean_eV"])
        == sorted(every["mean_eV"].dropna(), reverse=True)[:10]
    )
    at.text_input(key=f"find-{prediction}").set_value("W0").run()
    frame = at.dataframe[0].value
    assert (
        len(frame) == 10
        and frame["id"].str.startswith("w0").all()
        and frame["status"].iloc[-1] == "refused"
    )
    # The figure contains all rows, not only those in the table.
    assert sum(len(trace["text"]) for trace in figure(at, 0)["data"]) == N - 1


def test_chosen_row_of_a_later_page_is_the_structure_of_its_place(
    visit: Visit, predicted: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, prediction = predicted
    monkeypatch.setattr(prediction_table, "PAGE", 10)
    at = visit("predict", run=run, prediction=prediction)
    key = f"predicted-{prediction}-all--as given"
    at.session_state[f"page-{key}"] = 2
    at.session_state[f"{key}-2"] = {"selection": {"rows": [3], "columns": [], "cells": []}}
    at.run()
    row = at.dataframe[0].value.iloc[3]
    assert row["id"] == "w14" and "**w14**" in texts(at) and f"{row['mean_eV']:.2f} eV" in texts(at)


def test_csv_of_the_page_has_every_row_as_the_table_of_pandas_would(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    predictions = load_predictions(folder / QUANTILES)
    details = load_details(folder / DETAILS)
    frame = predictions.to_frame(0.8, "credible").assign(
        warning=[predictions.warning(k) for k in range(N)],
        nearest_known=list(details.nearest),
        nearest_distance=details.distance,
        nearest_percentile=details.percentile,
    )
    request = PredictRequest(probability=0.8, interval="credible")
    content = download_csv(predictions, details, request=request).decode()
    assert content == csv_text(frame)
    rows = list(csv.DictReader(io.StringIO(content)))
    assert len(rows) == N and rows[REFUSED]["mean_eV"] == "" and rows[REFUSED]["warning"]


@pytest.mark.parametrize("note", ["", "far from the training set"])
@pytest.mark.parametrize("probability", ["", "p_window", "p_metal"])
def test_columns_of_predictions_fit_beside_the_navigation_at_1280_pixels(
    note: str, probability: str
) -> None:
    probabilities = {"p_window", "p_metal"} - {probability}
    columns = [name for name in prediction_table.SHOWN if name not in probabilities]
    row = dict.fromkeys(columns, "") | {"status": "warning" if note else "ok", "note": note}
    settings = prediction_table.column_settings(pd.DataFrame([row]))
    widths = [settings[name]["width"] for name in columns if settings[name] is not None]
    assert len(widths) >= 5
    assert sum(widths) <= 848 - 40 - 92  # the boxes for marks, and the pictures
    assert (settings["note"] is not None) == bool(note)
    seen_first = [settings[name]["width"] for name in ("id", "mean_eV", "interval")]
    assert sum(seen_first) <= PHONE - 40


def test_few_notes_are_below_the_table_and_many_in_a_column() -> None:
    def page() -> None:
        import pandas as pd
        import streamlit as st

        from app.components.predict.prediction_table import column_settings, notes_below

        for n_noted in (0, 1, 8, 9):
            notes = ["far"] * n_noted + [""] * (15 - n_noted)
            names = [f"cell_{number}" for number in range(15)]
            status = ["warning" if note else "ok" for note in notes]
            table = pd.DataFrame({"id": names, "note": notes, "status": status})
            settings = column_settings(table)
            st.text([name for name in ("status", "note") if settings[name] is not None])
            notes_below(table)

    at = AppTest.from_function(page).run()
    assert not at.exception
    assert [text.value for text in at.text] == [
        "[]",
        "['status']",
        "['status', 'note']",
        "['status', 'note']",
    ]
    (expander,) = at.expander
    assert expander.label == "Notes on 1 structure"
    assert expander.markdown[0].value == "**cell\\_0**: far"


def test_more_notes_than_are_listed_are_counted() -> None:
    def page() -> None:
        import pandas as pd

        from app.components.predict.prediction_table import notes_below

        notes = ["far"] * 6 + [""] * 30
        names = [f"cell {number}" for number in range(36)]
        notes_below(pd.DataFrame({"id": names, "note": notes}))

    (notes,) = AppTest.from_function(page).run().markdown
    assert notes.value.count(": far") == 4
    assert "2 more structures with a note: mark a row" in notes.value


def test_row_without_a_prediction_has_no_interval_text(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    table = Table(load_predictions(folder / QUANTILES).to_columns())
    frame = table.frame(np.array([0, REFUSED]))
    row = frame.loc[0]
    assert list(frame["interval"]) == [f"{row['lower_eV']:.2f} to {row['upper_eV']:.2f}", ""]


def test_rows_pass_by_status_and_by_text_in_any_case(
    workspace: Workspace, predicted: tuple[str, str]
) -> None:
    folder = workspace.home.prediction_folder(*predicted)
    table = Table(load_predictions(folder / QUANTILES).to_columns(), load_details(folder / DETAILS))
    assert table.rows(Filter(show="refused")).tolist() == [REFUSED]
    assert table.rows(Filter(text="W1")).tolist() == list(range(10, 20))
    assert table.rows(Filter(text="h2o", order="lowest gap first")).size == N - 1
    assert table.rows(Filter(text="none of these")).size == 0

"""Predictions as bars and a table; intervals of any level come from the stored quantiles."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import streamlit as st

from app.components.predict.next_list import next_view
from app.components.predict.prediction_table import (
    MOST_ROWS,
    choose_rows,
    chosen_row,
    chosen_structure,
    page_frame,
    passing_rows,
    prediction_rows,
)
from app.components.predict.why_view import why_view
from app.components.predict.window_choice import choose_window, window_sentence
from app.components.result.report_button import report_button
from app.components.shared import downloads, frame, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.run_choice import choose_interval
from bandgap import plots
from bandgap.jobs.rows import RunRow
from bandgap.plots.predictions import MAX_INTERVALS
from bandgap.predictions.counting import LEARNED, counts_of, domain_sentence
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.extxyz import with_interval
from bandgap.predictions.table import ZERO_END_NOTE, Predictions
from bandgap.runs.requests import PredictRequest


@dataclass(frozen=True, eq=False)
class StoredPrediction:
    """A prediction and its context.

    Attributes
    ----------
    predictions, details, run
        Predictions, their details, and the run.
    id
        Id of the prediction.
    name, dataset
        Name and id of the predicted data set.
    extxyz
        File of the predicted structures, if there is one.
    learned
        Ids of structures that the run learned from.
    """

    predictions: Predictions
    details: PredictionDetails
    run: RunRow
    id: str
    name: str
    dataset: str
    extxyz: Path | None
    learned: Collection[str] = ()


def prediction_view(prediction: StoredPrediction) -> None:
    """Draw what changes the intervals, then bars, table and chosen structure, and a ranking."""
    with frame.row():
        with st.popover("Interval", icon=":material/tune:"):
            level, kind, available = choose_interval(
                prediction.predictions.conformal, key="interval-kind"
            )
        with st.popover("Target window", icon=":material/filter_alt:"):
            window = choose_window()
    if not available:
        return
    request = PredictRequest(probability=level, interval=kind, window=str(window or ""))
    _predictions(prediction, request)
    with st.expander(
        "What to compute next", on_change="rerun", key=f"next-{prediction.id}"
    ) as expander:
        if expander.open:
            next_view(
                prediction.predictions,
                prediction.details,
                prediction=prediction.id,
                dataset=prediction.dataset,
                name=f"compute-next-{prediction.run.id[:8]}",
                extxyz=prediction.extxyz,
                window=window,
            )


def _predictions(prediction: StoredPrediction, request: PredictRequest) -> None:
    predictions = prediction.predictions
    window = request.target
    columns = predictions.to_columns(request.probability, request.interval, window=window)
    table = prediction_rows(columns, prediction.details)
    counts = counts_of(predictions)
    sentences = [summary(counts, level=predictions.level_of_theory), domain_sentence(counts)]
    if window is not None:
        sentences.append(window_sentence(predictions, window))
    st.markdown(" ".join(filter(None, sentences)))
    _downloads(prediction, table, request)
    left_column, right_column = st.columns([4, 3], gap="medium")
    with left_column:
        _bars(prediction, table, request)
        text, show = choose_rows(table, key=prediction.id)
        rows = passing_rows(table, text, show)
        key = f"predicted-{prediction.id}-{show}-{text}" + ("" if window is None else f"-{window}")
        shown_table = page_frame(rows[:MOST_ROWS], learned=prediction.learned)
        row = chosen_row(shown_table, dataset=prediction.dataset, key=key)
        if len(rows) > MOST_ROWS:
            st.caption(f"The first {MOST_ROWS:,} of {len(rows):,}; the CSV has all.")
    if row is None:
        return
    with right_column:
        values = table.loc[row].to_dict()
        chosen_structure(values, row, dataset=prediction.dataset, learned=prediction.learned)
        if values["status"] != "refused":
            why_view(prediction.run, prediction=prediction.id, n=len(table), row=row)


def _bars(prediction: StoredPrediction, table: pd.DataFrame, request: PredictRequest) -> None:
    window = request.target
    mean, lower, upper = (table[f"{name}_eV"].to_numpy() for name in ("mean", "lower", "upper"))
    caption = interval_caption(int(np.isfinite(mean).sum()))
    if (lower == 0.0).any():
        caption += f" {ZERO_END_NOTE}"
    figure(
        plots.intervals,
        mean,
        lower,
        upper,
        ids=table["id"].tolist(),
        unusual=(table["status"] == "warning").to_numpy(),
        window=None if window is None else (window.lower_eV, window.upper_eV),
        key="intervals",
        alt=f"Predicted gaps of {prediction.name} with their intervals",
        caption=caption,
    )


def _downloads(prediction: StoredPrediction, table: pd.DataFrame, request: PredictRequest) -> None:
    predictions = prediction.predictions
    name = f"predictions-{prediction.run.id[:8]}"
    with frame.row():
        downloads.csv_button("Predictions (CSV)", lambda: table, f"{name}.csv")
        report_button(prediction.run, prediction=prediction.id)
        if prediction.extxyz is not None:
            downloads.file_button(
                "Structures (extXYZ)",
                partial(
                    with_interval,
                    prediction.extxyz,
                    predictions,
                    level=request.probability,
                    kind=request.interval,
                ),
                f"{name}.extxyz",
                help="With mean, standard deviation and interval."
                + help_link("reference/file-formats", "Keys of extended XYZ"),
            )


def summary(counts: Mapping[str, int], *, level: str) -> str:
    """Return how many structures were predicted, at which level, and how many are unusual."""
    parts = [f"**{words.count(counts['ok'] + counts['warning'], 'structure')} predicted**"]
    if counts["warning"]:
        parts.append(f"{counts['warning']:,} of them with a warning")
    if counts["refused"]:
        parts.append(f"{counts['refused']:,} refused")
    learned = f" The model learned from {counts[LEARNED]:,} of them." if counts[LEARNED] else ""
    of_level = f" Level of theory: {words.escaped(level)}." if level else ""
    return f"{'; '.join(parts)}.{of_level}{learned}"


def interval_caption(n: int) -> str:
    """Return the caption of the figure of `n` predictions."""
    drawn = f" {MAX_INTERVALS:,} of {n:,} are drawn." if n > MAX_INTERVALS else ""
    return f"Long bars: the model knows little of these. Diamonds: with a warning.{drawn}"

"""Predictions as a table and a figure; intervals of any level come from the stored quantiles."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import streamlit as st

from app.components.predict import prediction_files, prediction_table
from app.components.predict.next_list import next_view
from app.components.predict.unusual_choice import changes_sentence, choose_interval_changes
from app.components.predict.why_view import why_view
from app.components.predict.window_choice import choose_window, window_sentence
from app.components.shared import downloads, stores, words
from app.components.shared.drawing import figure
from app.components.shared.guide_links import help_link
from app.components.shared.map_view import MapSelection, map_view, points_of
from app.components.shared.run_choice import choose_interval
from bandgap import plots
from bandgap.jobs.rows import RunRow
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.plots.predictions import MAX_INTERVALS
from bandgap.predictions.counting import counts_of, domain_sentence
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.extxyz import with_interval
from bandgap.predictions.table import STATUSES, ZERO_END_NOTE, Predictions
from bandgap.predictions.withholding import IntervalChanges
from bandgap.runs.requests import PredictRequest


@dataclass(frozen=True, eq=False)
class StoredPrediction:
    """A prediction and its context.

    Attributes
    ----------
    predictions, details, manifest, run
        Predictions, their details if stored, and the run with its manifest.
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
    details: PredictionDetails | None
    manifest: dict[str, Any]
    run: RunRow
    id: str
    name: str
    dataset: str
    extxyz: Path | None
    learned: Collection[str] = ()


def prediction_view(prediction: StoredPrediction, *, primary: bool) -> None:
    """Draw the choice of the interval, the table with its figure, and what to compute next.

    `primary` is whether the CSV of the predictions is the primary button of the page.
    """
    interval_place, window_place = st.columns([5, 4], gap="medium")
    with interval_place:
        level, kind, available = choose_interval(
            prediction.predictions.conformal, key="interval-kind"
        )
    if not available:
        return
    with window_place:
        window = choose_window()
    changes = IntervalChanges()
    if prediction.predictions.domain_p is not None:
        changes = choose_interval_changes()
    predictions_tab, next_tab = st.tabs(["Predictions", "What to compute next"])
    with predictions_tab:
        request = PredictRequest(
            probability=level, interval=kind, window=str(window or ""), **asdict(changes)
        )
        changed = replace(prediction, predictions=changes.apply(prediction.predictions))
        if changes and (text := changes_sentence(prediction.run, request)):
            st.caption(text)
        _predictions(changed, request, primary=primary)
    with next_tab:
        next_view(
            prediction.predictions,
            prediction.details,
            run=prediction.run,
            prediction=prediction.id,
            extxyz=prediction.extxyz,
            dataset=prediction.dataset,
            window=window,
        )


def _predictions(prediction: StoredPrediction, request: PredictRequest, *, primary: bool) -> None:
    predictions = prediction.predictions
    window = request.target
    details = prediction.details
    if details is not None and len(details) != len(predictions):
        details = None
    table = prediction_table.Table(
        predictions.to_columns(request.probability, request.interval, window=window),
        details,
        prediction.learned,
    )
    counts = counts_of(predictions)
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(summary(counts), width="content")
        _csv_button(prediction, request, primary=primary)
    if domain := domain_sentence(counts):
        st.caption(domain)
    if window is not None and (sentence := window_sentence(predictions, window)):
        st.markdown(sentence)
    selection = prediction_table.filter_row(table, key=prediction.id)
    mapped = map_selection(prediction, table)
    rows = table.rows(selection)
    if mapped.rows is not None:
        rows = rows[np.isin(rows, mapped.rows)]
    key = f"predicted-{prediction.id}-{selection.show}-{selection.text}"
    if selection.conditions != StructureFilter():
        key += f"-{selection.conditions}"
    if len(rows) > prediction_table.PAGE:
        key += f"-{selection.order}"
    if window is not None:
        key += f"-{window}"
    if changes := request.interval_changes:  # other warnings and another order of the rows
        key += f"-{changes}"
    if mapped.rows is not None:
        key += f"-{hashlib.sha256(mapped.rows.tobytes()).hexdigest()[:8]}"
    page, page_key = prediction_table.shown_page(rows, key=key)
    frame = table.frame(page)
    row = prediction_table.chosen_row(frame, dataset=prediction.dataset, key=page_key)
    prediction_table.notes_below(frame)
    row = mapped.single if row is None else row
    prediction_table.page_row(rows, key=key)
    _downloads(prediction, request, counts)
    if row is not None:
        prediction_table.chosen_structure(table, row, dataset=prediction.dataset)
        if table.columns["status"][row] != "refused":
            why_view(prediction.run, prediction=prediction.id, n=len(table), row=row)
    values = {name: table.numbers(f"{name}_eV") for name in ("mean", "lower", "upper")}
    figure(
        plots.intervals,
        *values.values(),
        ids=list(predictions.ids),
        unusual=table.has_status("warning"),
        window=None if window is None else (window.lower_eV, window.upper_eV),
        key="intervals",
        alt=f"Predicted gaps of {prediction.name} with their intervals",
        caption=interval_caption(int(np.isfinite(values["mean"]).sum())),
    )
    if (values["lower"] == 0.0).any():
        st.caption(ZERO_END_NOTE)


def map_selection(prediction: StoredPrediction, table: prediction_table.Table) -> MapSelection:
    """Draw the switch of the map and the map; return the structures that are selected on it."""
    library = stores.library()
    workspace = prediction.run.workspace
    datasets = [
        *library.datasets(workspace),
        *library.datasets(workspace, purpose="prediction"),
    ]
    if prediction.dataset not in {stored.id for stored in datasets} or not st.toggle(
        "Show them on a map", key=f"show-map-{prediction.id}"
    ):
        return MapSelection()
    means = table.numbers("mean_eV").tolist()
    statuses = list(table.columns["status"])
    sets = {
        row: "learned from"
        if table.columns["id"][row] in prediction.learned
        else _SETS.get(str(status), str(status))
        for row, status in enumerate(statuses)
        if status != "refused"
    }
    predicted = {row: means[row] for row in sets}
    return map_view(
        points_of(prediction.dataset, predicted, sets),
        run=prediction.run,
        dataset=prediction.dataset,
        manifest=prediction.manifest,
        key=f"predict-{prediction.id}",
    )


def _csv_button(prediction: StoredPrediction, request: PredictRequest, *, primary: bool) -> None:
    downloads.file_button(
        "Predictions (CSV)",
        partial(
            prediction_files.download_csv,
            prediction.predictions,
            prediction.details,
            request=request,
        ),
        f"{_file_name(prediction)}.csv",
        kind="primary" if primary else "secondary",
    )


def _file_name(prediction: StoredPrediction) -> str:
    """Return the name of downloaded files, without a suffix."""
    return f"predictions-{prediction.run.id[:8]}"


def _downloads(
    prediction: StoredPrediction, request: PredictRequest, counts: Mapping[str, int]
) -> None:
    predictions = prediction.predictions
    level = request.probability
    kind = request.interval

    def about() -> bytes:
        return prediction_files.companion_json(
            prediction.manifest,
            run=prediction.run,
            prediction=prediction.id,
            name=prediction.name,
            request=request,
            columns=[
                *predictions.to_columns(level, kind, window=request.target),
                "nearest_distance",
                "nearest_percentile",
            ],
            counts={"all": len(predictions), **{name: counts[name] for name in STATUSES}},
        )

    name = _file_name(prediction)
    path = prediction.extxyz
    with st.container(horizontal=True):
        downloads.file_button(
            "Run and settings (JSON)",
            about,
            f"{name}.json",
            help=_ABOUT_HELP + help_link("reference/file-formats", "Written files"),
        )
        if path is not None:
            structures = partial(with_interval, path, predictions, level=level, kind=kind)
            downloads.file_button(
                "Structures (extXYZ)",
                structures,
                f"{name}.extxyz",
                help=_STRUCTURES_HELP + help_link("reference/file-formats", "Keys of extended XYZ"),
            )


def summary(counts: Mapping[str, int]) -> str:
    """Return how many structures were predicted, how many with a warning, and how many refused."""
    parts = [f"**{words.count(counts['ok'] + counts['warning'], 'structure')} predicted**"]
    if counts["warning"]:
        parts.append(f"{counts['warning']:,} of them with a warning")
    if counts["refused"]:
        parts.append(f"{counts['refused']:,} refused")
    return "; ".join(parts) + "."


def interval_caption(n: int) -> str:
    """Return the caption of the figure of `n` predictions."""
    if n <= MAX_INTERVALS:
        return FIGURE_CAPTION
    return f"{FIGURE_CAPTION} {MAX_INTERVALS:,} of {n:,} are drawn, evenly spaced in their order."


_SETS = {"ok": "in domain", "warning": "mind the warning"}
FIGURE_CAPTION = (
    "Long bars are structures of which the model knows little; diamonds carry a warning in the "
    "table."
)
_ABOUT_HELP = "Run, settings, versions and units: keep it with the CSV."
_STRUCTURES_HELP = (
    "Coordinates; mean, standard deviation and the interval of this table in the comments."
)

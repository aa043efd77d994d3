"""Predictions as a table beside their figure; level and kind of interval come from what is stored, by no job."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import streamlit as st

from app.components.predict import prediction_files, prediction_table
from app.components.predict.next_list import next_view
from app.components.shared import downloads, words
from app.components.shared.drawing import figure
from app.components.shared.run_choice import choose_interval
from bandgap import plots
from bandgap.jobs.rows import RunRow
from bandgap.predictions.counting import counts_of, domain_sentence
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.extxyz import with_interval
from bandgap.predictions.interval_kinds import IntervalKind
from bandgap.predictions.table import COLUMNS, NEGATIVE_END_NOTE, Predictions


@dataclass(frozen=True, eq=False)
class Shown:
    """One prediction with what belongs to it; `learned` are ids that the run learned from, `name` that of its data."""

    predictions: Predictions
    details: PredictionDetails | None
    manifest: dict[str, object]
    run: RunRow
    id: str
    name: str
    dataset: str
    extxyz: Path | None
    learned: Collection[str] = ()


def prediction_view(shown: Shown) -> None:
    """Draw level and kind, then the table with its figure, and what to compute next."""
    level, kind, there = choose_interval(shown.predictions.conformal, key="interval-kind")
    if not there:
        return
    predicted, following = st.tabs(["Predictions", "What to compute next"])
    with predicted:
        _predicted(shown, level=level, kind=kind)
    with following:
        next_view(shown.predictions, shown.details, run=shown.run, prediction=shown.id)


def _predicted(shown: Shown, *, level: float, kind: IntervalKind) -> None:
    predictions, details = shown.predictions, shown.details
    fitting = details if details is not None and len(details) == len(predictions) else None
    table = prediction_table.Table(predictions.to_columns(level, kind), fitting, shown.learned)
    counts = counts_of(predictions)
    st.markdown(summary(counts))
    if domain := domain_sentence(counts):
        st.caption(domain)
    wanted = prediction_table.filter_row(table, key=shown.id)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        rows = table.rows(wanted)
        key = f"predicted-{shown.id}-{wanted.show}-{wanted.text}"
        if len(rows) > prediction_table.PAGE:
            key += f"-{wanted.order}"
        page, of_page = prediction_table.shown_page(rows, key=key)
        row = prediction_table.chosen_row(table.frame(page), key=of_page)
        prediction_table.page_row(rows, key=key)
        _downloads(shown, level=level, kind=kind)
    with right:
        if row is not None:
            prediction_table.chosen_structure(table, row, dataset=shown.dataset)
        values = {name: table.numbers(f"{name}_eV") for name in ("mean", "lower", "upper")}
        figure(
            plots.intervals,
            *values.values(),
            ids=list(predictions.ids),
            unusual=table.has_status("warning"),
            key="intervals",
            alt=f"Predicted gaps of {shown.name} with their intervals",
            caption=FIGURE_CAPTION,
        )
    if np.nanmin(values["lower"], initial=0.0) < 0:
        st.caption(NEGATIVE_END_NOTE)


def _downloads(shown: Shown, *, level: float, kind: IntervalKind) -> None:
    def about() -> bytes:
        return prediction_files.companion_json(
            shown.manifest,
            run=shown.run,
            prediction=shown.id,
            name=shown.name,
            level=level,
            kind=kind,
            columns=[*COLUMNS, "nearest_distance", "nearest_percentile"],
            counts=prediction_files.row_counts(shown.predictions.status),
        )

    def as_csv() -> bytes:
        return prediction_files.download_csv(
            shown.predictions, shown.details, level=level, kind=kind
        )

    name, path = f"predictions-{shown.run.id[:8]}", shown.extxyz
    with st.container(horizontal=True):
        downloads.file_button("Download the predictions (CSV)", as_csv, f"{name}.csv")
        downloads.file_button("About them (JSON)", about, f"{name}.json", help=_ABOUT_HELP)
        if path is not None:
            structures = partial(with_interval, path, shown.predictions, level=level, kind=kind)
            downloads.file_button(
                "Structures (extXYZ)", structures, f"{name}.extxyz", help=_STRUCTURES_HELP
            )


def summary(counts: Mapping[str, int]) -> str:
    """Say how many structures were predicted, how many are unusual and how many refused."""
    parts = [f"**{words.count(counts['ok'] + counts['warning'], 'structure')} predicted**"]
    if counts["warning"]:
        parts.append(f"{counts['warning']:,} of them with a warning")
    if counts["refused"]:
        parts.append(f"{counts['refused']:,} refused")
    return "; ".join(parts) + "."


FIGURE_CAPTION = (
    "Long bars are structures of which the model knows little; diamonds carry a warning in the "
    "table."
)
_ABOUT_HELP = "Run, settings, versions and units: keep it beside the CSV."
_STRUCTURES_HELP = (
    "Coordinates; mean, standard deviation and the interval of this table in the comments."
)

"""The table of predictions: filter, rows, and the numbers of the selected row."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.shared import frame, stores, tables, words
from app.components.shared.structure_view import draw_structure
from app.components.structures.pictures import picture_addresses
from bandgap.evaluation.metal_tables import THRESHOLD
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.home import shapes_path
from bandgap.predictions.counting import LEARNED_FROM
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import P_METAL

Show = Literal["all", "without a warning", "with a warning", "refused"]
Floats = NDArray[np.float64]

# Columns in their order; the hidden ones are in the CSV and in the table's menu of columns.
SHOWN = ("id", "mean_eV", "p_window", "interval", "status")
HIDDEN = ("p_metal", "note", "formula", "nearest_known", "nearest_percentile", "sd_eV", "file")
MOST_ROWS = 5_000  # of the table; the CSV has all
FEW = 20  # rows, up to which there is no search
_STATUS: dict[Show, str] = {
    "without a warning": "ok",
    "with a warning": "warning",
    "refused": "refused",
}


def prediction_rows(
    columns: Mapping[str, Sequence[str] | Floats], details: PredictionDetails
) -> pd.DataFrame:
    """Return the table of the CSV; its index has the positions of the structures.

    Those that are most probable in the target window, if there is one, are first.

    Parameters
    ----------
    columns
        Columns of `Predictions.to_columns`.
    details
        Their details, which have the nearest known structures.
    """
    table = pd.DataFrame(dict(columns))
    if len(details) == len(table):
        table["nearest_known"] = details.nearest
        table["nearest_distance"] = details.distance
        table["nearest_percentile"] = details.percentile
    if "p_window" in table:
        table = table.sort_values("p_window", ascending=False, kind="stable")
    return table


def passing_rows(table: pd.DataFrame, text: str = "", show: Show = "all") -> pd.DataFrame:
    """Return the rows with a status and a name with a text, refused ones last."""
    rows = table if show == "all" else table[table["status"] == _STATUS[show]]
    if part := text.strip():
        names = rows.filter(["id", "formula", "file", "nearest_known"])
        has_part = names.apply(lambda name: name.str.contains(part, case=False, regex=False))
        rows = rows[has_part.any(axis="columns")]
    return rows.sort_values("status", key=lambda status: status == "refused", kind="stable")


def page_frame(rows: pd.DataFrame, *, learned: Collection[str] = ()) -> pd.DataFrame:
    """Return the columns of the page for rows; `learned` are ids that the run learned from."""
    names = ["id", "domain", "problem", "lower_eV", "upper_eV", P_METAL]
    records = rows.filter(names).to_dict("records")
    frame = rows.assign(
        interval=[
            words.interval(record["lower_eV"], record["upper_eV"], record.get(P_METAL, 0.0))
            for record in records
        ],
        note=[_note(record, learned) for record in records],
    ).astype({"interval": "str", "note": "str"})
    if P_METAL in frame:
        frame["mean_eV"] = frame["mean_eV"].mask(frame[P_METAL] >= THRESHOLD)
    for name in {P_METAL, "p_window", "nearest_percentile"}.intersection(frame):
        frame[name] *= 100.0
    return frame[[name for name in (*SHOWN, *HIDDEN) if name in frame]]


def about_row(values: Mapping[Any, Any], *, learned: Collection[str] = ()) -> dict[str, str]:
    """Return the numbers of one row as texts by name, without empty ones."""
    lines = {"formula": values["formula"]}
    note = _note(values, learned)
    if values["status"] != "refused":
        lines["band gap"] = f"{values['mean_eV']:.2f} eV"
        if values.get(P_METAL, 0.0) >= THRESHOLD:
            lines["band gap"] = words.interval(0.0, 0.0, values[P_METAL])
        lines[f"{words.percent(values['level'])} {values['interval']} interval"] = (
            f"{values['lower_eV']:.2f} to {values['upper_eV']:.2f} eV"
        )
        if P_METAL in values:
            lines[Quantity.P_METAL.label] = words.percent(values[P_METAL])
        if "p_window" in values:
            window = values["window"].replace(":", " to ")
            lines[f"chance of {window} eV"] = words.percent(values["p_window"])
        if values.get("nearest_known") and LEARNED_FROM not in note:
            lines["nearest known"] = (
                f"{values['nearest_known']} (farther away than the nearest neighbour of "
                f"{words.percent(values['nearest_percentile'])} of the training structures)"
            )
    lines["notes"] = note
    return {name: text for name, text in lines.items() if text}


def _note(values: Mapping[Any, Any], learned: Collection[str]) -> str:
    domain = values["domain"] if values["domain"] != "ok" else ""
    problems = "; ".join(filter(None, (values["problem"], domain)))
    is_named = values["id"] not in learned or LEARNED_FROM in problems
    return " ".join(filter(None, (problems, "" if is_named else _LEARNED)))


def choose_rows(table: pd.DataFrame, *, key: str) -> tuple[str, Show]:
    """Draw the search of a long table, and the choice of a status where there are several."""
    present = set(table["status"])
    offered: list[Show] = ["all", *(show for show, name in _STATUS.items() if name in present)]
    text, show = "", offered[0]
    with frame.row("bottom"):
        if len(table) > FEW:
            text = st.text_input(
                "Find", key=f"find-{key}", width=220, placeholder="name, formula or file"
            )
        if len(offered) > 1:
            show = st.segmented_control("Show", offered, default="all", key=f"show-{key}") or "all"
    return text, show


def chosen_row(frame: pd.DataFrame, *, dataset: str, key: str) -> int | None:
    """Draw the table with pictures and return the position of the selected row in the input.

    The index of the frame contains the rows of the data set. Without a mark the first row is
    selected.
    """
    usable = frame["status"] != "refused"
    rows = [int(row) if usable[row] else None for row in frame.index]
    frame = tables.with_pictures(frame, picture_addresses(dataset, rows), after="interval")
    position = tables.pick(
        frame, alt="Predicted structures", columns=column_settings(frame), key=key, rows=7
    )
    return int(frame.index[position or 0]) if len(frame) else None


def chosen_structure(
    values: Mapping[Any, Any], row: int, *, dataset: str, learned: Collection[str]
) -> None:
    """Draw the structure of a row of a data set and its numbers."""
    st.markdown(f"**{words.escaped(values['id'])}**")
    path = shapes_path(stores.home(), dataset)
    draw_structure(path, row, formula=values["formula"], key="chosen")
    st.markdown(
        "  \n".join(
            f"{words.sentence(name)}: {words.escaped(text)}"
            for name, text in about_row(values, learned=learned).items()
        )
    )


def column_settings(table: pd.DataFrame) -> dict[str, Any]:
    """Return headers with units, help texts and widths of the columns; None hides one.

    Name, gap and interval fit 400 pixels.
    """
    hidden = {*HIDDEN, *(["status"] if (table["status"] == "ok").all() else [])}
    return {name: None if name in hidden else _COLUMNS[name] for name in (*SHOWN, *HIDDEN)}


_COLUMNS = {
    "id": tables.column(Quantity.ID.axis, 118, help=Quantity.ID.help),
    "mean_eV": tables.column("gap (eV)", 62, "%.2f", Quantity.MEAN.help),
    "interval": tables.column("interval (eV)", 92, alignment="right"),
    "p_window": tables.column("in window (%)", 98, "%.0f", Quantity.P_WINDOW.help),
    "status": tables.column("status", 64),
}
_LEARNED = "The run learned from this structure: its prediction is no test."

"""The table of predictions: filter, rows, and the numbers of the selected row."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, cast

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
Positions = NDArray[np.int64]

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


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a prediction at a level.

    Attributes
    ----------
    columns
        Columns of the CSV (`Predictions.to_columns`), each with n rows.
    details
        Details of the n rows, or None.
    learned
        Ids of structures that the run learned from.
    """

    columns: Mapping[str, Sequence[str] | Floats]
    details: PredictionDetails | None = None
    learned: Collection[str] = ()

    def __len__(self) -> int:
        return len(self.columns["id"])

    def numbers(self, name: str) -> Floats:
        """Return a column of numbers (n,)."""
        return cast(Floats, self.columns[name])

    def has_status(self, status: str) -> NDArray[np.bool_]:
        """Return which rows have a status (n,)."""
        return np.array([value == status for value in self.columns["status"]], dtype=bool)

    def rows(self, text: str = "", show: Show = "all") -> Positions:
        """Return the positions of the rows with a status and a name with a text.

        Those most probable in the target window are first, refused ones last.
        """
        refused = self.has_status("refused")
        passes = np.ones(len(self), dtype=bool)
        if show != "all":
            passes = self.has_status(_STATUS[show])
        if part := text.strip().casefold():
            names = [self.columns[name] for name in ("id", "formula", "file")]
            names += [] if self.details is None else [self.details.nearest]
            rows = zip(*names, strict=True)
            passes &= np.array(
                [any(part in str(name).casefold() for name in row) for row in rows], dtype=bool
            )
        positions = np.flatnonzero(passes)
        if "p_window" in self.columns:
            chances = self.numbers("p_window")
            positions = positions[np.argsort(-chances[positions], kind="stable")]
        return positions[np.argsort(refused[positions], kind="stable")]

    def frame(self, rows: Positions) -> pd.DataFrame:
        """Return the columns of the page for rows; the index contains their positions."""
        columns: dict[str, Any] = {
            name: values[rows] if isinstance(values, np.ndarray) else _texts(values, rows)
            for name, values in self.columns.items()
        }
        for name in ("p_metal", "p_window"):
            if name in columns:
                columns[name] = 100.0 * columns[name]
        columns["interval"] = self._intervals(rows)
        columns["mean_eV"] = np.where(self._p_metal[rows] >= THRESHOLD, np.nan, columns["mean_eV"])
        columns["note"] = [self._note(row) for row in rows]
        if self.details is not None:
            columns["nearest_known"] = _texts(self.details.nearest, rows)
            columns["nearest_percentile"] = 100.0 * self.details.percentile[rows]
        names = (*SHOWN, *HIDDEN)
        return pd.DataFrame({name: columns[name] for name in names if name in columns}, index=rows)

    def about(self, row: int) -> dict[str, str]:
        """Return the numbers of one row as texts by name, without empty ones."""
        values = {name: column[row] for name, column in self.columns.items()}
        lines = {"formula": str(values["formula"])}
        details = self.details
        if values["status"] != "refused":
            level = words.percent(float(values["level"]))
            lines["band gap"] = f"{values['mean_eV']:.2f} eV"
            if self._p_metal[row] >= THRESHOLD:
                lines["band gap"] = words.interval(0.0, 0.0, self._p_metal[row])
            lines[f"{level} {values['interval']} interval"] = (
                f"{values['lower_eV']:.2f} to {values['upper_eV']:.2f} eV"
            )
            if "p_metal" in values:
                lines[Quantity.P_METAL.label] = words.percent(float(values["p_metal"]))
            if "p_window" in values:
                lower, _, upper = str(values["window"]).partition(":")
                chance = words.percent(float(values["p_window"]))
                lines[f"chance of {lower} to {upper} eV"] = chance
            is_known = LEARNED_FROM in self._note(row)
            if details is not None and details.nearest[row] and not is_known:
                lines["nearest known"] = (
                    f"{details.nearest[row]} (farther away than the nearest neighbour of "
                    f"{words.percent(details.percentile[row])} of the training structures)"
                )
        lines["notes"] = self._note(row)
        return {name: text for name, text in lines.items() if text}

    def _intervals(self, rows: Positions) -> "pd.Series[str]":
        """Return the intervals in eV as texts, "" where there is none; or that a row is a metal."""
        names = ("lower_eV", "upper_eV")
        ends = zip(*(self.numbers(name)[rows] for name in names), self._p_metal[rows], strict=True)
        return pd.Series([words.interval(*values) for values in ends], index=rows, dtype="str")

    @cached_property
    def _p_metal(self) -> Floats:
        """Probability of a metal (n,), zero where the run has none."""
        return self.numbers(P_METAL) if P_METAL in self.columns else np.zeros(len(self))

    def _note(self, row: int) -> str:
        problem, domain = (str(self.columns[name][row]) for name in ("problem", "domain"))
        problems = "; ".join(filter(None, (problem, domain if domain != "ok" else "")))
        is_named = self.columns["id"][row] not in self.learned or LEARNED_FROM in problems
        return " ".join(filter(None, (problems, "" if is_named else _LEARNED)))


def _texts(values: Sequence[str], rows: Positions) -> "pd.Series[str]":
    return pd.Series([values[row] for row in rows], index=rows, dtype="str")


def choose_rows(table: Table, *, key: str) -> tuple[str, Show]:
    """Draw the search of a long table, and the choice of a status where there are several."""
    offered: list[Show] = ["all", *(s for s, n in _STATUS.items() if table.has_status(n).any())]
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


def chosen_structure(table: Table, row: int, *, dataset: str) -> None:
    """Draw the structure of a row of a data set and its numbers."""
    st.markdown(f"**{words.escaped(str(table.columns['id'][row]))}**")
    formula = str(table.columns["formula"][row])
    draw_structure(shapes_path(stores.home(), dataset), row, formula=formula, key="chosen")
    st.markdown(
        "  \n".join(
            f"{words.sentence(name)}: {words.escaped(text)}"
            for name, text in table.about(row).items()
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

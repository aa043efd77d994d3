"""The table of predictions: filter, order, pages, and the numbers of the selected row."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.shared import stores, tables, words
from app.components.shared.range_filters import choose_ranges
from app.components.shared.structure_view import draw_structure
from app.components.structures.pictures import picture_addresses
from bandgap.evaluation.metal_tables import THRESHOLD
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.home import shapes_path
from bandgap.jobs.structure_filter import StructureFilter
from bandgap.predictions.counting import LEARNED_FROM
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import P_METAL
from bandgap.structures.elements import ELEMENTS

Show = Literal["all", "with a warning", "refused"]
Order = Literal[
    "as given",
    "lowest gap first",
    "highest gap first",
    "least sure first",
    "most unusual first",
    "most probable in the window first",
]
Floats = NDArray[np.float64]
Positions = NDArray[np.int64]

SHOWN = [
    "id",
    "mean_eV",
    "interval",
    "lower_eV",
    "upper_eV",
    "p_metal",
    "p_window",
    "status",
    "note",
    "nearest_known",
    "nearest_percentile",
    "formula",
    "sd_eV",
    "file",
]
PAGE = 1_000  # rows of the table on one page
FEWEST_NOTED = 1 / 2  # share of rows with a note from which on it has a column
LISTED_NOTES = 4  # below a table without that column
_SYMBOL = re.compile(r"[A-Z][a-z]?")
_KNOWN_SYMBOLS = frozenset(ELEMENTS)
_STATUS: dict[Show, str] = {"with a warning": "warning", "refused": "refused"}
_SORTED: dict[Order, tuple[str, int]] = {
    "lowest gap first": ("mean_eV", 1),
    "highest gap first": ("mean_eV", -1),
    "least sure first": ("sd_eV", -1),
    "most unusual first": ("domain_p", 1),
    "most probable in the window first": ("p_window", -1),
}


@dataclass(frozen=True)
class Filter:
    """The displayed rows and their order.

    Rows have the status, a name with the text, the elements, and a predicted gap and a size in the
    ranges of `conditions`.
    """

    text: str = ""
    show: Show = "all"
    order: Order = "as given"
    conditions: StructureFilter = StructureFilter()


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

    def rows(self, selection: Filter) -> Positions:
        """Return the positions of the rows that pass the filter, refused ones last."""
        refused = self.has_status("refused")
        passes = (
            np.ones(len(self), dtype=bool)
            if selection.show == "all"
            else self.has_status(_STATUS[selection.show])
        )
        if text := selection.text.strip().casefold():
            names = [self.columns[name] for name in ("id", "formula", "file")]
            names += [] if self.details is None else [self.details.nearest]
            rows = zip(*names, strict=True)
            passes &= np.array(
                [any(text in str(name).casefold() for name in row) for row in rows], dtype=bool
            )
        passes &= self._meets(selection.conditions)
        positions = np.flatnonzero(passes)
        if selection.order in _SORTED:
            name, sign = _SORTED[selection.order]
            positions = positions[np.argsort(sign * self.numbers(name)[positions], kind="stable")]
        return positions[np.argsort(refused[positions], kind="stable")]

    def _meets(self, conditions: StructureFilter) -> NDArray[np.bool_]:
        """Return which rows have the elements, and a gap and a size in the ranges (n,)."""
        passes = np.ones(len(self), dtype=bool)
        if conditions.elements:
            wanted_elements = set(conditions.elements)
            has_elements = {
                formula: wanted_elements <= elements_of_formula(formula)
                for formula in set(self.columns["formula"])
            }
            passes &= np.array([has_elements[f] for f in self.columns["formula"]], dtype=bool)
        ranges: list[tuple[NDArray[Any], tuple[float | None, float | None]]] = [
            (self.numbers("mean_eV"), conditions.gap_eV)
        ]
        if self.details is not None:
            ranges.append((self.details.n_atoms, conditions.n_atoms))
        for values, (lower, upper) in ranges:
            if lower is not None:
                passes &= values >= lower
            if upper is not None:
                passes &= values <= upper
        return passes

    def elements(self) -> list[str]:
        """Return the elements of all rows, in the order of atomic numbers."""
        present: set[str] = set()
        for formula in set(self.columns["formula"]):
            present |= elements_of_formula(formula)
        return sorted(present, key=ELEMENTS.index)

    def frame(self, rows: Positions) -> pd.DataFrame:
        """Return the displayed columns of rows; the index contains their positions."""
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
        return pd.DataFrame({name: columns[name] for name in SHOWN if name in columns}, index=rows)

    def about(self, row: int) -> dict[str, str]:
        """Return the numbers of one row as texts by name, without empty ones."""
        values = {name: column[row] for name, column in self.columns.items()}
        lines = {"formula": str(values["formula"]), "file": str(values["file"])}
        details = self.details
        if details is not None:
            lines["atoms"] = f"{details.n_atoms[row]:,}" if details.n_atoms[row] else ""
        if values["status"] != "refused":
            level = words.percent(float(values["level"]))
            interval = f"{values['lower_eV']:.2f} to {values['upper_eV']:.2f} eV"
            lines["band gap"] = f"{values['mean_eV']:.2f} eV"
            if self._p_metal[row] >= THRESHOLD:
                lines["band gap"] = words.interval(0.0, 0.0, self._p_metal[row])
            is_withheld = np.isnan(float(values["sd_eV"]))
            if is_withheld:
                interval = "withheld"
            lines[f"{level} {values['interval']} interval"] = interval
            if "p_metal" in values:
                lines[Quantity.P_METAL.label] = words.percent(float(values["p_metal"]))
            if "p_window" in values and not is_withheld:
                lower, _, upper = str(values["window"]).partition(":")
                chance = words.percent(float(values["p_window"]))
                lines[f"chance of {lower} to {upper} eV"] = chance
            if not is_withheld:
                lines["standard deviation"] = f"{values['sd_eV']:.2f} eV"
            if details is not None and details.nearest[row]:
                lines["nearest known"] = (
                    f"{details.nearest[row]} (cosine distance {details.distance[row]:.2g}; farther "
                    f"than {words.percent(details.percentile[row])} of the training set)"
                )
        lines["status"] = str(values["status"])
        lines["notes"] = self._problems(row)
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

    def _problems(self, row: int) -> str:
        problem, domain = (str(self.columns[name][row]) for name in ("problem", "domain"))
        return " ".join(filter(None, (problem, domain if domain != "ok" else "")))

    def _note(self, row: int) -> str:
        problems = self._problems(row)
        is_named = self.columns["id"][row] not in self.learned or LEARNED_FROM in problems
        return " ".join(filter(None, (problems, "" if is_named else _LEARNED)))


def _texts(values: Sequence[str], rows: Positions) -> "pd.Series[str]":
    return pd.Series([values[row] for row in rows], index=rows, dtype="str")


@cache
def elements_of_formula(formula: str) -> frozenset[str]:
    """Return the elements of a formula."""
    return frozenset(_SYMBOL.findall(formula)) & _KNOWN_SYMBOLS


def filter_row(table: Table, *, key: str) -> Filter:
    """Draw the filter of a table and, if it has several pages, the choice of the order.

    A table with fewer than 8 rows and no problems has no filter.
    """
    offered: list[Show] = [
        "all",
        *(show for show, status in _STATUS.items() if table.has_status(status).any()),
    ]
    orders: list[Order] = [
        order for order in get_args(Order) if _SORTED.get(order, ("id",))[0] in table.columns
    ]
    first = orders[-1] if "p_window" in table.columns else orders[0]
    if len(table) < 8 and len(offered) == 1:
        return Filter(order=first)
    conditions = StructureFilter()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Find", key=f"find-{key}", width=220, placeholder="name, formula or file"
        )
        show = st.segmented_control("Show", offered, default="all", key=f"show-{key}") or "all"
        order = first
        if len(table) > PAGE:
            order = st.selectbox(
                "Order",
                orders,
                index=orders.index(first),
                key=f"order-{key}" if first == "as given" else f"order-{key}-window",
                width=190,
            )
        present = table.elements()
        if len(present) > 1:
            elements = st.multiselect(
                "Contains", present, key=f"contains-{key}", width=180, placeholder="all elements"
            )
            conditions = StructureFilter(elements=tuple(elements))
        conditions = choose_ranges(
            conditions, key=f"predicted-{key}", has_gaps=True, has_sizes=table.details is not None
        )
    return Filter(text, show, order, conditions)


def shown_page(rows: Positions, *, key: str) -> tuple[Positions, str]:
    """Return the rows of the selected page, and the key of the table that shows them.

    `page_row` draws the choice of the page.
    """
    pages = max(1, -(-len(rows) // PAGE))
    page = min(int(st.session_state.get(f"page-{key}", 1)), pages)
    return rows[(page - 1) * PAGE : page * PAGE], f"{key}-{page}" if pages > 1 else key


def page_row(rows: Positions, *, key: str) -> None:
    """Draw the choice of the page if there are several."""
    if len(rows) > PAGE:
        pages = -(-len(rows) // PAGE)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.pagination(pages, key=f"page-{key}", width=320)
            st.caption(
                f"{words.count(len(rows), 'structure')} on {pages:,} pages. The CSV has all of "
                "them."
            )


def chosen_row(frame: pd.DataFrame, *, dataset: str, key: str) -> int | None:
    """Draw the table with pictures and return the position of the selected row in the input.

    The index of the frame contains the rows of the data set.
    """
    usable = frame["status"] != "refused"
    rows = [int(row) if usable[row] else None for row in frame.index]
    frame = tables.with_pictures(frame, picture_addresses(dataset, rows), after="interval")
    position = tables.pick(
        frame, alt="Predicted structures", columns=column_settings(frame), key=key, rows=8
    )
    return None if position is None else int(frame.index[position])


def notes_below(frame: pd.DataFrame) -> None:
    """Draw the notes of the few structures that have one, if the table has no column of notes."""
    noted_rows = frame[frame["note"] != ""]
    if noted_rows.empty or has_note_column(frame):
        return
    lines = [
        f"**{words.escaped(name)}**: {words.escaped_sentence(note)}"
        for name, note in zip(noted_rows["id"][:LISTED_NOTES], noted_rows["note"], strict=False)
    ]
    if (n_more := len(noted_rows) - LISTED_NOTES) > 0:
        lines.append(
            f"{words.count(n_more, 'more structure')} with a note: mark a row, or choose what to "
            "show above the table."
        )
    with st.expander(f"Notes on {words.count(len(noted_rows), 'structure')}"):
        st.markdown("  \n".join(lines))


def chosen_structure(table: Table, row: int, *, dataset: str) -> None:
    """Draw the numbers and the structure of the selected row of a data set."""
    with st.container(border=True, key="chosen-structure"):
        st.markdown(f"**{words.escaped(str(table.columns['id'][row]))}**")
        lines = table.about(row)
        st.markdown(
            "  \n".join(
                f"{words.sentence(name)}: {words.escaped(text)}" for name, text in lines.items()
            )
        )
        formula = str(table.columns["formula"][row])
        draw_structure(shapes_path(stores.home(), dataset), row, formula=formula, key="chosen")


def column_settings(table: pd.DataFrame) -> dict[str, Any]:
    """Return headers with units, help texts and widths of the columns, which fit 1280 pixels.

    Name, gap and interval fit 400 pixels. The details of a marked row and the CSV have the hidden
    columns too.
    """
    settings = tables.columns(SHOWN) | _COLUMNS
    hidden = hidden_columns(table)
    return {name: None if name in hidden else settings.get(name) for name in SHOWN}


def hidden_columns(table: pd.DataFrame) -> set[str]:
    """Return the columns of a table of `Table.frame` for which a page has no place."""
    hidden = {"lower_eV", "upper_eV", "nearest_percentile", "file"}
    hidden |= {"nearest_known", "sd_eV"} if has_note_column(table) else {"note"}
    if (table["status"] == "ok").all() and not has_note_column(table):
        hidden.add("status")
    if {"p_metal", "p_window"} & set(table.columns):
        hidden |= {"formula", "sd_eV"}
    return hidden


def has_note_column(table: pd.DataFrame) -> bool:
    """Return whether so many rows have a note that it gets a column; `notes_below` has few ones."""
    return bool((table["note"] != "").mean() >= FEWEST_NOTED) if len(table) else False


_NEAREST_HELP = (
    "The structure that the run learned from whose descriptor points most nearly the same way."
)
_INTERVAL_HELP = "Of the probability and the kind that are chosen above. The CSV has both ends."
_FAR_HELP = "Share of the training set that is less unlike the rest of it than this structure."
_COLUMNS = {
    "mean_eV": tables.column("gap (eV)", 62, "%.2f", Quantity.MEAN.help),
    "interval": tables.column("interval (eV)", 92, help=_INTERVAL_HELP, alignment="right"),
    "sd_eV": tables.column("sd (eV)", 58, "%.2f", Quantity.SD.help),
    "p_metal": tables.column("metal (%)", 74, "%.0f", Quantity.P_METAL.help),
    "p_window": tables.column("in window (%)", 98, "%.0f", Quantity.P_WINDOW.help),
    "status": tables.column("status", 64),
    "id": tables.column(Quantity.ID.axis, 168, help=Quantity.ID.help),
    "note": tables.column("notes", 196),
    "formula": tables.column("formula", 108),
    "nearest_known": tables.column("nearest known", 110, help=_NEAREST_HELP),
    "nearest_percentile": tables.column("farther than (%)", format="%.0f", help=_FAR_HELP),
}
_LEARNED = "The run learned from this structure: its prediction is no test."

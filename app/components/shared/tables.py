"""Tables of the dashboard: data frames of rows of the store, and the settings of their columns."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import words
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow, Verdict
from bandgap.jobs.store import Job
from bandgap.sources.cards import card_rows

STATUS_WORDS = {"ready": "ready", "warning": "usable", "refused": "refused", "ok": "ok"}
PICTURE = "picture"  # the column of addresses of `app.components.structures.pictures`
ROW_HEIGHT = 34  # pixels of a row in a table that scrolls
ROW_PIXELS = 33  # of a row as Streamlit draws it, and of the header
FRAME_PIXELS = 3
# Pixels of a row with a picture. Above 4 rem, which are 60 pixels, Streamlit wraps long texts.
PICTURE_HEIGHT = 61
_SORT = {"refused": 0, "warning": 1, "ready": 2}


def verdict_frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per structure with its verdict: refused first, then warnings, then ready."""
    ordered = sorted(verdicts, key=lambda v: _SORT[v.status])
    return pd.DataFrame(
        {
            "id": [v.id for v in ordered],
            "file": [v.file for v in ordered],
            "status": [STATUS_WORDS[v.status] for v in ordered],
            "gap_eV": np.array(
                [np.nan if v.gap_eV is None else v.gap_eV for v in ordered], dtype=np.float64
            ),
            "problem": [v.problem for v in ordered],
            "formula": [v.formula for v in ordered],
            "n_atoms": pd.array([v.n_atoms or None for v in ordered], dtype="Int64"),
            "periodic": [
                ("crystal" if v.periodic else "molecule") if v.n_atoms else "" for v in ordered
            ],
        }
    )


def run_frame(
    runs: Sequence[RunRow], jobs: Mapping[str, Job], datasets: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row per run: title, number of labels, state, data set, seed and start."""
    return pd.DataFrame(
        {
            "run": [without_n(run.title, run) for run in runs],
            "n": pd.array([run.request.n for run in runs], dtype="Int64"),
            "state": [
                words.STATES[jobs[run.job].state] if run.job in jobs else "unknown" for run in runs
            ],
            "data set": [datasets.get(run.dataset, "(deleted)") for run in runs],
            "seed": [run.request.seed for run in runs],
            "started": [
                datetime.fromtimestamp(run.created).astimezone().strftime("%d %b %H:%M")
                for run in runs
            ],
        }
    )


def without_n(label: str, run: RunRow) -> str:
    """Return the name of a run without its number of labels, which has a column."""
    return label.replace(f", n = {run.request.n}", "", 1)


_FLOAT_FORMAT = "%.6g"  # of columns without settings: six digits, without separators
_RUN_WIDTHS = {"run": 280, "n": 50, "state": 80, "data set": 120, "seed": 50, "started": 100}
_LETTER = 6.4  # pixels of a letter in a table, on average
_LONGEST_NAME = 420  # pixels
# Pixels of a column of names beside the numbers that a window of 400 pixels must show, too. Longer
# names are wrapped.
NARROW_NAME = 150


def run_columns(table: pd.DataFrame) -> dict[str, Any]:
    """Return the columns of `run_frame`; that of the names is as wide as the longest one."""
    widths = _RUN_WIDTHS | {"run": name_width(table["run"], least=_RUN_WIDTHS["run"])}
    return {name: column(name, width) for name, width in widths.items()}


def name_width(names: Iterable[str], *, least: int) -> int:
    """Return the width in pixels of a column that shows the longest of the names."""
    longest = 20 + int(_LETTER * max(map(len, names), default=0))
    return min(max(least, longest), _LONGEST_NAME)


def has_long_names(names: Iterable[str]) -> bool:
    """Return whether a name does not fit one line of a column of `NARROW_NAME` pixels."""
    return name_width(names, least=NARROW_NAME) > NARROW_NAME


def card(card: Mapping[str, Any], overlap: Mapping[str, int | None] | None = None) -> None:
    """Draw the card of a source model and its overlap with the structures of a run."""
    for name, text in card_rows(card, overlap).items():
        st.markdown(f"**{words.sentence(name)}**: {words.escaped(text)}")


def show(
    table: pd.DataFrame,
    *,
    alt: str,
    columns: Mapping[str, Any] | None = None,
    rows: int = 12,
    wraps: bool = False,
) -> None:
    """Draw a table; one with more than `rows` rows gets a scrolling window of that height.

    With `wraps` long texts are wrapped, in up to three lines.
    """
    _draw(table, columns, rows=rows, wraps=wraps, alt=alt)


def pick(
    table: pd.DataFrame, *, alt: str, columns: Mapping[str, Any], key: str, rows: int = 12
) -> int | None:
    """Draw a table in which one row can be marked, and return the position of the marked row."""
    event = _draw(
        table,
        columns,
        rows=rows,
        alt=alt,
        key=key,
        on_select="rerun",
        selection_mode="single-row",
    )
    return next((position for position in event.selection.rows if position < len(table)), None)


def _draw(
    table: pd.DataFrame,
    columns: Mapping[str, Any] | None,
    *,
    rows: int,
    wraps: bool = False,
    **options: Any,
) -> Any:
    pictures = {PICTURE: st.column_config.ImageColumn("picture", width=92, help=_PICTURE_HELP)}
    settings = (pictures if PICTURE in table else {}) | dict(columns or {})
    return st.dataframe(
        table,
        height=height(table, rows, wraps=wraps),
        row_height=row_height(table, wraps=wraps),
        column_config=_with_formats(table, settings),
        hide_index=True,
        placeholder="",
        **options,
    )


def height(table: pd.DataFrame, rows: int, *, wraps: bool = False) -> int:
    """Return the height in pixels of a table in which more than `rows` rows scroll.

    It is that of the content where all rows are shown. Stated as a number, it is reserved before
    the browser has drawn the table, so that what is below does not move.
    """
    pixels = row_height(table, wraps=wraps)
    if len(table) <= rows:
        return (pixels or ROW_PIXELS) * len(table) + ROW_PIXELS + FRAME_PIXELS
    return (pixels or ROW_HEIGHT) * rows + ROW_HEIGHT


def row_height(table: pd.DataFrame, *, wraps: bool = False) -> int | None:
    """Return the height in pixels of a row with a picture or wrapped texts, None for a low row."""
    return PICTURE_HEIGHT if wraps or PICTURE in table else None


def _with_formats(table: pd.DataFrame, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return column settings in which every column of floats has a format.

    Without one the browser decides on digits and separators: 1.234 in one language is 1,234 in
    another.
    """
    settings = dict(columns)
    for name in table.columns:
        column = settings.get(name, {})
        if column is None or not _is_of_floats(table[name]):
            continue
        type_settings = {"type": "number", **(column.get("type_config") or {})}
        if type_settings["type"] == "number":
            format = type_settings.get("format") or _FLOAT_FORMAT
            settings[name] = {**column, "type_config": {**type_settings, "format": format}}
    return settings


def _is_of_floats(column: "pd.Series[Any]") -> bool:
    values = column.dropna()
    return pd.api.types.is_float_dtype(column) or (
        column.dtype == object
        and any(isinstance(value, float) for value in values)
        and all(isinstance(value, int | float) for value in values)
    )


def with_pictures(
    table: pd.DataFrame, addresses: Sequence[str | None], *, after: str = ""
) -> pd.DataFrame:
    """Return the table with the pictures of its structures in a column after the one named `after`.

    By default they are the first column. Without any picture the table is returned as it is.
    """
    if not any(addresses):
        return table
    pictures = pd.Series(list(addresses), index=table.index, dtype="str")
    place = list(table.columns).index(after) + 1 if after else 0
    columns = [table.iloc[:, :place], pictures.rename(PICTURE), table.iloc[:, place:]]
    return pd.concat(columns, axis=1)


def column(
    label: str,
    width: int | Literal["small", "medium", "large"] | None = None,
    format: str | None = None,
    help: str | None = None,
    *,
    alignment: Literal["left", "center", "right"] | None = None,
) -> Any:
    """Return Streamlit's settings of a column; one with a format has numbers."""
    if format is None:
        return st.column_config.Column(label, width=width, help=help, alignment=alignment)
    return st.column_config.NumberColumn(label, width=width, help=help, format=format)


def columns(names: Sequence[str]) -> dict[str, Any]:
    """Return Streamlit's column settings for quantities: label with unit, help text, format."""
    by_column = {quantity.column: quantity for quantity in Quantity}
    settings: dict[str, Any] = {}
    for name in names:
        quantity = by_column.get(name)
        if quantity is None:
            continue
        format = "%.2f" if quantity.unit == "eV" else None
        settings[name] = column(quantity.axis, format=format, help=quantity.help)
    return settings


_PICTURE_HELP = "The structure along its shortest axis. Double-click a picture to enlarge it."

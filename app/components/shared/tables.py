"""Tables of the dashboard: data frames of rows of the store, and the settings of their columns."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import pandas as pd
import streamlit as st

from app.components.shared import words
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow, Verdict
from bandgap.jobs.store import Job
from bandgap.sources.cards import card_rows

STATUS_WORDS = {"ready": "ready", "warning": "usable", "refused": "refused", "ok": "ok"}
PICTURE = "picture"  # the column of addresses of `app.components.structures.pictures`
ROW_HEIGHT = 33  # pixels of a row as Streamlit draws it
HEADER_HEIGHT = 36  # pixels of the header and the frame
# Pixels of a row with a picture or wrapped texts. Above 4 rem, which are 60, Streamlit wraps texts.
PICTURE_HEIGHT = 61
_SORT = {"refused": 0, "warning": 1, "ready": 2}


def verdict_frame(verdicts: Sequence[Verdict]) -> pd.DataFrame:
    """Return one row per structure with its verdict: refused first, then warnings, then ready."""
    rows = [
        {
            "id": v.id,
            "file": v.file,
            "status": STATUS_WORDS[v.status],
            "gap_eV": v.gap_eV,
            "problem": v.problem,
            "formula": v.formula,
            "n_atoms": v.n_atoms or None,
            "periodic": ("crystal" if v.periodic else "molecule") if v.n_atoms else "",
        }
        for v in sorted(verdicts, key=lambda v: _SORT[v.status])
    ]
    return pd.DataFrame(rows).astype({"gap_eV": "float64", "n_atoms": "Int64"})


def run_frame(
    runs: Sequence[RunRow], jobs: Mapping[str, Job], datasets: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row per run: title, number of labels, state, data set, seed and start."""
    rows = [
        {
            "run": run.title,
            "n": run.request.n,
            "state": words.STATES[jobs[run.job].state] if run.job in jobs else "unknown",
            "data set": datasets.get(run.dataset, "(deleted)"),
            "seed": run.request.seed,
            "started": words.moment(run.created),
        }
        for run in runs
    ]
    return pd.DataFrame(rows).astype({"n": "Int64"})


_FLOAT_FORMAT = "%.6g"  # of columns without settings: six digits, without separators


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
    **options: Any,
) -> Any:
    """Draw a table; one with more than `rows` rows gets a scrolling window of that height."""
    pictures = {PICTURE: st.column_config.ImageColumn("picture", width=92, help=_PICTURE_HELP)}
    settings = (pictures if PICTURE in table else {}) | dict(columns or {})
    row_height = PICTURE_HEIGHT if PICTURE in table else None
    return st.dataframe(
        table,
        height=height(len(table), rows, row_height),
        row_height=row_height,
        column_config=_with_formats(table, settings),
        hide_index=True,
        placeholder="",
        alt=alt,
        **options,
    )


def pick(
    table: pd.DataFrame, *, alt: str, columns: Mapping[str, Any], key: str, rows: int = 12
) -> int | None:
    """Draw a table in which one row can be marked, and return the position of the marked row."""
    event = show(
        table,
        alt=alt,
        columns=columns,
        rows=rows,
        key=key,
        on_select="rerun",
        selection_mode="single-row",
    )
    return next((position for position in event.selection.rows if position < len(table)), None)


def height(n: int, rows: int, row_height: int | None) -> int:
    """Return the height in pixels of a table of `n` rows, in which more than `rows` rows scroll.

    Stated as a number, it is reserved before the browser has drawn the table, so that what is below
    does not move.
    """
    return min(n, rows) * (row_height or ROW_HEIGHT) + HEADER_HEIGHT


def _with_formats(table: pd.DataFrame, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Return column settings in which every column of floats has a format.

    Without one the browser decides on digits and separators: 1.234 in one language is 1,234 in
    another.
    """
    floats = table.select_dtypes("float").columns
    return {name: column(name, format=_FLOAT_FORMAT) for name in floats} | dict(columns)


def with_pictures(
    table: pd.DataFrame, addresses: Sequence[str | None], *, after: str = ""
) -> pd.DataFrame:
    """Return the table with the pictures of its structures in a column after the one named `after`.

    By default they are the first column. Without any picture the table is returned as it is.
    """
    if not any(addresses):
        return table
    pictures = pd.Series(list(addresses), index=table.index, dtype="str")
    table = table.copy()
    table.insert(list(table.columns).index(after) + 1 if after else 0, PICTURE, pictures)
    return table


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


NAMES = {
    quantity.column: column(quantity.axis, help=quantity.help)
    for quantity in (Quantity.ID, Quantity.FORMULA)
}
_PICTURE_HELP = "The structure along its shortest axis. Double-click a picture to enlarge it."

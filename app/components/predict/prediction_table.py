"""The table of predictions: what is shown of it, filtered, page by page, and the numbers of the row that is chosen."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from app.components.shared import stores, tables, words
from app.components.shared.structure_view import draw_structure
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.home import shapes_path
from bandgap.predictions.details import PredictionDetails

Show = Literal["all", "with a warning", "refused"]
Order = Literal["as given", "lowest gap first", "highest gap first", "least sure first"]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]

SHOWN = [
    *(
        "id",
        "status",
        "mean_eV",
        "lower_eV",
        "upper_eV",
        "note",
        "nearest_known",
        "nearest_percentile",
    ),
    *("formula", "sd_eV", "file"),
]
PAGE = 1_000  # rows of the table on one page
_STATUS: dict[Show, str] = {"with a warning": "warning", "refused": "refused"}
_SORTED: dict[Order, tuple[str, int]] = {
    "lowest gap first": ("mean_eV", 1),
    "highest gap first": ("mean_eV", -1),
    "least sure first": ("sd_eV", -1),
}


@dataclass(frozen=True)
class Filter:
    """Which rows are shown, those of a status whose name, formula, file or nearest structure holds a text, in order."""

    text: str = ""
    show: Show = "all"
    order: Order = "as given"


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of a prediction at a level, as columns of the CSV (`Predictions.to_columns`), and what is kept of them.

    `details` have as many rows, or are None; `learned` are ids of structures that the run learned from.
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
        """Return which rows are of a status (n,)."""
        return np.array([own == status for own in self.columns["status"]], dtype=bool)

    def rows(self, wanted: Filter) -> Places:
        """Return the places of the rows that pass, refused ones last."""
        refused = self.has_status("refused")
        kept = (
            np.ones(len(self), dtype=bool)
            if wanted.show == "all"
            else self.has_status(_STATUS[wanted.show])
        )
        if text := wanted.text.strip().casefold():
            names = [self.columns[name] for name in ("id", "formula", "file")]
            names += [] if self.details is None else [self.details.nearest]
            rows = zip(*names, strict=True)
            kept &= np.array(
                [any(text in str(name).casefold() for name in row) for row in rows], dtype=bool
            )
        places = np.flatnonzero(kept)
        if wanted.order in _SORTED:
            name, sign = _SORTED[wanted.order]
            places = places[np.argsort(sign * self.numbers(name)[places], kind="stable")]
        return places[np.argsort(refused[places], kind="stable")]

    def frame(self, rows: Places) -> pd.DataFrame:
        """Return rows as shown: one note each, and the nearest known structure; the index is their place."""
        found: dict[str, Any] = {
            name: values[rows] if isinstance(values, np.ndarray) else _texts(values, rows)
            for name, values in self.columns.items()
        }
        found["note"] = [self._note(row) for row in rows]
        if self.details is not None:
            found["nearest_known"] = _texts(self.details.nearest, rows)
            found["nearest_percentile"] = 100.0 * self.details.percentile[rows]
        return pd.DataFrame({name: found[name] for name in SHOWN if name in found}, index=rows)

    def about(self, row: int) -> dict[str, str]:
        """Return the numbers of one row by name, in words; empty ones are left out."""
        values = {name: column[row] for name, column in self.columns.items()}
        found = {"formula": str(values["formula"]), "file": str(values["file"])}
        details = self.details
        if details is not None:
            found["atoms"] = f"{details.n_atoms[row]:,}" if details.n_atoms[row] else ""
        if values["status"] != "refused":
            interval = f"{values['lower_eV']:.2f} to {values['upper_eV']:.2f} eV"
            found["band gap"] = f"{values['mean_eV']:.2f} eV"
            found[f"{words.percent(float(values['level']))} {values['interval']} interval"] = (
                interval
            )
            found["standard deviation"] = f"{values['sd_eV']:.2f} eV"
            if details is not None and details.nearest[row]:
                found["nearest known"] = (
                    f"{details.nearest[row]} (cosine distance {details.distance[row]:.2g}; farther "
                    f"than {words.percent(details.percentile[row])} of the training set)"
                )
        found["status"] = str(values["status"])
        found["to mind"] = self._to_mind(row)
        return {name: text for name, text in found.items() if text}

    def _to_mind(self, row: int) -> str:
        problem, domain = (str(self.columns[name][row]) for name in ("problem", "domain"))
        return " ".join(filter(None, (problem, domain if domain != "ok" else "")))

    def _note(self, row: int) -> str:
        own = self.columns["id"][row] in self.learned
        return " ".join(filter(None, (self._to_mind(row), _LEARNED if own else "")))


def _texts(values: Sequence[str], rows: Places) -> "pd.Series[str]":
    return pd.Series([values[row] for row in rows], index=rows, dtype="str")


def filter_row(table: Table, *, key: str) -> Filter:
    """Draw the filter above a table that has more than a few rows, and the order above one of several pages."""
    offered: list[Show] = [
        "all",
        *(show for show, status in _STATUS.items() if table.has_status(status).any()),
    ]
    if len(table) < 8 and len(offered) == 1:
        return Filter()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input(
            "Find", key=f"find-{key}", width=220, placeholder="name, formula or file"
        )
        show = st.segmented_control("Show", offered, default="all", key=f"show-{key}") or "all"
        order: Order = "as given"
        if len(table) > PAGE:
            orders: list[Order] = list(get_args(Order))
            order = st.selectbox("Order", orders, key=f"order-{key}", width=190)
    return Filter(text, show, order)


def shown_page(rows: Places, *, key: str) -> tuple[Places, str]:
    """Return the rows of a table's page that is chosen (`page_row` draws the choice), and the key of what it shows."""
    pages = max(1, -(-len(rows) // PAGE))
    page = min(int(st.session_state.get(f"page-{key}", 1)), pages)
    return rows[(page - 1) * PAGE : page * PAGE], f"{key}-{page}" if pages > 1 else key


def page_row(rows: Places, *, key: str) -> None:
    """Draw the choice of the page below a table that has several."""
    if len(rows) > PAGE:
        pages = -(-len(rows) // PAGE)
        with st.container(horizontal=True, vertical_alignment="center"):
            st.pagination(pages, key=f"page-{key}")
            st.caption(
                f"{words.count(len(rows), 'structure')} on {pages:,} pages. The CSV has all of "
                "them."
            )


def chosen_row(shown: pd.DataFrame, *, key: str) -> int | None:
    """Draw the table and return which row of the input is chosen."""
    place = tables.pick(shown, alt="Predicted structures", columns=column_settings(), key=key)
    return None if place is None else int(shown.index[place])


def chosen_structure(table: Table, row: int, *, dataset: str) -> None:
    """Draw what is known of the chosen structure, a row of this data set."""
    with st.container(border=True, key="chosen-structure"):
        st.markdown(f"**{words.escaped(str(table.columns['id'][row]))}**")
        lines = table.about(row)
        st.markdown(
            "  \n".join(
                f"{words.sentence(name)}: {words.escaped(text)}" for name, text in lines.items()
            )
        )
        formula = str(table.columns["formula"][row])
        draw_structure(
            shapes_path(stores.home(), dataset), row, formula=formula, key=f"chosen-{dataset}-{row}"
        )


def column_settings() -> dict[str, Any]:
    """Return headers with units; the note is wide."""
    return tables.columns(SHOWN) | {
        "mean_eV": st.column_config.NumberColumn(
            "gap (eV)", help=Quantity.MEAN.help, format="%.2f"
        ),
        "lower_eV": st.column_config.NumberColumn(
            "from (eV)", help=Quantity.LOWER.help, format="%.2f"
        ),
        "upper_eV": st.column_config.NumberColumn(
            "to (eV)", help=Quantity.UPPER.help, format="%.2f"
        ),
        "sd_eV": st.column_config.NumberColumn("sd (eV)", help=Quantity.SD.help, format="%.2f"),
        "id": st.column_config.Column(Quantity.ID.axis, help=Quantity.ID.help, width=130),
        "note": st.column_config.Column("what to mind", width="medium"),
        "nearest_known": st.column_config.Column("nearest known", help=_NEAREST_HELP, width=110),
        "nearest_percentile": st.column_config.NumberColumn(
            "farther than (%)", help=_FAR_HELP, format="%.0f"
        ),
    }


_LEARNED = "The run learned from this structure: its prediction is no test."
_NEAREST_HELP = (
    "The structure that the run learned from whose descriptor points most nearly the same way."
)
_FAR_HELP = (
    "Share of the training set that is nearer to its own nearest neighbour than this structure is "
    "to its."
)

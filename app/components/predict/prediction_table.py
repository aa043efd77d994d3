"""The table of predictions: what is shown of it, filtered, and the numbers of the row that is chosen."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import streamlit as st

from bandgap.foundation.quantities import Quantity
from bandgap.jobs.home import shapes_path
from bandgap.predictions.details import PredictionDetails
from components.shared import stores, tables, words
from components.shared.structure_view import draw_structure

Show = Literal["all", "with a warning", "refused"]

SHOWN = [
    *("id", "status", "mean_eV", "lower_eV", "upper_eV", "note", "nearest_known", "nearest_percentile"),
    *("formula", "sd_eV", "file"),
]
_STATUS: dict[Show, str] = {"with a warning": "warning", "refused": "refused"}


@dataclass(frozen=True)
class Filter:
    """Which rows are shown: those of a status whose name, formula, file or nearest structure holds a text."""

    text: str = ""
    show: Show = "all"

    def rows(self, table: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of the table that pass."""
        kept = table if self.show == "all" else table[table["status"] == _STATUS[self.show]]
        wanted = self.text.strip().casefold()
        if not wanted:
            return kept
        columns = [c for c in ("id", "formula", "file", "nearest_known") if c in kept]
        hit = np.zeros(len(kept), dtype=bool)
        for column in columns:
            hit |= kept[column].str.casefold().str.contains(wanted, regex=False).to_numpy(dtype=bool)
        return kept[hit]


def display_frame(
    table: pd.DataFrame, details: PredictionDetails | None = None, *, learned: Collection[str] = ()
) -> pd.DataFrame:
    """Return the table as shown: one note a row, the nearest known structure, refused rows last; the index is the row.

    `learned` are ids of structures that the run learned from.
    """
    notes = [
        " ".join(filter(None, (problem, domain if domain != "ok" else "", _LEARNED if id in learned else "")))
        for id, problem, domain in zip(table["id"], table["problem"], table["domain"], strict=True)
    ]
    shown = table.assign(note=notes)
    if details is not None and len(details) == len(table):
        nearest = pd.Series(list(details.nearest), dtype="str")
        shown = shown.assign(nearest_known=nearest, nearest_percentile=100.0 * details.percentile)
    refused = (shown["status"] == "refused").sort_values(kind="stable").index
    return shown.loc[refused, [column for column in SHOWN if column in shown]]


def filter_row(table: pd.DataFrame, *, key: str) -> Filter:
    """Draw the filter above a table that has more than a few rows."""
    offered: list[Show] = ["all", *(show for show, status in _STATUS.items() if (table["status"] == status).any())]
    if len(table) < 8 and len(offered) == 1:
        return Filter()
    with st.container(horizontal=True, vertical_alignment="bottom"):
        text = st.text_input("Find", key=f"find-{key}", width=220, placeholder="name, formula or file")
        show = st.segmented_control("Show", offered, default="all", key=f"show-{key}") or "all"
    return Filter(text, show)


def chosen_row(shown: pd.DataFrame, *, key: str) -> int | None:
    """Draw the table and return which row of the input is chosen."""
    place = tables.pick(shown, alt="Predicted structures", columns=column_settings(), key=key)
    return None if place is None else int(shown.index[place])


def row_numbers(table: pd.DataFrame, row: int, details: PredictionDetails | None) -> dict[str, str]:
    """Return the numbers of one row of the input by name, in words; empty ones are left out."""
    values = table.iloc[row]
    found = {"formula": values["formula"], "file": values["file"]}
    if details is not None and len(details) == len(table):
        found["atoms"] = f"{details.n_atoms[row]:,}" if details.n_atoms[row] else ""
    if values["status"] != "refused":
        interval = f"{values['lower_eV']:.2f} to {values['upper_eV']:.2f} eV"
        found["band gap"] = f"{values['mean_eV']:.2f} eV"
        found[f"{words.percent(values['level'])} {values['interval']} interval"] = interval
        found["standard deviation"] = f"{values['sd_eV']:.2f} eV"
        if details is not None and len(details) == len(table) and details.nearest[row]:
            found["nearest known"] = (
                f"{details.nearest[row]} (cosine distance {details.distance[row]:.2g}; farther than "
                f"{words.percent(details.percentile[row])} of the training set)"
            )
    found["status"] = values["status"]
    found["to mind"] = " ".join(filter(None, (values["problem"], values["domain"] if values["domain"] != "ok" else "")))
    return {name: text for name, text in found.items() if text}


def chosen_structure(table: pd.DataFrame, row: int, details: PredictionDetails | None, *, dataset: str) -> None:
    """Draw what is known of the chosen structure, a row of this data set."""
    with st.container(border=True, key="chosen-structure"):
        st.markdown(f"**{words.escaped(str(table.iloc[row]['id']))}**")
        lines = row_numbers(table, row, details)
        st.markdown("  \n".join(f"{words.sentence(name)}: {words.escaped(text)}" for name, text in lines.items()))
        formula = str(table.iloc[row]["formula"])
        draw_structure(shapes_path(stores.home(), dataset), row, formula=formula, key=f"chosen-{dataset}-{row}")


def column_settings() -> dict[str, Any]:
    """Return headers with units; the note is wide."""
    return tables.columns(SHOWN) | {
        "mean_eV": st.column_config.NumberColumn("gap (eV)", help=Quantity.MEAN.help, format="%.2f"),
        "lower_eV": st.column_config.NumberColumn("from (eV)", help=Quantity.LOWER.help, format="%.2f"),
        "upper_eV": st.column_config.NumberColumn("to (eV)", help=Quantity.UPPER.help, format="%.2f"),
        "sd_eV": st.column_config.NumberColumn("sd (eV)", help=Quantity.SD.help, format="%.2f"),
        "id": st.column_config.Column(Quantity.ID.axis, help=Quantity.ID.help, width=130),
        "note": st.column_config.Column("what to mind", width="medium"),
        "nearest_known": st.column_config.Column("nearest known", help=_NEAREST_HELP, width=110),
        "nearest_percentile": st.column_config.NumberColumn("farther than (%)", help=_FAR_HELP, format="%.0f"),
    }


_LEARNED = "The run learned from this structure: its prediction is no test."
_NEAREST_HELP = "The structure that the run learned from whose descriptor points most nearly the same way."
_FAR_HELP = "Share of the training set that is nearer to its own nearest neighbour than this structure is to its."

"""Held-out structures of a run: predicted against known gaps, with intervals, and the same as a table."""

import pandas as pd
import streamlit as st

from bandgap import plots
from bandgap.jobs.rows import RunRow
from components.shared import frame, stores, tables
from components.shared.drawing import drawn
from components.shared.run_files import read_heldout


def heldout_view(run: RunRow) -> None:
    """Draw the parity plot of the held-out structures; the table is one click away."""
    table = with_known_gaps(read_heldout(run.id), run)
    if table.empty:
        return
    st.subheader("Held-out structures", anchor=False)
    columns = {name: table[name].to_numpy() for name in ("gap_eV", "mean_eV", "lower_eV", "upper_eV")}
    fig = drawn(plots.parity, *columns.values(), ids=table["id"].tolist())
    left, right = st.columns(2, gap="medium")
    with left:
        frame.figure(fig, key="parity", alt="Predicted against known gaps of the held-out structures", caption=CAPTION)
    with right:
        shown = table[["id", "gap_eV", "mean_eV", "lower_eV", "upper_eV", "formula", "domain", "file"]]
        st.dataframe(
            shown, hide_index=True, placeholder="", height=tables.height(shown, rows=11), column_config=COLUMNS
        )
        st.caption("Largest error first.")


def with_known_gaps(predicted: pd.DataFrame, run: RunRow) -> pd.DataFrame:
    """Return the predicted rows that have a known gap in the run's data set, with that gap, largest error first."""
    verdicts = stores.library().verdicts(run.dataset)
    known = pd.DataFrame(
        {
            "id": pd.Series([v.id for v in verdicts], dtype="str"),
            "file": pd.Series([v.file for v in verdicts], dtype="str"),
            "gap_eV": pd.Series([v.gap_eV for v in verdicts], dtype="float64"),
        }
    )
    joined = predicted.merge(known.drop_duplicates(["id", "file"]), on=["id", "file"]).dropna(
        subset=["gap_eV", "mean_eV"]
    )
    return joined.iloc[(joined["mean_eV"] - joined["gap_eV"]).abs().argsort()[::-1]]


COLUMNS = tables.columns(["id", "formula", "domain", "file"]) | {
    "gap_eV": st.column_config.NumberColumn("known (eV)", format="%.2f"),
    "mean_eV": st.column_config.NumberColumn("predicted (eV)", format="%.2f"),
    "lower_eV": st.column_config.NumberColumn("from (eV)", format="%.2f"),
    "upper_eV": st.column_config.NumberColumn("to (eV)", format="%.2f"),
}
CAPTION = "Points on the line are right. With honest 95 % intervals about one bar in twenty misses the line."

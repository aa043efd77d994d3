"""The table of finished runs on one data set: errors, differences, names and notes.

Names and notes are edited in their cells.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, stores, tables, words
from bandgap.evaluation.paired import interval_text
from bandgap.evaluation.run_tables import Differences, StoredRun, difference_table, figures_table
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.housekeeping import MAX_NAME, rename_run
from bandgap.jobs.rows import RunRow
from bandgap.jobs.run_notes import MAX_NOTE, run_notes, set_run_note

ROWS = 8
_KEY = "run-table"


def run_table(
    rows: Mapping[str, RunRow],
    *,
    labels: Mapping[str, str],
    data: str,
    runs: Sequence[StoredRun],
    pairs: Differences,
) -> None:
    """Draw the table of runs with its CSV, and carry out what was edited in it.

    Parameters
    ----------
    rows
        Finished runs by id, in the order of the table.
    labels
        Distinct name of each run by id.
    data
        Name of their data set.
    runs, pairs
        Those that could be read, and their differences to the baseline.
    """
    read = {run.id: run.manifest for run in runs}
    manifests = [read.get(run_id, {}) for run_id in rows]
    rmse_eV, coverages = (
        np.array([manifest.get("metrics", {}).get(name) for manifest in manifests], np.float64)
        for name in ("rmse_eV", "coverage_95")
    )
    n = [len(manifest["split"]["train"]) if manifest else None for manifest in manifests]
    notes = run_notes(stores.library(), session.workspace())
    differences = {run.id: interval_text(d) for run, d, _ in pairs if d}
    table = pd.DataFrame(
        {
            "run": [labels[run_id] for run_id in rows],
            "rmse_eV": rmse_eV,
            "coverage": 100 * coverages,
            "difference": [differences.get(run_id, "") for run_id in rows],
            "n": pd.array(n, dtype="Int64"),
            "note": [notes.get(run_id, "") for run_id in rows],
        },
        index=pd.Index(list(rows), name="id", dtype="str"),
    )
    key = f"{_KEY}-{session.form_key(_KEY)}"
    edited_table = st.data_editor(
        table,
        key=key,
        hide_index=True,
        height=tables.height(len(table), ROWS, tables.PICTURE_HEIGHT),
        row_height=tables.PICTURE_HEIGHT,  # long names are wrapped
        column_config=_columns(),
        disabled=[name for name in table.columns if name not in ("run", "note")],
        placeholder="",
        alt="Finished runs on the data set with their errors, differences and notes",
    )
    downloads.csv_button(
        "Download the comparison (CSV)",
        lambda: comparison(table, rows, runs, pairs).assign(data=data),
        "comparison.csv",
        help="With all figures, such as the mean absolute error and the width of the intervals.",
    )
    names_and_notes = edited_table[["run", "note"]].fillna("")  # what was cleared
    is_edited = (names_and_notes != table[["run", "note"]]).any(axis=1)
    for run_id in table.index[is_edited]:
        _store(rows[run_id], names_and_notes.loc[run_id], table.loc[run_id])


def comparison(
    table: pd.DataFrame, rows: Mapping[str, RunRow], runs: Sequence[StoredRun], pairs: Differences
) -> pd.DataFrame:
    """Return the table for a CSV: with ids, seeds, and figures and differences of read runs."""
    requests = [rows[run_id].request for run_id in table.index]
    table = table.drop(columns=["rmse_eV", "coverage", "difference"]).reset_index()
    table["method"] = [request.method for request in requests]
    table["seed"] = [request.seed for request in requests]
    differences = difference_table(pairs).add_prefix("difference_to_baseline_")
    figures = figures_table(runs).merge(
        differences, how="left", left_on="run", right_on="difference_to_baseline_run"
    )
    return table.merge(figures, how="left", on="run").drop(columns="difference_to_baseline_run")


def _store(run: RunRow, new: "pd.Series[Any]", old: "pd.Series[Any]") -> None:
    """Store an edited row in a run; then a new table, without edits, replaces the present one."""
    try:
        if new["note"] != old["note"]:
            set_run_note(stores.library(), run.workspace, run.id, new["note"])
        if new["run"] != old["run"]:
            rename_run(stores.library(), run, new["run"])
    except BandgapError as error:
        session.set_message(words.escaped_sentence(str(error)), tone="error")
    session.renew(_KEY)
    st.rerun()


def _columns() -> dict[str, Any]:
    coverage = words.sentence(Quantity.COVERAGE.help)
    text = st.column_config.TextColumn
    return {
        "run": text("run", width=210, pinned=True, max_chars=MAX_NAME, help=_NAME_HELP),
        "rmse_eV": tables.column("RMSE (eV)", 76, "%.3f", Quantity.RMSE.help),
        "coverage": tables.column(
            "in 95 %", 60, "%.0f %%", f"{coverage} Here of 95 %, without a calibrator."
        ),
        "difference": tables.column("difference (eV)", 190, help=_DIFFERENCE_HELP),
        "n": tables.column("n", 50, help="Number of labelled structures that it learned from."),
        "note": text("note", width=240, max_chars=MAX_NOTE, help="Yours; double-click to write."),
    }


_NAME_HELP = "Double-click to give it another name."
_DIFFERENCE_HELP = (
    "RMSE of this run minus that of the one it is compared with, on the same crystals, with its "
    "95 % interval by paired bootstrap; negative is better. Another training set or seed may "
    "differ by more."
)

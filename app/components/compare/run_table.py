"""The table of finished runs: figures, notes and tags, and ticks for the comparison.

Notes and tags are edited in their cells and stored with the run. The ticked runs are in the
address.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app import session
from app.components.shared import downloads, frame, stores, tables, words
from app.components.shared.run_files import run_summaries
from bandgap.evaluation.run_tables import MOST_RUNS
from bandgap.foundation.errors import BandgapError
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow
from bandgap.jobs.run_notes import MAX_NOTE, RunNote, run_notes, set_run_note

ROWS = 8
WRAPPED_ROWS = 6  # of two or three lines
TICK = "compare"
_FORM = "run-table"  # its key changes where an edit must be withdrawn
_EDITS = "run_table_edits"  # run ids, and the edits of them that were carried out
_UNTICKED = "run_table_unticked"  # whether the visitor has removed the last tick

Cells = Mapping[int, Mapping[str, Any]]  # edited cells by row and column


def run_table(
    runs: Mapping[str, RunRow],
    *,
    labels: Mapping[str, str],
    datasets: Mapping[str, str],
    proposed: Sequence[str],
    refits: Collection[str],
) -> list[str]:
    """Draw the table of runs, store edited notes and tags, and return the ticked runs.

    Parameters
    ----------
    runs
        Finished runs by id, in the order of the table.
    labels
        Distinct name of each run by id.
    datasets
        Names of the data sets by id.
    proposed
        Ids of the runs that are ticked where the address names none.
    refits
        Ids of the runs that cannot be ticked, as their error is that of another run.
    """
    ticked = _ticked_runs([run_id for run_id in runs if run_id not in refits], proposed)
    notes = run_notes(stores.library(), session.workspace())
    table = run_frame(runs, labels=labels, datasets=datasets, notes=notes, ticked=ticked)
    text = st.text_input(
        "Find runs", placeholder="name, method, data set, note or tag", key="runs-find", width=420
    )
    table = table[matching_rows(table, text)]
    if table.empty:
        st.caption("No run has all of these words.")
        return ticked
    tag_options = sorted({tag for note in notes.values() for tag in note.tags})
    key = f"{_FORM}-{session.form_key(_FORM)}"
    st.caption(
        f"Tick 2 to {MOST_RUNS} runs to compare them. Click a header to sort; double-click a "
        "cell of note or tags to write in it.",
        width=720,
    )
    wraps = tables.has_long_names(table["run"])
    st.data_editor(
        table,
        key=key,
        hide_index=True,
        height=tables.height(table, WRAPPED_ROWS if wraps else ROWS, wraps=wraps),
        row_height=tables.row_height(table, wraps=wraps),
        column_config=_columns(tag_options),
        disabled=[name for name in table.columns if name not in (TICK, "note", "tags")],
        placeholder="",
        alt="Finished runs of this workspace with their errors, notes and tags",
    )
    downloads.csv_button(
        "Download the runs (CSV)",
        partial(run_rows, table, runs, workspace=session.workspace()),
        "runs.csv",
        help="Those that are shown, with notes and tags.",
    )
    edits: Cells = (st.session_state.get(key) or {}).get("edited_rows", {})
    ids = table.index.tolist()
    cells = _new_cells(ids, edits)
    for row, values in cells.items():
        if "note" in values or "tags" in values:
            _store_note(ids[row], values, notes.get(ids[row], RunNote()))
    ticks = {ids[row]: bool(values[TICK]) for row, values in cells.items() if TICK in values}
    _change_ticks(ticks, ticked, refits={run_id: labels[run_id] for run_id in refits})
    return ticked


def run_frame(
    runs: Mapping[str, RunRow],
    *,
    labels: Mapping[str, str],
    datasets: Mapping[str, str],
    notes: Mapping[str, RunNote],
    ticked: Iterable[str],
) -> pd.DataFrame:
    """Return one row for each run, with the run ids as index.

    Coverage is in percent. A refit has no figures, as its error is that of its parent.
    """
    summaries = run_summaries(runs)
    methods = {name: entry.title for name, entry in stores.library().methods().items()}
    ticks = set(ticked)
    return pd.DataFrame(
        {
            TICK: [run_id in ticks for run_id in runs],
            "run": [tables.without_n(labels[run_id], run) for run_id, run in runs.items()],
            "rmse_eV": [summary.rmse_eV for summary in summaries],
            "coverage": [100 * summary.coverage for summary in summaries],
            "width_eV": [summary.width_eV for summary in summaries],
            "n": pd.array([summary.n for summary in summaries], dtype="Int64"),
            "note": [notes.get(run_id, RunNote()).text for run_id in runs],
            "tags": [list(notes.get(run_id, RunNote()).tags) for run_id in runs],
            "data": [datasets.get(run.dataset, "") for run in runs.values()],
            "time": [words.duration(s.time_s) if np.isfinite(s.time_s) else "" for s in summaries],
            "method": [methods.get(run.method, run.method) for run in runs.values()],
        },
        index=pd.Index(list(runs), name="id", dtype="str"),
    )


def run_rows(table: pd.DataFrame, runs: Mapping[str, RunRow], *, workspace: str) -> pd.DataFrame:
    """Return the rows of the table of runs for a CSV: with ids, seeds, and tags as text.

    Notes and tags are read again, as the table was drawn before its last edit was stored.
    """
    rows = [runs[run_id] for run_id in table.index]
    stored_notes = run_notes(stores.library(), workspace)
    notes = [stored_notes.get(run_id, RunNote()) for run_id in table.index]
    return pd.DataFrame(
        {
            "id": table.index,
            "run": table["run"],
            "method": table["method"],
            "data": table["data"],
            "n": table["n"],
            "n_test": [row.request.n_test for row in rows],
            "seed": [row.request.seed for row in rows],
            "rmse_eV": table["rmse_eV"],
            "coverage_95": table["coverage"] / 100,
            "width_95_eV": table["width_eV"],
            "time_s": [summary.time_s for summary in run_summaries(table.index)],
            "note": [note.text for note in notes],
            "tags": ["; ".join(note.tags) for note in notes],
        }
    )


def matching_rows(table: pd.DataFrame, text: str) -> list[bool]:
    """Return which rows have every word of a text in name, method, data set, note or tags."""
    required_words = text.casefold().split()
    columns = zip(*(table[name] for name in ("run", "method", "data", "note")), strict=True)
    texts = [
        " ".join([*map(str, cells), *tags]).casefold()
        for cells, tags in zip(columns, table["tags"], strict=True)
    ]
    return [all(word in row_text for word in required_words) for row_text in texts]


def _ticked_runs(runs: Collection[str], proposed: Sequence[str]) -> list[str]:
    ids = [run_id for run_id in session.selected_id("runs").split(",") if run_id in runs]
    if not ids and not st.session_state.get(_UNTICKED, False):
        ids = list(proposed)
    ids = ids[:MOST_RUNS]
    session.choose("runs", ",".join(ids))
    return ids


def _new_cells(ids: list[str], edits: Cells) -> dict[int, dict[str, Any]]:
    """Return the edited cells that were not carried out yet, and remember them as carried out.

    The browser sends all edits since the table got its present rows, again and again. An edit is
    carried out once, so that it does not undo what another window stored later.
    """
    earlier_ids, earlier = st.session_state.get(_EDITS, ([], {}))
    if earlier_ids != ids:
        earlier = {}
    st.session_state[_EDITS] = (ids, {row: dict(cells) for row, cells in edits.items()})
    new_cells = {}
    for row, cells in edits.items():
        before = earlier.get(row, {})
        changed = {name: value for name, value in cells.items() if before.get(name) != value}
        if changed:
            new_cells[row] = changed
    return new_cells


def _change_ticks(
    changes: Mapping[str, bool], ticked: Sequence[str], *, refits: Mapping[str, str]
) -> None:
    """Select and deselect runs, and run the page again where that changes something.

    `refits` are the names of the runs that cannot be selected.
    """
    selected = [run_id for run_id in ticked if changes.get(run_id, True)]
    selected += [run_id for run_id, on in changes.items() if on and run_id not in ticked]
    if selected == list(ticked):
        return
    refusal = ""
    if wrong := [name for run_id, name in refits.items() if run_id in selected]:
        refusal = f"{wrong[0]} is a refit. Its error is that of its parent: tick that run."
    elif len(selected) > MOST_RUNS:
        refusal = f"At most {MOST_RUNS} runs are compared at a time. Remove a tick first."
    if refusal:
        session.renew(_FORM)
        session.set_message(words.escaped_sentence(refusal), tone="warning")
    else:
        st.session_state[_UNTICKED] = not selected
        session.choose("runs", ",".join(selected))
    st.rerun()


def _store_note(run_id: str, values: Mapping[str, Any], note: RunNote) -> None:
    text = values.get("note", note.text) or ""
    tags = values.get("tags", note.tags) or ()
    try:
        set_run_note(stores.library(), session.workspace(), run_id, RunNote(text, tuple(tags)))
    except BandgapError as error:
        frame.problem(error)


def _columns(tags: Sequence[str]) -> dict[str, Any]:
    coverage = words.sentence(Quantity.COVERAGE.help)
    return {
        TICK: st.column_config.CheckboxColumn("tick", width=62, help=_TICK_HELP, pinned=True),
        "run": st.column_config.TextColumn("run", width=tables.NARROW_NAME, pinned=True),
        "rmse_eV": tables.column("RMSE (eV)", 76, "%.3f", Quantity.RMSE.help),
        "coverage": tables.column(
            "in 95 %", 60, "%.0f %%", f"{coverage} Here of 95 %, without a calibrator."
        ),
        "width_eV": tables.column("width (eV)", 78, "%.2f", f"{Quantity.WIDTH.help} Here of 95 %."),
        "n": tables.column("n", 50, help="Number of labelled structures that it learned from."),
        "note": st.column_config.TextColumn(
            "note", help="Yours; double-click to write.", width=120, max_chars=MAX_NOTE
        ),
        "tags": st.column_config.MultiselectColumn(
            "tags",
            help="Yours; double-click to choose or write. A tag can be found above.",
            width=90,
            options=list(tags),
            accept_new_options=True,
        ),
        "data": tables.column("data set", 84),
        "time": tables.column("time", 74, help="Of the whole transfer on the machine that ran it."),
        "method": tables.column("method", 150),
    }


_TICK_HELP = "Compare this run with the others that are ticked."

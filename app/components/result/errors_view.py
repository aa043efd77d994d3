"""The tab Errors: predicted and known gaps, the largest errors, and for which elements."""

import numpy as np
import pandas as pd
import streamlit as st

from app.components.result.metal_view import metal_view
from app.components.result.run_result import RunResult
from app.components.shared import stores, tables, words
from app.components.shared.drawing import figure, parity_columns
from app.components.shared.run_files import heldout_frame
from app.components.shared.structure_view import draw_structure
from app.components.structures.pictures import pictures_of_ids
from bandgap import plots
from bandgap.evaluation.result_verdict import far_rows
from bandgap.evaluation.signed_errors import error_by_element, error_by_gap, error_by_size
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import row_of

GROUPS = {"element": error_by_element, "predicted gap": error_by_gap, "size": error_by_size}
ROWS = 5  # of the table of the largest errors; the others scroll
COLUMNS = tables.NAMES | {
    "formula": tables.column("formula", 118),
    "gap_eV": tables.column("known (eV)", 70, "%.2f"),
    "mean_eV": tables.column("predicted (eV)", 86, "%.2f"),
    "error_eV": tables.column("error (eV)", 66, "%+.2f"),
    "note": tables.column("note", 236),  # three lines of the longest notes
}


def errors_view(result: RunResult) -> None:
    """Draw the parity plot, the marked structure, the largest errors and the error by group."""
    left_column, right_column = st.columns([5, 4], gap="medium")
    row = worst_table(result)
    with left_column:
        figure(
            plots.parity,
            *parity_columns(heldout_frame(result.heldout)),
            ids=list(result.heldout.predictions.ids),
            key="parity",
            alt="Predicted against known gaps of the held-out structures",
        )
    with right_column:
        heldout_structure(result, row)
    if result.heldout.predictions.p_metal is not None:
        metal_view(result.heldout)
    by = (
        st.segmented_control(
            "Too high or too low, by", list(GROUPS), default="element", key="groups-by"
        )
        or "element"
    )
    table = GROUPS[by](result.heldout)
    figure(
        plots.signed_error_figure,
        table,
        table=table,
        key="signed-errors",
        alt=f"Signed error of the held-out structures by {by}, with the range of chance",
        caption="A diamond outside its grey bar is a kind of structure that is shifted.",
    )


def worst_table(result: RunResult) -> int:
    """Draw the held-out structures as a table, the largest errors first.

    Returns the position among the held-out structures of the marked row, or of the first one.
    """
    table = worst_frame(result)
    n_far = far_rows(result.heldout).size
    pictures = pictures_of_ids(result.run.dataset, table["id"].tolist())
    position = tables.pick(
        tables.with_pictures(table, pictures, after="error_eV"),
        alt="Held-out structures, largest error first",
        columns=COLUMNS,
        key=f"worst-{result.run.id}",
        rows=ROWS,
    )
    far = "The first is" if n_far == 1 else f"The first {n_far} are"
    text = f"{far} far off: often wrong labels. "
    st.caption(f"{text if n_far else ''}Mark a row to see its structure.")
    return int(table.index[position or 0])


def heldout_structure(result: RunResult, row: int) -> None:
    """Draw a held-out structure under its name, or its name alone where no file is stored."""
    predictions = result.heldout.predictions
    formula = predictions.formulas[row]
    st.markdown(f"**{words.escaped(f'{predictions.ids[row]}, {formula}')}**")
    dataset = result.run.dataset
    stored_row = row_of(
        stores.library(), dataset, id=predictions.ids[row], file=predictions.files[row]
    )
    if stored_row is not None:
        draw_structure(
            shapes_path(stores.home(), dataset),
            stored_row,
            formula=formula,
            key=f"worst-{dataset}-{stored_row}",
        )


def worst_frame(result: RunResult) -> pd.DataFrame:
    """Return the rows of the held-out structures, the largest error first."""
    heldout = result.heldout
    predictions = heldout.predictions
    lower, upper = predictions.interval(0.95)
    is_outside = (heldout.gaps_eV < lower) | (heldout.gaps_eV > upper)
    notes = [
        "; ".join((["outside its interval"] if outside else []) + ([] if text == "ok" else [text]))
        for outside, text in zip(is_outside, predictions.domain, strict=True)
    ]
    rows = np.argsort(-np.abs(heldout.errors_eV), kind="stable")
    table = heldout_frame(heldout).assign(error_eV=heldout.errors_eV, note=notes).iloc[rows]
    return table[["id", "gap_eV", "mean_eV", "error_eV", "formula", "note"]]

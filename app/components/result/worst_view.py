"""The structures with the largest errors: a table, and the marked one in the viewer."""

import numpy as np
import pandas as pd
import streamlit as st

from app.components.result.run_result import RunResult
from app.components.shared import stores, tables, words
from app.components.shared.structure_view import draw_structure
from app.components.structures.pictures import pictures_of_ids
from bandgap.evaluation.result_verdict import far_rows
from bandgap.jobs.home import shapes_path
from bandgap.jobs.listing import row_of
from bandgap.predictions.table import Predictions

ROWS = 6  # of the table without pictures; the others scroll
SHOWN_ROWS = 3  # with pictures, unless more are far off
MOST_SHOWN = 12
ERROR_COLUMNS = tables.columns(["id", "formula"]) | {
    "gap_eV": tables.column("known (eV)", 70, "%.2f"),
    "mean_eV": tables.column("predicted (eV)", 86, "%.2f"),
    "error_eV": tables.column("error (eV)", 66, "%+.2f"),
}
COLUMNS = ERROR_COLUMNS | {
    "formula": tables.column("formula", 118),
    "note": tables.column("note", 236),  # three lines of the longest notes
}


def worst_table(result: RunResult) -> int:
    """Draw the held-out structures as a table, the largest errors first.

    Returns the position among the held-out structures of the marked row, or of the first one.
    """
    table = worst_frame(result)
    n_far = far_rows(result.heldout).size
    st.markdown("**The largest errors**")
    pictures = pictures_of_ids(result.run.dataset, table["id"].tolist())
    position = tables.pick(
        tables.with_pictures(table, pictures, after="error_eV"),
        alt="Held-out structures, largest error first",
        columns=COLUMNS,
        key=f"worst-{result.run.id}",
        rows=min(max(SHOWN_ROWS if any(pictures) else ROWS, n_far), MOST_SHOWN),
    )
    far = (
        f"{words.count(n_far, 'structure is', 'structures are')} far off: more than three times "
        "the usual error. Wrong labels are often among them. "
    )
    st.caption(f"{far if n_far else ''}Mark a row to see its structure.")
    return int(table.index[position or 0])


def heldout_structure(result: RunResult, row: int) -> None:
    """Draw a held-out structure under its name and formula."""
    predictions = result.heldout.predictions
    title = f"{predictions.ids[row]}, {predictions.formulas[row]}"
    st.markdown(f"**{words.escaped(title)}**")
    structure_picture(result.run.dataset, predictions, row)


def worst_frame(result: RunResult) -> pd.DataFrame:
    """Return the rows of the held-out structures, the largest error first."""
    heldout = result.heldout
    predictions = heldout.predictions
    errors = heldout.errors_eV
    order = np.argsort(-np.abs(errors), kind="stable")
    lower, upper = predictions.interval(0.95)
    is_outside = (heldout.gaps_eV < lower) | (heldout.gaps_eV > upper)
    notes = [
        "; ".join(
            filter(
                None,
                [
                    "outside its interval" if is_outside[row] else "",
                    "" if predictions.domain[row] == "ok" else predictions.domain[row],
                ],
            )
        )
        for row in order
    ]
    return pd.DataFrame(
        {
            "id": [predictions.ids[row] for row in order],
            "gap_eV": heldout.gaps_eV[order],
            "mean_eV": np.asarray(predictions.mean_eV)[order],
            "error_eV": errors[order],
            "formula": [predictions.formulas[row] for row in order],
            "note": notes,
        },
        index=order,
    )


def structure_picture(dataset: str, predictions: Predictions, row: int) -> None:
    """Draw the structure of a row of predictions, or nothing where its file is not stored."""
    row_in_dataset = row_of(
        stores.library(), dataset, id=predictions.ids[row], file=predictions.files[row]
    )
    if row_in_dataset is None:
        return
    draw_structure(
        shapes_path(stores.home(), dataset),
        row_in_dataset,
        formula=predictions.formulas[row],
        key=f"worst-{dataset}-{row_in_dataset}",
    )

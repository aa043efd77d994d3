"""A list of proposed molecules: table with structural formulas, one molecule in 3D, downloads."""

import base64

import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, tables, words
from app.components.shared.structure_view import draw_structure
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.proposals import MOLECULES, SHAPES, StoredProposals
from bandgap.predictions.window import Window


def proposal_view(proposals: StoredProposals, *, name: str) -> None:
    """Draw a list; `name` begins the names of the downloaded files."""
    table = proposals.table
    n_new = int((table["known"] == "no").sum())
    window = Window.parse(str(table["window"].iloc[0]))
    expected = float(table["p_window"].sum())
    st.markdown(
        f"**{words.count(n_new, 'new molecule')}** and {len(table) - n_new:,} known; "
        f"{expected:.1f} of them are expected to have a gap of {window.label}."
    )
    warning = str(proposals.description.get("warning", ""))
    frame.warn([warning])
    # The last one is what the list cannot know: the packing.
    notes = [str(note) for note in proposals.description.get("notes", ()) if note != warning]
    for note in notes[-1:]:
        st.caption(words.escaped(note))
    row = tables.pick(
        _with_drawings(proposals),
        alt="Proposed molecules, best first",
        columns=_COLUMNS,
        key=f"proposed-{proposals.folder.name}",
        rows=8,
    )
    with frame.row():
        downloads.csv_button("Download this list (CSV)", lambda: table, f"{name}.csv")
        downloads.file_button(
            "Molecules (extXYZ)",
            (proposals.folder / MOLECULES).read_bytes,
            f"{name}.extxyz",
        )
    with st.expander("How the list was made"):
        for note in notes[:-1]:
            st.caption(words.escaped(note))
    if row is not None:
        st.markdown(f"**{words.escaped(str(table['smiles'].iloc[row]))}**")
        draw_structure(
            proposals.folder / SHAPES,
            row,
            formula=str(table["formula"].iloc[row]),
            key=f"proposed-{proposals.folder.name}-{row}",
        )


def _with_drawings(proposals: StoredProposals) -> pd.DataFrame:
    """Return the columns of the table after the structural formulas; probabilities in per cent."""
    columns = proposals.table[[name for name in _COLUMNS if name in proposals.table]].copy()
    columns["p_window"] *= 100.0
    addresses = [
        "data:image/svg+xml;base64," + base64.b64encode(svg.encode()).decode()
        for svg in proposals.drawings
    ]
    return tables.with_pictures(columns, addresses)


_COLUMNS = {
    tables.PICTURE: st.column_config.ImageColumn(
        "formula", width=92, help="Double-click a formula to enlarge it."
    ),
    "rank": tables.column("rank"),
    "p_window": tables.column(
        "in the window", format="%.0f %%", help="Probability that the gap lies in the window."
    ),
    "mean_eV": tables.column("gap (eV)", format="%.2f", help=Quantity.MEAN.help),
    "smiles": tables.column("SMILES", 200),
    "known": tables.column("known", help="Among the molecules learned from."),
    "lower_eV": tables.column("from (eV)", format="%.2f", help=Quantity.LOWER.help),
    "upper_eV": tables.column("to (eV)", format="%.2f", help=Quantity.UPPER.help),
    "sa_score": tables.column(
        "synthesis (1-10)",
        format="%.1f",
        help="Score of synthetic accessibility, 1 easy to 10 difficult. No promise.",
    ),
}

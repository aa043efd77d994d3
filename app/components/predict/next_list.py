"""What to compute next: unlabelled structures ranked by the information of a label, with files."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import downloads, frame, tables, words
from app.components.shared.guide_links import help_link
from app.components.structures.pictures import picture_addresses
from bandgap.foundation.quantities import Quantity
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.next_inputs import next_zip, stored_structures
from bandgap.predictions.next_structures import (
    CHANCE,
    DISTANCE,
    IMPROVEMENT,
    MOST,
    REDUCTION,
    SD,
    Criterion,
    NextStructures,
    criteria,
    next_structures,
)
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window
from bandgap.structures.input_files import InputFormat

HELP: dict[Criterion, str] = {
    REDUCTION: "By how much the squared error of all these predictions is expected to fall once "
    "this structure has been computed.",
    SD: "Where the model is least sure of the gap itself.",
    DISTANCE: "What lies farthest from the structures that the run learned from.",
    CHANCE: "The probability that the gap lies in the target window.",
    IMPROVEMENT: "How far inside the target window the gap is expected to lie.",
}


@st.cache_resource(max_entries=16, show_spinner=False)
def ranked(
    prediction: str,
    _predictions: Predictions,
    _details: PredictionDetails,
    **options: Any,
) -> NextStructures:
    """Rank the unlabelled structures, by the options of `next_structures`.

    Predictions never change, so the id `prediction` is the key of the cache.
    """
    return next_structures(_predictions, _details, **options)


def next_view(
    predictions: Predictions,
    details: PredictionDetails,
    *,
    prediction: str,
    dataset: str,
    name: str,
    extxyz: Path | None,
    window: Window | None = None,
) -> None:
    """Draw the choice of criterion, number and spread, the ranking, and its downloads.

    The structures are those of a data set, for their pictures. `extxyz` is the file of the
    predicted structures, None if there is none; `name` begins the names of the downloads.
    """
    if not details.joint_rows.size:
        st.info(
            "Nothing to rank: the run learned from these structures, their gaps are known, or they "
            "were refused."
        )
        return
    offered = criteria(details, window)
    most = min(MOST, details.joint_rows.size)
    with frame.row("bottom"):
        criterion = st.selectbox(
            "Rank by",
            offered,
            key="next-criterion" if window is None else "next-criterion-window",
            width=260,
            help="\n\n".join(f"**{criterion}**: {HELP[criterion]}" for criterion in offered)
            + help_link("tutorials/on-the-pages", "What to compute next"),
        )
        count = st.number_input("How many", 1, most, min(10, most), key="next-count", width=120)
        spread = st.toggle("Spread out", value=True, help=_SPREAD_HELP)
    selection = ranked(
        prediction,
        predictions,
        details,
        criterion=criterion,
        count=int(count),
        spread=spread,
        window=window,
    )
    rows = selection.rows.tolist()
    n_warned = sum(bool(predictions.warning(row)) for row in rows)
    st.markdown(_sentence(selection, n_warned=n_warned))
    csv_table = pd.DataFrame(selection.columns(predictions, details))
    addresses = picture_addresses(dataset, rows + selection.not_ranked.tolist())
    tables.show(
        tables.with_pictures(_page_table(csv_table), addresses),
        alt="What to compute next, best first",
        columns=_COLUMNS,
        rows=8,
    )
    with frame.row():
        downloads.csv_button("Download this list (CSV)", lambda: csv_table, f"{name}.csv")
        if extxyz is not None and rows:
            for form in ("poscar", "cif"):
                _inputs_button(rows, predictions, extxyz, name=name, form=form)


def _inputs_button(
    rows: list[int], predictions: Predictions, extxyz: Path, *, name: str, form: InputFormat
) -> None:
    """Offer the ranked structures as a zip archive of input files."""
    downloads.file_button(
        f"Structures of this list ({form.upper()}, zip)",
        lambda: next_zip(
            stored_structures(extxyz, predictions, rows), predictions, rows, form=form
        ),
        f"{name}-{form}.zip",
        help=_INPUTS_HELP
        + help_link("tutorials/what-to-compute-next", "In a shell and in the dashboard"),
    )


def _page_table(csv_table: pd.DataFrame) -> pd.DataFrame:
    """Return the list for the page: chances in per cent, and warnings where there are any."""
    table = csv_table.assign(rank=csv_table["rank"].astype("Int64"))
    if not table["warning"].any():
        del table["warning"]
    if "p_window" in table:
        table["p_window"] *= 100.0
    return table


def _sentence(selection: NextStructures, *, n_warned: int) -> str:
    """Return what the list promises, and how many structures have no rank and why."""
    parts = [selection.window_sentence, selection.known_sentence]
    if n_warned:
        parts.append(f"{n_warned} of the {len(selection.rows)} have a warning: read the note.")
    if selection.ranking is not None:
        before = np.sqrt(selection.ranking.initial_variance)
        after = np.sqrt(selection.ranking.remaining_variance[-1])
        parts.insert(
            0,
            f"Computing {words.count(len(selection.rows), 'structure')} is expected to bring the "
            f"model's own uncertainty of the {selection.n_ranked:,} ranked from **{before:.2g} "
            f"eV** to **{after:.2g} eV** (root mean square).",
        )
    if n := selection.n_not_ranked:
        have = "has" if n == 1 else "have"
        parts.append(
            f"{words.count(n, 'structure')} {have} a warning on the content of the file and no "
            "rank; the reason is at the end of the table."
        )
    return " ".join(filter(None, parts))


_COLUMNS = tables.NAMES | {
    "rank": tables.column("rank", 50),
    "mean_eV": tables.column("gap (eV)", format="%.2f"),
    "reduction_share": tables.column(
        "less error (%)", format="%.1f", help="Share of the squared error of all that it removes."
    ),
    "p_window": tables.column("in window (%)", format="%.0f", help=Quantity.P_WINDOW.help),
    "depth_eV": tables.column(
        "depth (eV)", format="%.3f", help="Expected distance to the nearer end, inside the window."
    ),
    "nearest_known": tables.column("nearest known"),
    "warning": tables.column("note", "large"),
    "window": None,
    "level_of_theory": None,
    "ranked_by": None,
    "sd_eV": None,
    "nearest_distance": None,
    "file": None,
}
_INPUTS_HELP = (
    "A folder for each structure, named after its id. Compute there, and read the results by "
    "Read calculations on the page Data: the ids stay the same."
)
_SPREAD_HELP = (
    "On: each structure is chosen as if those above it had been computed already, so that near "
    "twins are not all chosen. Off: each is judged alone."
)

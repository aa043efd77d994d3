"""What to compute next: unlabelled structures ranked by the information of a label, with files."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from app.components.shared import downloads, tables, words
from app.components.shared.guide_links import help_link
from app.components.structures.pictures import picture_addresses
from bandgap.foundation.quantities import Quantity
from bandgap.jobs.rows import RunRow
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.next_inputs import next_zip, stored_structures
from bandgap.predictions.next_structures import (
    CHANCE,
    DISTANCE,
    IMPROVEMENT,
    MOST,
    REDUCTION,
    SD,
    WINDOW_CRITERIA,
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
    "this structure has been computed (Cohn, Ghahramani and Jordan, 1996). Measured against labels "
    "chosen at random: 7 % fewer labels for the same error on organic crystals, 23 % fewer on "
    "perovskites, no gain where most labels are metals.",
    SD: "Where the model is least sure of the gap itself, whether that helps elsewhere or not.",
    DISTANCE: "What lies farthest from the structures that the run learned from, whatever the "
    "model says.",
    CHANCE: "Which of these are the best bets: the probability that the gap lies in the target "
    "window. Spread out, each is the one that most raises the chance that at least one does.",
    IMPROVEMENT: "How far inside the target window the gap is expected to lie, counted from its "
    "nearer end and zero outside (the expected improvement of Jones, Schonlau and Welch, 1998, for "
    "a window). Spread out, it is that of the best of the list. Measured: two to three times as "
    "many gaps in the window as among random labels; on organic crystals the error of the model "
    "was larger.",
}


@dataclass(frozen=True, eq=False)
class NextList:
    """A ranking: the table, best first, its summary, and a note on structures without a rank.

    `rows` are the ranked rows of the predictions, best first; `table_rows` are those of the table,
    which also holds structures without a rank.
    """

    table: pd.DataFrame
    sentence: str
    not_ranked: str
    rows: tuple[int, ...]
    table_rows: tuple[int, ...]


@st.cache_resource(max_entries=16, show_spinner=False)
def next_list(
    prediction: str,
    _predictions: Predictions,
    _details: PredictionDetails,
    *,
    criterion: Criterion,
    count: int,
    spread: bool,
    window: Window | None = None,
) -> NextList:
    """Rank the unlabelled structures; with `spread` each as if those above it had been computed, or
    had missed the window.

    Predictions never change, so the id `prediction` is the key of the cache.
    """
    selection = next_structures(
        _predictions,
        _details,
        criterion=criterion,
        count=count,
        spread=spread,
        window=window,
    )
    return NextList(
        _table(selection, _predictions, _details),
        " ".join(filter(None, (_sentence(selection), selection.known_sentence))),
        _not_ranked(selection),
        tuple(selection.rows.tolist()),
        tuple(selection.rows.tolist() + selection.not_ranked.tolist()),
    )


def next_view(
    predictions: Predictions,
    details: PredictionDetails | None,
    *,
    run: RunRow,
    prediction: str,
    dataset: str,
    extxyz: Path | None,
    window: Window | None = None,
) -> None:
    """Draw the choice of criterion, number and spread, the ranking, and its downloads.

    The structures are those of a data set, for their pictures. `extxyz` is the file of the
    predicted structures, None if there is none.
    """
    if details is None:
        st.info("This prediction has no stored details. Predict the structures again to rank them.")
        return
    if not details.joint_rows.size:
        st.info(
            "Every structure here has a known gap or was refused: upload structures without gaps "
            "to rank them."
        )
        return
    offered = criteria(details, window)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        criterion = st.selectbox(
            "Rank by",
            offered,
            key="next-criterion" if window is None else "next-criterion-window",
            width=260,
            help=_CRITERIA_HELP + help_link("tutorials/what-to-compute-next", "Rank them"),
        )
        n_candidates = details.joint_rows.size
        count = int(
            st.number_input(
                "How many",
                1,
                min(MOST, n_candidates),
                min(10, n_candidates),
                key="next-count",
                width=120,
            )
        )
        spread = st.toggle(
            "Spread out",
            value=True,
            disabled=criterion == DISTANCE,
            help=_SPREAD_HELP + help_link("tutorials/what-to-compute-next", "Rank them"),
        )
    if REDUCTION not in offered:
        st.caption(_ONE_NETWORK)
    selection = next_list(
        prediction,
        predictions,
        details,
        criterion=criterion,
        count=count,
        spread=spread,
        window=window,
    )
    st.markdown(selection.sentence, width=720)
    if selection.not_ranked:
        st.warning(selection.not_ranked, icon=":material/warning:", width=720)
    table = tables.with_pictures(selection.table, picture_addresses(dataset, selection.table_rows))
    tables.show(table, alt="What to compute next, best first", columns=_columns(), rows=8)
    csv_table = selection.table.assign(ranked_by=criterion)
    if "p_window" in csv_table:
        csv_table["p_window"] /= 100.0
    name = f"compute-next-{run.id[:8]}"
    with st.container(horizontal=True, vertical_alignment="bottom"):
        downloads.csv_button("Download this list (CSV)", lambda: csv_table, f"{name}.csv")
        if extxyz is not None and selection.rows:
            _inputs_button(selection.rows, predictions, extxyz, name=f"{name}.zip")
    st.caption(HELP[criterion])


def _inputs_button(
    rows: tuple[int, ...], predictions: Predictions, extxyz: Path, *, name: str
) -> None:
    """Offer the ranked structures as a zip archive of input files."""
    form = st.segmented_control(
        "Files for the next batch",
        list(_FORMATS),
        default="POSCAR",
        required=True,
        key="next-format",
        help=_INPUTS_HELP
        + help_link("tutorials/what-to-compute-next", "In a shell and in the dashboard"),
    )
    accepted_form = _FORMATS[form or "POSCAR"]
    downloads.file_button(
        f"Structures of this list ({form}, zip)",
        lambda: next_zip(
            stored_structures(extxyz, predictions, rows), predictions, rows, form=accepted_form
        ),
        name,
    )


def _table(
    selection: NextStructures, predictions: Predictions, details: PredictionDetails
) -> pd.DataFrame:
    columns = selection.columns(predictions, details)
    if not selection.n_not_ranked:
        del columns["warning"]
    table = pd.DataFrame(columns)
    if "p_window" in table:
        table["p_window"] *= 100.0
    return table.assign(rank=table["rank"].astype("Int64"))


def _sentence(selection: NextStructures) -> str:
    if not selection.n_ranked:
        return "No structure can be ranked: the file of every one has a warning on its content."
    if selection.criterion in WINDOW_CRITERIA:
        return selection.window_sentence
    n_chosen = words.count(len(selection.rows), "structure")
    if selection.ranking is None:
        return f"The {n_chosen} farthest from the crystals that the run learned from."
    before = np.sqrt(selection.ranking.initial_variance)
    after = np.sqrt(selection.ranking.remaining_variance[-1])
    if selection.n_not_ranked:
        compared = f"the {words.count(selection.n_ranked, 'structure')} ranked"
    else:
        compared = (
            f"the {selection.n_ranked:,} unlabelled structures"
            if selection.n_ranked > 1
            else "the one without a gap"
        )
    return (
        f"Computing {'it' if len(selection.rows) == 1 else 'all ' + n_chosen} is expected to bring "
        f"the model's own uncertainty of {compared} from **{before:.2g} eV** to **{after:.2g} eV** "
        "(root mean square; noise not counted)."
    )


def _not_ranked(selection: NextStructures) -> str:
    if not selection.n_not_ranked:
        return ""
    have = "has" if selection.n_not_ranked == 1 else "have"
    where = "They are" if len(selection.not_ranked) > 1 else "It is"
    listed = f"The first {MOST} are" if selection.n_not_ranked > MOST else where
    return (
        f"{words.count(selection.n_not_ranked, 'structure')} {have} a warning on the content of "
        f"the file and no rank. {listed} at the end of the table, with the reason. Correct the "
        "files and predict again to rank them."
    )


def _columns() -> dict[str, Any]:
    return tables.columns(["id", "mean_eV", "sd_eV", "formula", "file"]) | {
        "rank": tables.column("rank", 50),
        "mean_eV": tables.column("gap (eV)", format="%.2f"),
        "sd_eV": tables.column("sd (eV)", format="%.2f", help=_SD_HELP),
        "reduction_share": tables.column("less error (%)", format="%.1f", help=_SHARE_HELP),
        "p_window": tables.column("in window (%)", format="%.0f", help=Quantity.P_WINDOW.help),
        "depth_eV": tables.column("depth (eV)", format="%.3f", help=_DEPTH_HELP),
        "nearest_known": tables.column("nearest known"),
        "warning": tables.column("why it has no rank", "large"),
        "nearest_distance": tables.column("distance to it", format="%.2g"),
    }


_FORMATS: dict[str, InputFormat] = {"POSCAR": "poscar", "CIF": "cif"}
_INPUTS_HELP = (
    "A folder for each structure, named after its id. Compute there, and read the results by "
    "Read calculations on the page Data: the ids stay the same."
)
_CRITERIA_HELP = "\n\n".join(f"**{name}**: {text}" for name, text in HELP.items())
_SPREAD_HELP = (
    "On: each structure is chosen as if those above it had been computed already (for a target "
    "window: had missed it), so that near twins are not all chosen. Off: each is judged alone."
)
_SHARE_HELP = (
    "Expected fall of the model's squared error over all unlabelled structures, in per cent of "
    "what it is now."
)
_DEPTH_HELP = (
    "Expected distance of the gap to the nearer end of the target window; zero outside of it."
)
_SD_HELP = "Standard deviation of a new gap; with Spread out, as if those above had been computed."
_ONE_NETWORK = (
    "This run has too few draws to know what a label would tell, so that only the distance and a "
    "target window can be ranked by. Bayesian transfer offers the expected reduction of error as "
    "well."
)

"""What to compute next: unlabelled structures ranked by what a label of each would tell, and the list as CSV."""

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import streamlit as st

from bandgap.jobs.rows import RunRow
from bandgap.predictions.acquisition import MIN_DRAWS, Ranking, joint_means, rank_by_reduction, rank_by_sd
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import Predictions
from components.shared import downloads, tables, words

Criterion = Literal["expected reduction of error", "standard deviation", "distance from known"]

MOST = 50
HELP: dict[Criterion, str] = {
    "expected reduction of error": "By how much the squared error of all these predictions is expected to fall once "
    "this structure has been computed (Cohn, Ghahramani and Jordan, 1996).",
    "standard deviation": "Where the model is least sure of the gap itself, whether that helps elsewhere or not.",
    "distance from known": "What lies farthest from the structures that the run learned from, whatever the model says.",
}


@dataclass(frozen=True, eq=False)
class NextList:
    """The table of chosen structures, best first, and the sentence that reads it."""

    table: pd.DataFrame
    sentence: str


def criteria(details: PredictionDetails) -> list[Criterion]:
    """Return what structures can be ranked by: a run with few draws knows nothing of what a label would tell."""
    every: tuple[Criterion, ...] = get_args(Criterion)
    return list(every) if details.means_eV.shape[0] >= MIN_DRAWS else [every[2]]


@st.cache_resource(max_entries=16, show_spinner=False)
def next_list(
    prediction: str,
    _predictions: Predictions,
    _details: PredictionDetails,
    *,
    criterion: Criterion,
    count: int,
    spread: bool,
) -> NextList:
    """Rank the unlabelled structures; with `spread` each as if those above it had been computed.

    A prediction never changes: its id is the key under which the list is kept.
    """
    predictions, details = _predictions, _details
    if criterion == "distance from known":
        order = details.kept[np.argsort(-details.distance[details.kept], kind="stable")][:count]
        sentence = f"The {words.count(len(order), 'structure')} farthest from the crystals that the run learned from."
        return NextList(_table(predictions, details, order), sentence)
    joint = joint_means(details.means_eV, details.noise_variance)
    if criterion == "standard deviation":
        ranking = rank_by_sd(joint, count, spread=spread)
        table = _table(predictions, details, details.kept[ranking.rows])
        return NextList(table.assign(sd_eV=ranking.scores) if spread else table, _sentence(ranking, len(joint)))
    ranking = rank_by_reduction(joint, count, spread=spread)
    share = 100.0 * ranking.scores / max(ranking.before, 1e-300)
    table = _table(predictions, details, details.kept[ranking.rows])
    table.insert(2, "reduction_share", share)
    return NextList(table, _sentence(ranking, len(joint)))


def next_view(predictions: Predictions, details: PredictionDetails | None, *, run: RunRow, prediction: str) -> None:
    """Let the visitor choose criterion, number and spread; show the list and offer it as CSV."""
    if details is None:
        st.info("This prediction was made by an older version. Predict once more to rank its structures.")
        return
    if not details.kept.size:
        st.info("Every structure here has a known gap or was refused: upload structures without gaps to rank them.")
        return
    offered = criteria(details)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        criterion = st.selectbox("Rank by", offered, key="next-criterion", width=260, help=_CRITERIA_HELP)
        count = int(st.number_input("How many", 1, min(MOST, details.kept.size), min(10, details.kept.size), width=120))
        spread = st.toggle("Spread out", value=True, disabled=criterion == "distance from known", help=_SPREAD_HELP)
    if len(offered) == 1:
        st.caption(_ONE_NETWORK)
    found = next_list(prediction, predictions, details, criterion=criterion, count=count, spread=spread)
    st.markdown(found.sentence, width=720)
    tables.show(found.table, alt="What to compute next, best first", columns=_columns())
    ranked, name = found.table.assign(ranked_by=criterion), f"compute-next-{run.id[:8]}.csv"
    downloads.csv_button("Download this list (CSV)", lambda: ranked, name)
    st.caption(HELP[criterion])


def _table(predictions: Predictions, details: PredictionDetails, rows: np.ndarray) -> pd.DataFrame:
    def texts(values: tuple[str, ...]) -> "pd.Series[str]":
        return pd.Series([values[i] for i in rows], dtype="str")

    return pd.DataFrame(
        {
            "rank": np.arange(1, len(rows) + 1),
            "id": texts(predictions.ids),
            "mean_eV": predictions.mean_eV[rows],
            "sd_eV": predictions.sd_new_eV[rows],
            "nearest_known": texts(details.nearest),
            "nearest_distance": details.distance[rows],
            "formula": texts(predictions.formulas),
            "file": texts(predictions.files),
        }
    )


def _sentence(ranking: Ranking, n: int) -> str:
    before, after = np.sqrt(ranking.before), np.sqrt(ranking.left[-1])
    chosen = words.count(len(ranking.rows), "structure")
    return (
        f"Computing {'it' if len(ranking.rows) == 1 else 'all ' + chosen} is expected to bring the model's own "
        f"uncertainty of {f'the {n:,} unlabelled structures' if n > 1 else 'the one without a gap'} from "
        f"**{before:.2g} eV** to **{after:.2g} eV** (root mean square; noise not counted)."
    )


def _columns() -> dict[str, Any]:
    return tables.columns(["id", "mean_eV", "sd_eV", "formula", "file"]) | {
        "rank": st.column_config.NumberColumn("rank", width=50),
        "mean_eV": st.column_config.NumberColumn("gap (eV)", format="%.2f"),
        "sd_eV": st.column_config.NumberColumn("sd (eV)", format="%.2f", help=_SD_HELP),
        "reduction_share": st.column_config.NumberColumn("less error (%)", format="%.1f", help=_SHARE_HELP),
        "nearest_known": st.column_config.TextColumn("nearest known"),
        "nearest_distance": st.column_config.NumberColumn("distance to it", format="%.2g"),
    }


_CRITERIA_HELP = "\n\n".join(f"**{name}**: {text}" for name, text in HELP.items())
_SPREAD_HELP = (
    "On: each structure is chosen as if those above it had been computed already, so that near twins are not all "
    "chosen. Off: each is judged alone."
)
_SHARE_HELP = (
    "Expected fall of the model's squared error over all unlabelled structures, in per cent of what it is now."
)
_SD_HELP = "Standard deviation of a new gap; with Spread out, as if those above had been computed."
_ONE_NETWORK = (
    "This run has too few draws to know what a label would tell, so that only the distance can be ranked by. Bayesian "
    "transfer offers the expected reduction of error as well."
)

"""The list of structures to compute next: ranked structures, then those without a rank and the
reason.

A structure whose file has a warning on its content (missing hydrogens, an inconsistent formula) is
not ranked. It is far from the training set because it is wrong, and computing its gap would be a
waste. A correct structure that is far from the training set (`Predictions.domain`) is ranked: it is
worth computing. Loads no torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError
from bandgap.predictions.acquisition import (
    MIN_DRAWS,
    Ranking,
    joint_means,
    rank_by_reduction,
    rank_by_sd,
)
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import Predictions
from bandgap.structures.ids import without_renaming

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Criterion = Literal["expected reduction of error", "standard deviation", "distance from known"]

REDUCTION: Final = "expected reduction of error"
SD: Final = "standard deviation"
DISTANCE: Final = "distance from known"
CRITERIA: tuple[Criterion, ...] = get_args(Criterion)
MOST = 50  # structures in a list, and in the list of those without a rank


@dataclass(frozen=True, eq=False)
class NextStructures:
    """Rows of the predictions to compute next, best first, and those that are not ranked.

    `reduction_percent` is the expected reduction of the squared error over all ranked structures,
    in per cent of its present value. `sd_eV` is the standard deviation of a new gap. `ranking` is
    None for the criterion distance.
    """

    criterion: Criterion
    rows: Rows  # (k,)
    sd_eV: Floats  # (k,)
    reduction_percent: Floats | None  # (k,), None for the other criteria
    ranking: Ranking | None
    n_ranked: int  # structures that were compared
    not_ranked: Rows  # (m,), in the order of the input, at most `MOST`
    n_not_ranked: int

    def columns(
        self, predictions: Predictions, details: PredictionDetails
    ) -> dict[str, Sequence[object] | Floats]:
        """Return the list by columns: the ranked rows, then those without a rank and with the
        reason.
        """
        rows = np.concatenate([self.rows, self.not_ranked])
        n_not_ranked = len(self.not_ranked)
        columns: dict[str, Sequence[object] | Floats] = {
            "rank": [*range(1, len(self.rows) + 1), *[None] * n_not_ranked],
            "id": [predictions.ids[row] for row in rows],
        }
        if self.reduction_percent is not None:
            no_reduction = np.full(n_not_ranked, np.nan)
            columns["reduction_share"] = np.concatenate([self.reduction_percent, no_reduction])
        return columns | {
            "mean_eV": predictions.mean_eV[rows],
            "sd_eV": np.concatenate([self.sd_eV, predictions.sd_new_eV[self.not_ranked]]),
            "nearest_known": [details.nearest[row] for row in rows],
            "nearest_distance": details.distance[rows],
            "formula": [predictions.formulas[row] for row in rows],
            "file": [predictions.files[row] for row in rows],
            "warning": [content_warning(predictions, row) for row in rows],
        }


def content_warning(predictions: Predictions, row: int) -> str:
    """Return the problems of a structure with its content, without a note that its id
    was changed.
    """
    return without_renaming(predictions.problem[row], predictions.ids[row])


def criteria(details: PredictionDetails) -> list[Criterion]:
    """Return the possible criteria; with fewer than `MIN_DRAWS` draws it is the distance alone."""
    return list(CRITERIA) if details.means_eV.shape[0] >= MIN_DRAWS else [DISTANCE]


def next_structures(
    predictions: Predictions,
    details: PredictionDetails,
    *,
    criterion: Criterion = REDUCTION,
    count: int = 10,
    spread: bool = True,
) -> NextStructures:
    """Rank the structures without a known gap.

    Structures with a warning on their content are left out of the ranking and of the error that it
    reduces.

    Parameters
    ----------
    predictions, details
        Predictions of n structures, and their details.
    criterion
        What the structures are ranked by.
    count
        Number of structures to rank.
    spread
        Whether each score is conditional on the labels of the structures ranked before it.

    Raises
    ------
    InputError
        For a criterion for which the prediction has too few draws.
    """
    if criterion not in criteria(details):
        raise InputError(
            f"{criterion}: this run has {details.means_eV.shape[0]} draws, at least {MIN_DRAWS} "
            f"are needed. Accepted: {DISTANCE}."
        )
    warnings = [content_warning(predictions, row) for row in details.joint_rows]
    has_warning = np.array([bool(text) for text in warnings], dtype=bool)
    candidates = details.joint_rows[~has_warning]
    not_ranked = details.joint_rows[has_warning]
    ranking = None
    reduction_percent = None
    if criterion == DISTANCE or not candidates.size:
        rows = candidates[np.argsort(-details.distance[candidates], kind="stable")][:count]
        sd = predictions.sd_new_eV[rows]
    else:
        joint = joint_means(details.means_eV[:, ~has_warning], details.noise_variance[~has_warning])
        rank = rank_by_reduction if criterion == REDUCTION else rank_by_sd
        ranking = rank(joint, count, spread=spread)
        rows = candidates[ranking.rows]
        sd = ranking.scores if criterion == SD and spread else predictions.sd_new_eV[rows]
        if criterion == REDUCTION:
            reduction_percent = (
                100.0 * ranking.scores / max(ranking.initial_variance, np.finfo(float).tiny)
            )
    return NextStructures(
        criterion,
        rows,
        sd,
        reduction_percent,
        ranking,
        n_ranked=int(candidates.size),
        not_ranked=not_ranked[:MOST],
        n_not_ranked=int(not_ranked.size),
    )

"""The list of structures to compute next: those with a sound file ranked, the others after them with the reason.

A structure whose file has a warning on its content (missing hydrogens, a formula that does not add up) is not ranked.
It is far from everything known because it is wrong, and computing it would be a waste. How far a sound structure is
from what the run learned from (`Predictions.domain`) is no such reason: that makes it worth computing. Loads no torch.
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
MOST = 50  # structures of a list, and of those that are not ranked


@dataclass(frozen=True, eq=False)
class NextStructures:
    """Rows of the predictions to compute next, best first, and those that are not ranked.

    `reduction_percent` is the expected fall of the squared error over all that were ranked, in per cent of what it is
    now, `sd_eV` the standard deviation of a new gap; `ranking` is None where the distance was ranked by.
    """

    criterion: Criterion
    rows: Rows  # (k,)
    sd_eV: Floats  # (k,)
    reduction_percent: Floats | None  # (k,), where the reduction was ranked by
    ranking: Ranking | None
    n_ranked: int  # structures that were compared
    not_ranked: Rows  # (m,), in the order of the input, at most `MOST`
    n_not_ranked: int

    def columns(self, predictions: Predictions, details: PredictionDetails) -> dict[str, Sequence[object] | Floats]:
        """Return the list by columns: the ranked rows, then the others, without a rank and with the reason."""
        rows, n_others = np.concatenate([self.rows, self.not_ranked]), len(self.not_ranked)
        found: dict[str, Sequence[object] | Floats] = {
            "rank": [*range(1, len(self.rows) + 1), *[None] * n_others],
            "id": [predictions.ids[row] for row in rows],
        }
        if self.reduction_percent is not None:
            found["reduction_share"] = np.concatenate([self.reduction_percent, np.full(n_others, np.nan)])
        return found | {
            "mean_eV": predictions.mean_eV[rows],
            "sd_eV": np.concatenate([self.sd_eV, predictions.sd_new_eV[self.not_ranked]]),
            "nearest_known": [details.nearest[row] for row in rows],
            "nearest_distance": details.distance[rows],
            "formula": [predictions.formulas[row] for row in rows],
            "file": [predictions.files[row] for row in rows],
            "warning": [content_warning(predictions, row) for row in rows],
        }


def content_warning(predictions: Predictions, row: int) -> str:
    """Return what the problem of a structure says of its content; that its id was given twice is none."""
    return without_renaming(predictions.problem[row], predictions.ids[row])


def criteria(details: PredictionDetails) -> list[Criterion]:
    """Return what structures can be ranked by: a run with few draws knows nothing of what a label would tell."""
    return list(CRITERIA) if details.means_eV.shape[0] >= MIN_DRAWS else [DISTANCE]


def next_structures(
    predictions: Predictions,
    details: PredictionDetails,
    *,
    criterion: Criterion = REDUCTION,
    count: int = 10,
    spread: bool = True,
) -> NextStructures:
    """Rank the structures without a known gap; with `spread` each as if those before it had been computed.

    Structures with a warning on their content are left out of the ranking and of the error that it lowers. Raises
    InputError for a criterion that the draws of the prediction cannot give.
    """
    if criterion not in criteria(details):
        raise InputError(
            f"{criterion}: this run has {details.means_eV.shape[0]} draws, at least {MIN_DRAWS} are needed. Accepted: "
            f"{DISTANCE}."
        )
    doubtful = np.array([bool(content_warning(predictions, row)) for row in details.kept], dtype=bool)
    sound, not_ranked = details.kept[~doubtful], details.kept[doubtful]
    ranking, reduction = None, None
    if criterion == DISTANCE or not sound.size:
        rows = sound[np.argsort(-details.distance[sound], kind="stable")][:count]
        sd = predictions.sd_new_eV[rows]
    else:
        joint = joint_means(details.means_eV[:, ~doubtful], details.noise_variance[~doubtful])
        ranking = (rank_by_reduction if criterion == REDUCTION else rank_by_sd)(joint, count, spread=spread)
        rows = sound[ranking.rows]
        sd = ranking.scores if criterion == SD and spread else predictions.sd_new_eV[rows]
        if criterion == REDUCTION:
            reduction = 100.0 * ranking.scores / max(ranking.before, np.finfo(float).tiny)
    return NextStructures(
        criterion, rows, sd, reduction, ranking, int(sound.size), not_ranked[:MOST], int(not_ranked.size)
    )

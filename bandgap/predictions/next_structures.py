"""The list of structures to compute next: ranked structures, then those without a rank and the
reason.

With a target window, structures can also be ranked by their chance to lie in it, or by the expected
improvement for it (`window_ranking`).

A structure whose file has a warning on its content (missing hydrogens, an inconsistent formula) is
not ranked. It is far from the training set because it is wrong, and computing its gap would be a
waste. A correct structure that is far from the training set (`Predictions.domain`) is ranked: it is
worth computing, also where its interval is therefore wider. Loads no torch.
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
    rank,
)
from bandgap.predictions.details import PredictionDetails
from bandgap.predictions.table import Predictions
from bandgap.predictions.window import Window
from bandgap.predictions.window_ranking import WindowRanking, rank_for_window, scaled_to
from bandgap.predictions.withholding import without_widening
from bandgap.structures.ids import without_renaming

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Criterion = Literal[
    "expected reduction of error",
    "standard deviation",
    "distance from known",
    "best chance of the window",
    "expected improvement for the window",
]

REDUCTION: Final = "expected reduction of error"
SD: Final = "standard deviation"
DISTANCE: Final = "distance from known"
CHANCE: Final = "best chance of the window"
IMPROVEMENT: Final = "expected improvement for the window"
WINDOW_CRITERIA: tuple[Criterion, ...] = (CHANCE, IMPROVEMENT)
CRITERIA: tuple[Criterion, ...] = tuple(
    criterion for criterion in get_args(Criterion) if criterion not in WINDOW_CRITERIA
)
MOST = 50  # structures in a list, and in the list of those without a rank


@dataclass(frozen=True, eq=False)
class NextStructures:
    """Rows of the predictions to compute next, best first, and those that are not ranked.

    `reduction_percent` is the expected reduction of the squared error over all ranked structures,
    in per cent of its present value. `sd_eV` is the standard deviation of a new gap. `ranking` is
    None for the criterion distance and those of a window. `p_window` is the probability that the
    gap lies in the window, None without a window. `window_ranking` is None unless structures were
    chosen for a window one after the other.
    """

    criterion: Criterion
    rows: Rows  # (k,)
    sd_eV: Floats  # (k,)
    reduction_percent: Floats | None  # (k,), None for the other criteria
    ranking: Ranking | None
    n_ranked: int  # structures that were compared
    not_ranked: Rows  # (m,), in the order of the input, at most `MOST`
    n_not_ranked: int
    window: Window | None = None
    p_window: Floats | None = None  # (k,)
    window_ranking: WindowRanking | None = None
    n_known: int = 0  # structures whose gap is known, which are not compared

    @property
    def known_sentence(self) -> str:
        """How many structures have no rank because their gap is known, "" for none."""
        if not self.n_known:
            return ""
        return (
            f"Without a rank, as the gap is known: {self.n_known:,}. The run learned from these"
            " structures or was tested on them, or the data set has their gaps."
        )

    @property
    def window_sentence(self) -> str:
        """What the list promises for the window, in words; "" without a window or a rank."""
        if self.window is None or self.p_window is None or not self.rows.size:
            return ""
        n = len(self.rows)
        share = f"{self.p_window.sum():.1f} of {n:,}" if n > 1 else f"{self.p_window[0]:.0%}"
        text = f"Expected in {self.window.label}: {share}."
        ranking = self.window_ranking
        if ranking is None or n < 2:
            return text
        if self.criterion == CHANCE:
            return f"{text} At least one of them: {_percent(ranking.totals[-1])}."
        return (
            f"{text} The best of them is expected to lie {ranking.totals[-1]:.2f} eV inside, of "
            f"{self.window.half_width_eV:.2f} eV at most."
        )

    def columns(
        self, predictions: Predictions, details: PredictionDetails
    ) -> dict[str, Sequence[object] | Floats]:
        """Return the list by columns: the ranked rows, then those without a rank.

        The warnings are those of file and domain, and the reason of what has no rank.
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
        if self.window is not None:
            columns["window"] = [str(self.window)] * len(rows)
            columns["p_window"] = predictions.window_probability(self.window)[rows]
            columns["depth_eV"] = predictions.window_depth_eV(self.window)[rows]
        return columns | {
            "mean_eV": predictions.mean_eV[rows],
            "sd_eV": np.concatenate([self.sd_eV, predictions.sd_new_eV[self.not_ranked]]),
            "nearest_known": [details.nearest[row] for row in rows],
            "nearest_distance": details.distance[rows],
            "formula": [predictions.formulas[row] for row in rows],
            "file": [predictions.files[row] for row in rows],
            "level_of_theory": [predictions.level_of_theory] * len(rows),
            "ranked_by": [self.criterion] * len(rows),
            "warning": [predictions.warning(row) for row in rows],
        }


def _percent(probability: float) -> str:
    """Return a probability in per cent, never rounded to certainty."""
    if probability > 0.999:
        return "more than 99.9 %"
    return f"{100 * probability:.1f} %" if probability > 0.99 else f"{100 * probability:.0f} %"


def content_warning(predictions: Predictions, row: int) -> str:
    """Return the problems of a structure with its content.

    A changed id and a wider interval are none.
    """
    return without_widening(without_renaming(predictions.problem[row], predictions.ids[row]))


def criteria(details: PredictionDetails, window: Window | None = None) -> list[Criterion]:
    """Return the possible criteria, those of a window first.

    With fewer than `MIN_DRAWS` draws only the distance and those of a window are possible.
    """
    of_window = [] if window is None else list(WINDOW_CRITERIA)
    has_joint_draws = details.means_eV.shape[0] >= MIN_DRAWS
    return of_window + (list(CRITERIA) if has_joint_draws else [DISTANCE])


def next_structures(
    predictions: Predictions,
    details: PredictionDetails,
    *,
    criterion: Criterion = REDUCTION,
    count: int = 10,
    spread: bool = True,
    window: Window | None = None,
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
        Whether each score is conditional on the labels of the structures ranked before it; for a
        window, on gaps outside it. With fewer than `MIN_DRAWS` draws each is judged alone.
    window
        Target window, which its two criteria need. The list then has its probabilities.

    Raises
    ------
    InputError
        For a criterion for which the prediction has too few draws, and for one of a window
        without a window.
    """
    if criterion in WINDOW_CRITERIA and window is None:
        raise InputError(f"{criterion}: no window is given. Give one, such as 1.3:1.7.")
    if criterion not in criteria(details, window):
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
    window_ranking = None
    if window is not None and criterion in WINDOW_CRITERIA and candidates.size:
        single_scores = (
            predictions.window_probability(window)
            if criterion == CHANCE
            else predictions.window_depth_eV(window)
        )[candidates]
        is_normal = predictions.p_metal is None
        if spread and details.means_eV.shape[0] >= MIN_DRAWS:
            means: NDArray[np.floating] = details.means_eV[:, ~has_warning]
            noise_variance = details.noise_variance[~has_warning]
            if is_normal:  # otherwise the quantiles below have the calibrated spread
                means, noise_variance = scaled_to(
                    means, noise_variance, predictions.sd_new_eV[candidates]
                )
            window_ranking = rank_for_window(
                means,
                noise_variance,
                window,
                goal="chance" if criterion == CHANCE else "improvement",
                single_scores=single_scores,
                count=count,
                quantiles_eV=None if is_normal else predictions.quantiles_new[:, candidates],
            )
            rows = candidates[window_ranking.rows]
        else:
            rows = candidates[np.argsort(-single_scores, kind="stable")][:count]
        sd = predictions.sd_new_eV[rows]
    elif criterion == DISTANCE or not candidates.size:
        rows = candidates[np.argsort(-details.distance[candidates], kind="stable")][:count]
        sd = predictions.sd_new_eV[rows]
    else:
        joint = joint_means(details.means_eV[:, ~has_warning], details.noise_variance[~has_warning])
        ranking = rank(joint, count, spread=spread, by_sd=criterion == SD)
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
        window=window,
        p_window=None if window is None else predictions.window_probability(window)[rows],
        window_ranking=window_ranking,
        n_known=int(details.labelled.sum()),
    )

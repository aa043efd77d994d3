"""What a posterior gives on structures: predictions, figures on known gaps, and diagnostics for the manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, elements_of
from bandgap.descriptors import Descriptors, MBTRConfig, similarity_features
from bandgap.evaluation.metrics import coverage, evaluate_predictions
from bandgap.inference import diagnostics
from bandgap.posterior import Posterior, PredictiveDraws
from bandgap.predictions.conformal import ConformalScores, scores_of
from bandgap.predictions.details import PredictionDetails, keep_jointly, noise_variances
from bandgap.predictions.domain import Domain, Judgement
from bandgap.predictions.mixtures import mixture_sd
from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.runs.stored import Run
from bandgap.structures import StructureRecord

RHAT_NAME = "predictions"
LEVEL = 0.95  # of the intervals whose coverage and width are measured
MIN_DRAWS = 4  # of every chain, below which R-hat cannot be computed
SUMMARIES = ("max", "min", "fit_max", "fit_median")  # figures over several quantities, not one of them

Floats = NDArray[np.float64]


def table_predictions(
    draws: PredictiveDraws,
    table: Table,
    *,
    descriptor: MBTRConfig,
    domain: Domain,
    level_of_theory: str,
    conformal: ConformalScores | None = None,
) -> Predictions:
    """Return the predictions of labelled rows from draws at their features."""
    judged = [
        judgement.text for judgement in domain.judge(similarity_features(table.features, descriptor), table.elements)
    ]
    fine = [r.status == "ready" and text == "ok" for r, text in zip(table.records, judged, strict=True)]
    return predictions_from_draws(
        draws.flat_means_eV,
        draws.sds_eV,
        centres=draws.centres_eV,
        ids=table.ids,
        files=[r.file for r in table.records],
        formulas=[r.formula for r in table.records],
        domain=judged,
        status=["ok" if good else "warning" for good in fine],
        problem=[r.problem for r in table.records],
        level_of_theory=level_of_theory,
        conformal=conformal,
    )


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """What a posterior says of records: places of the usable ones, draws at these, and the domain of all."""

    usable: NDArray[np.int64]  # (k,)
    draws: PredictiveDraws  # at the k usable ones
    judged: tuple[Judgement, ...]  # (n,)
    problems: tuple[str, ...]  # (n,)


def draw_records(run: Run, records: Sequence[StructureRecord], described: Descriptors) -> DrawnRecords:
    """Return the draws of a stored run at the records that have a descriptor, and how all stand to its domain."""
    found = described.problems
    usable = [i for i, p in enumerate(found) if p is None and records[i].status != "refused"]
    judged = run.domain.judge(
        similarity_features(described.features, run.descriptor), [elements_of(r) for r in records]
    )
    problems = (
        "; ".join(t for t in (r.problem, p.text if p else "") if t) for r, p in zip(records, found, strict=True)
    )
    draws = run.posterior.predictive_draws(described.features[usable])
    return DrawnRecords(np.array(usable, dtype=np.int64), draws, judged, tuple(problems))


def record_predictions(run: Run, records: Sequence[StructureRecord], drawn: DrawnRecords) -> Predictions:
    """Return the predictions of a stored run, one row for every record, refused ones with empty numbers."""
    draws, good = drawn.draws, set(drawn.usable.tolist())

    def scatter(values: Floats) -> Floats:
        full = np.full((values.shape[0], len(records)), np.nan)
        full[:, drawn.usable] = values
        return full

    fine = [r.status == "ready" and j.text == "ok" for r, j in zip(records, drawn.judged, strict=True)]
    return predictions_from_draws(
        scatter(draws.flat_means_eV),
        scatter(draws.sds_eV) if draws.sds_eV.ndim == 2 else draws.sds_eV,
        centres=scatter(draws.centres_eV),
        ids=[r.id for r in records],
        files=[r.file for r in records],
        formulas=[r.formula for r in records],
        domain=[j.text if i in good else "" for i, j in enumerate(drawn.judged)],
        status=["refused" if i not in good else "ok" if ready else "warning" for i, ready in enumerate(fine)],
        problem=drawn.problems,
        level_of_theory=run.manifest.get("level_of_theory", ""),
        conformal=run.conformal,
    )


def record_details(
    records: Sequence[StructureRecord], drawn: DrawnRecords, *, labelled: NDArray[np.bool_]
) -> PredictionDetails:
    """Return what pages show beside the predictions; `labelled` (n,) are the records whose gap is known."""
    n, good = len(records), np.zeros(len(records), dtype=bool)
    good[drawn.usable] = True
    open_ = ~labelled[drawn.usable]
    noise = noise_variances(drawn.draws.sds_eV, drawn.usable.size)
    kept, means, variances = keep_jointly(drawn.draws.flat_means_eV[:, open_], noise[open_], drawn.usable[open_])
    return PredictionDetails(
        nearest=tuple(j.nearest if good[i] else "" for i, j in enumerate(drawn.judged)),
        n_atoms=np.array([records[i].n_atoms if good[i] else 0 for i in range(n)], dtype=np.int64),
        distance=np.where(good, [j.distance for j in drawn.judged], np.nan),
        percentile=np.where(good, [j.percentile for j in drawn.judged], np.nan),
        labelled=labelled,
        kept=kept,
        means_eV=means,
        noise_variance=variances,
    )


def conformal_scores(posterior: Posterior, held_back: Table) -> ConformalScores:
    """Return the scores of labelled rows that the posterior has not seen."""
    draws = posterior.predictive_draws(held_back.features)
    mean, sd = draws.flat_means_eV.mean(axis=0), mixture_sd(draws.centres_eV, draws.sds_eV)
    return ConformalScores(tuple(held_back.ids), scores_of(held_back.gaps_eV, mean=mean, sd=sd))


def figures_of(draws: PredictiveDraws, predictions: Predictions, gaps: Floats) -> dict[str, float]:
    """Return errors, scores, coverage and width on known gaps (n,) in eV, also those of conformal intervals."""
    lower, upper = predictions.interval(LEVEL, "prediction")
    figures = evaluate_predictions(
        gaps, draws.centres_eV, sds=draws.sds_eV, lower=lower, upper=upper, point=predictions.mean_eV
    )
    return figures | conformal_figures(predictions.conformal, gaps, mean=predictions.mean_eV, sd=predictions.sd_new_eV)


def conformal_figures(scores: ConformalScores | None, gaps: Floats, *, mean: Floats, sd: Floats) -> dict[str, float]:
    """Return coverage and mean width (eV) of conformal intervals on known gaps (n,); none where there are no intervals.

    `mean` and `sd` (n,) are those of the predictions.
    """
    if scores is None or not scores.reaches(LEVEL):
        return {}
    lower, upper = scores.interval(LEVEL, mean=mean, sd=sd)
    return {
        "coverage_conformal_95": coverage(gaps, lower, upper=upper),
        "width_conformal_95_eV": float(np.mean(upper - lower)),
    }


def prediction_rhat(means: Floats, *, members: int) -> dict[str, float]:
    """Return the worst R-hat and the fewest effective draws of means (chain, draw, n), compared within members."""
    if means.shape[0] < 2 * members or means.shape[1] < MIN_DRAWS:
        return {}
    parts = np.split(means, members)
    return {
        f"rhat_{RHAT_NAME}": max(float(diagnostics.rhat(part).max()) for part in parts),
        f"ess_{RHAT_NAME}": min(float(diagnostics.ess_bulk(part).min()) for part in parts),
    }


def grouped_diagnostics(posterior: Posterior, rhat: Mapping[str, float], *, warnings: Sequence[str]) -> dict[str, Any]:
    """Return flat figures, the same grouped by statistic and name for pages, and the run's warnings."""
    flat = {**posterior.diagnostics.figures, **rhat}
    if "rhat_max" in flat and rhat:
        flat["rhat_max"] = max(flat["rhat_max"], rhat[f"rhat_{RHAT_NAME}"])
        flat["ess_min"] = min(flat["ess_min"], rhat[f"ess_{RHAT_NAME}"])
    groups = {
        prefix: {
            name.removeprefix(f"{prefix}_"): value
            for name, value in flat.items()
            if name.startswith(f"{prefix}_") and name.removeprefix(f"{prefix}_") not in SUMMARIES
        }
        for prefix in ("rhat", "ess")
    }
    c = posterior.summaries().get("c")
    extra: dict[str, Any] = {} if c is None else {"c_mean": c.mean((0, 1)).tolist(), "c_sd": c.std((0, 1)).tolist()}
    return {**flat, **extra, **groups, "warnings": list(warnings)}

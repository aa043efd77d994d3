"""Results on labelled rows: predictions, scores, and diagnostics for the manifest."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table
from bandgap.descriptors import DescriptorConfig
from bandgap.evaluation.gap_scores import gap_figures
from bandgap.evaluation.metrics import coverage
from bandgap.inference import diagnostics
from bandgap.inference.prior_comparison import PriorComparison, compare_with_prior
from bandgap.posterior import Posterior, PredictiveDraws
from bandgap.posterior.remoteness import FAR, far_shares
from bandgap.predictions.conformal import ConformalScores, scores_of
from bandgap.predictions.domain import Domain
from bandgap.predictions.mixtures import mixture_sd
from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.runs.run_domain import judge_rows

RHAT_NAME = "predictions"
LEVEL = 0.95  # of the intervals whose coverage and width are measured
MIN_DRAWS = 4  # draws of every chain that R-hat needs
N_TRACED = 3  # structures whose predictions are stored draw by draw
SUMMARIES = ("max", "min", "fit_max", "fit_median")  # figures over several quantities

# Name: whether its trace is a logarithm.
RECORDED_SCALES = {
    "tau": True,
    "x": True,
    "length": False,
    "spread": False,
}
SCALE_LABELS = {"length": "length of the kernel", "spread": "spread of the process"}

Floats = NDArray[np.float64]


def table_predictions(
    draws: PredictiveDraws,
    table: Table,
    *,
    descriptor: DescriptorConfig,
    domain: Domain,
    level_of_theory: str,
    conformal: ConformalScores | None = None,
) -> Predictions:
    """Return the predictions of labelled rows from draws at their features."""
    judgements = judge_rows(
        domain, table.features, table.elements, descriptor=descriptor, baseline_eV=table.baseline_eV
    )
    domain_texts = [judgement.text for judgement in judgements]
    is_ok = [
        record.status == "ready" and text == "ok"
        for record, text in zip(table.records, domain_texts, strict=True)
    ]
    return predictions_from_draws(
        draws.flat_means_eV,
        draws.sds_eV,
        centres=draws.centres_eV,
        ids=table.ids,
        files=[r.file for r in table.records],
        formulas=[r.formula for r in table.records],
        domain=domain_texts,
        status=["ok" if ok else "warning" for ok in is_ok],
        problem=[r.problem for r in table.records],
        level_of_theory=level_of_theory,
        conformal=conformal,
        p_metal=draws.p_metal,
        domain_p=np.array([judgement.p for judgement in judgements]),
    )


def conformal_scores(posterior: Posterior, held_back: Table) -> ConformalScores:
    """Return the conformal scores of labelled rows that were not used for the posterior."""
    mean, sd = mean_and_sd(posterior.predictive_draws(held_back.inputs))
    return ConformalScores(tuple(held_back.ids), scores_of(held_back.gaps_eV, mean=mean, sd=sd))


def mean_and_sd(draws: PredictiveDraws) -> tuple[Floats, Floats]:
    """Return mean and standard deviation (n,) in eV of a new observation.

    They are those of the columns of the predictions: without metals not cut at zero.
    """
    mean = draws.flat_means_eV.mean(axis=0)
    if draws.p_metal is None:
        return mean, mixture_sd(draws.centres_eV, draws.sds_eV)
    return mean, draws.gaps.sd_eV()


def figures_of(draws: PredictiveDraws, predictions: Predictions, gaps: Floats) -> dict[str, float]:
    """Return errors, scores, coverage and width of all intervals on known gaps (n,) in eV."""
    lower, upper = predictions.interval(LEVEL, "prediction")
    figures = gap_figures(gaps, draws.gaps, lower=lower, upper=upper, point=predictions.mean_eV)
    return figures | conformal_figures(
        predictions.conformal, gaps, mean=predictions.mean_eV, sd=predictions.sd_new_eV
    )


def conformal_figures(
    scores: ConformalScores | None, gaps: Floats, *, mean: Floats, sd: Floats
) -> dict[str, float]:
    """Return coverage and mean width (eV) of conformal intervals on known gaps (n,) in eV.

    `mean` and `sd` (n,) are those of the predictions. The result is empty without scores, or with
    too few.
    """
    if scores is None or not scores.reaches(LEVEL):
        return {}
    lower, upper = (np.maximum(ends, 0.0) for ends in scores.interval(LEVEL, mean=mean, sd=sd))
    return {
        "coverage_conformal_95": coverage(gaps, lower, upper=upper),
        "width_conformal_95_eV": float(np.mean(upper - lower)),
    }


def prediction_chains(
    means: Floats, ids: Sequence[str], *, members: int
) -> tuple[dict[str, float], dict[str, Floats]]:
    """Return how well chains agree on means (chain, draw, n) of structures, and the worst traces.

    The figures are the largest R-hat and the smallest bulk ESS by member, the traces (chain, draw)
    those of the structures with the largest R-hat. Both are empty for too few chains or draws.
    """
    if means.shape[0] < 2 * members or means.shape[1] < MIN_DRAWS:
        return {}, {}
    means_by_member = np.split(means, members)
    rhat = np.max([diagnostics.rhat(draws) for draws in means_by_member], 0)
    ess = min(float(diagnostics.ess_bulk(draws).min()) for draws in means_by_member)
    figures = {f"rhat_{RHAT_NAME}": float(rhat.max()), f"ess_{RHAT_NAME}": ess}
    worst = np.argsort(-rhat)[:N_TRACED]
    return figures, {f"trace.gap of {ids[row]} (eV)": means[..., row] for row in worst}


def prior_comparisons(posterior: Posterior) -> list[PriorComparison]:
    """Return the difference between posterior and prior of every scale with draws of both.

    A mixture has a posterior and a prior for each network; the result is that of the largest
    difference.
    """
    record = posterior.diagnostics.record
    members = posterior.n_members
    comparisons = []
    for name, (draws, prior) in _scales_with_priors(record).items():
        if len(draws) % members or len(prior) != members:
            continue
        by_member = [
            compare_with_prior(SCALE_LABELS.get(name, name), member_draws, prior[i])
            for i, member_draws in enumerate(np.split(draws, members))
        ]
        valid = [comparison for comparison in by_member if comparison is not None]
        if len(valid) == members:
            comparisons.append(
                max(valid, key=lambda comparison: comparison.distance - comparison.error)
            )
    return comparisons


def _scales_with_priors(record: Mapping[str, Floats]) -> dict[str, tuple[Floats, Floats]]:
    """Return posterior draws (chain, draw) and prior draws (member, k) by scale.

    Both are on the scale of the trace.
    """
    scales = {}
    for name, is_log in RECORDED_SCALES.items():
        if f"trace.{name}" in record and f"prior.{name}" in record:
            prior = np.asarray(record[f"prior.{name}"], dtype=np.float64)
            scales[name] = (record[f"trace.{name}"], _log(prior) if is_log else prior)
    if "prior.c" in record and "prior.tau" in record:  # one scale for each layer
        layer_scales = record["prior.tau"][..., None] * record["prior.c"]
        for layer in range(layer_scales.shape[-1]):
            if (trace := record.get(f"trace.tau{layer + 1}")) is not None:
                scales[f"tau of layer {layer + 1}"] = (trace, _log(layer_scales[..., layer]))
    return scales


def _log(values: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # a scale below the smallest number
        return np.asarray(np.log(values), dtype=np.float64)


def far_figures(posterior: Posterior, inputs: NDArray[np.floating[Any]]) -> dict[str, float]:
    """Return the share of held-out rows far from the training rows.

    It is empty for posteriors that do not measure this.
    """
    shares = far_shares(posterior, inputs)
    return {} if shares is None else {"far_share": float(np.mean(shares > FAR))}


def grouped_diagnostics(
    posterior: Posterior,
    rhat: Mapping[str, float],
    *,
    far: Mapping[str, float],
    warnings: Sequence[str],
) -> dict[str, Any]:
    """Return the diagnostics of a run: all figures, grouped by statistic and name, and warnings.

    The entry "scales" contains the difference between posterior and prior of every scale.
    """
    flat = {**posterior.diagnostics.figures, **rhat, **far}
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
    extra: dict[str, Any] = (
        {} if c is None else {"c_mean": c.mean((0, 1)).tolist(), "c_sd": c.std((0, 1)).tolist()}
    )
    scales = [
        {**vars(comparison), "equals_prior": comparison.equals_prior}
        for comparison in prior_comparisons(posterior)
    ]
    return {**flat, **extra, **groups, "scales": scales, "warnings": list(warnings)}

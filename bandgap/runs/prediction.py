"""The prediction of new structures by a stored run: one row for every record."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import elements_of, with_baseline_column
from bandgap.descriptors import Descriptors, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.calibrators import Calibrator, load_calibrator
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.posterior.together import draws_together
from bandgap.predictions.conformal import available, conformal_quantile
from bandgap.predictions.details import PredictionDetails, keep_jointly, noise_variances
from bandgap.predictions.domain import Judgement
from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.runs.requests import PredictRequest
from bandgap.runs.run_domain import judge_rows
from bandgap.runs.stored import Run, load_run
from bandgap.structures import StructureRecord

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """What a posterior says of records: places of the usable ones, draws at these, and the domain of all."""

    usable: NDArray[np.int64]  # (k,)
    draws: PredictiveDraws  # at the k usable ones
    judged: tuple[Judgement, ...]  # (n,)
    problems: tuple[str, ...]  # (n,)


def predict_run(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    request: PredictRequest | None = None,
    *,
    baseline_eV: Floats | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Predictions:
    """Predict the gaps of new structures with a stored run.

    Parameters
    ----------
    model_folder
        Folder that `transfer_run` wrote.
    records
        Structures to predict, n of them.
    request
        Kind and probability of the intervals. They are checked here; the result has every kind and probability.
    baseline_eV
        Baseline (n,) in eV of every structure, NaN for none, if the run was trained with one. Structures without it
        are refused.
    cache
        Cache of descriptors on disk.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Predictions
        One row for each record; refused structures have empty numbers.

    Raises
    ------
    ConfigError, InputError
        When the run gives no interval of this kind and probability, when a baseline is missing, and when one is given
        to a run that was trained without.
    """
    request = request or PredictRequest()
    run, calibrator = load_for(model_folder, request)
    drawn = _drawn(run, records, baseline_eV, cache=cache, n_jobs=request.n_jobs, progress=progress)
    predictions = record_predictions(run, records, drawn)
    return predictions if calibrator is None else calibrator.apply(predictions)


def predict_with_details(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    *,
    baseline_eV: Floats | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> tuple[Predictions, PredictionDetails]:
    """Predict structures without known gaps, as trained, with what `next_structures` ranks them by.

    A run with a baseline needs that of every record, `baseline_eV` (n,). Raises InputError as `predict_run` does.
    """
    run = load_run(model_folder)
    drawn = _drawn(run, records, baseline_eV, cache=cache, n_jobs=1, progress=progress)
    details = record_details(records, drawn, labelled=np.zeros(len(records), dtype=bool))
    return record_predictions(run, records, drawn), details


def load_for(model_folder: Path | str, request: PredictRequest) -> tuple[Run, Calibrator | None]:
    """Return a stored run with its calibrator; raises ConfigError or InputError as `predict_run` does."""
    run = load_run(model_folder)
    calibrator = load_calibrator(Path(model_folder)) if request.calibrated else None
    if request.interval == "conformal":
        scores = run.conformal if calibrator is None else calibrator.conformal or run.conformal
        conformal_quantile(available(scores).scores, request.probability)
    return run, calibrator


def _drawn(
    run: Run,
    records: Sequence[StructureRecord],
    baseline_eV: Floats | None,
    *,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> DrawnRecords:
    check_baseline(run, len(records), baseline_eV)
    described = featurize(list(records), run.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    progress(Update("predicting", 0, len(records)))
    drawn = draw_records(run, records, described, baseline_eV=baseline_eV)
    progress(Update("predicting", len(records), len(records)))
    return drawn


def check_baseline(run: Run, n: int, baseline_eV: Floats | None) -> None:
    """Raise InputError where a run needs a baseline (n,) and has another or none, or has one and needs none."""
    if run.baseline and (baseline_eV is None or baseline_eV.shape != (n,)):
        found = "None is given" if baseline_eV is None else f"Given: {baseline_eV.shape}"
        raise InputError(
            f"This run corrects {run.baseline!r} of every structure, so a prediction needs it, in eV, of {n} "
            f"structures (NaN: none). {found}: name its table (`bandgap predict --baselines CSV`), or give extXYZ "
            "files that have it under this key."
        )
    if baseline_eV is not None and not run.baseline:
        raise InputError("A baseline is given, but this run was trained without one. Leave it out.")


def draw_records(
    run: Run, records: Sequence[StructureRecord], described: Descriptors, *, baseline_eV: Floats | None = None
) -> DrawnRecords:
    """Return the draws of a stored run at the records that have a descriptor, and how all stand to its domain.

    With a baseline (n,) those without it are refused.
    """
    (found,) = draw_requests(run, [(records, described, baseline_eV)])
    return found


Request = tuple[Sequence[StructureRecord], Descriptors, Floats | None]  # as `draw_records` takes them


def draw_requests(run: Run, requests: Sequence[Request]) -> list[DrawnRecords]:
    """Return what `draw_records` does of every request, bit for bit; they share the passes through the draws."""
    judged = [_judged(run, *request) for request in requests]
    draws = draws_together(run.posterior, [inputs for inputs, *_ in judged])
    return [
        DrawnRecords(usable, own, domain, problems)
        for (_, usable, domain, problems), own in zip(judged, draws, strict=True)
    ]


def _judged(
    run: Run, records: Sequence[StructureRecord], described: Descriptors, baseline_eV: Floats | None
) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64], tuple[Judgement, ...], tuple[str, ...]]:
    """Return the inputs (k, p) of usable records, their places (k,), the domain of all, and what is wrong with each."""
    found = [p.text if p else "" for p in described.problems]
    if baseline_eV is not None:
        lacking = f"has no {run.baseline}, which this run needs"
        known = np.isfinite(baseline_eV)
        found = [t if k else "; ".join(filter(None, (t, lacking))) for t, k in zip(found, known, strict=True)]
    usable = [i for i, p in enumerate(found) if not p and records[i].status != "refused"]
    judged = judge_rows(
        run.domain,
        described.features,
        [elements_of(r) for r in records],
        descriptor=run.descriptor,
        baseline_eV=baseline_eV,
    )
    problems = ("; ".join(t for t in (r.problem, p) if t) for r, p in zip(records, found, strict=True))
    inputs = with_baseline_column(described.features, baseline_eV)
    return inputs[usable], np.array(usable, dtype=np.int64), judged, tuple(problems)


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

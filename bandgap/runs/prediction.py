"""Prediction of new structures by a stored run, with one row for every record."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bandgap.datasets.table import elements_of, with_baseline_column
from bandgap.descriptors import Descriptors, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.arguments import as_numbers, check_type
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.conformal import available, conformal_quantile
from bandgap.predictions.domain import Judgement
from bandgap.predictions.table import Predictions, predictions_from_draws
from bandgap.runs.requests import PredictRequest
from bandgap.runs.run_domain import judge_rows
from bandgap.runs.stored import Run, load_run
from bandgap.storage.manifests import CALIBRATOR
from bandgap.structures import StructureRecord, as_records

if TYPE_CHECKING:
    # Imported when a run has a calibrator, and when details are asked for.
    from bandgap.evaluation.calibrators import Calibrator
    from bandgap.predictions.details import PredictionDetails

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class DrawnRecords:
    """Predictive draws at the usable ones of n records, and judgements and problems of all."""

    usable: NDArray[np.int64]  # (k,) rows of the usable records
    draws: PredictiveDraws  # at the k usable records
    judgements: tuple[Judgement, ...]  # (n,)
    problems: tuple[str, ...]  # (n,), "" for none
    known_numbers: NDArray[np.int64]  # (n,) number of each in the run's known structures, or -1


@checked_keywords(PredictRequest)
def predict_run(
    model_folder: Path | str,
    structures: object,
    request: PredictRequest | None = None,
    *,
    baseline_eV: ArrayLike | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Predictions:
    """Predict the gaps of new structures with a stored run.

    Parameters
    ----------
    model_folder
        Folder that `transfer_run` wrote.
    structures
        Structures to predict, one or several: `ase.Atoms`, pymatgen `Structure` or `Molecule`,
        paths, or records (see `as_records`).
    request
        Kind and probability of the intervals. They are checked here; the result gives intervals of
        every kind and probability.
    baseline_eV
        Baseline of every structure, (n,), in eV, NaN for none, if the run was trained with one.
        Structures without it are refused.
    cache
        Cache of descriptors on disk.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Predictions
        One row for each of the n structures; refused structures have empty numbers.

    Raises
    ------
    ArtifactError
        When the folder contains no run, or a damaged one.
    ConfigError, InputError
        For structures of another kind. When the run has no interval of this kind and probability,
        when a baseline is missing, and when one is given to a run that was trained without.
    """
    request = check_type(request or PredictRequest(), PredictRequest, name="request")
    run, calibrator = load_for(model_folder, request)
    records = as_records(structures)
    if request.features or run.descriptor.user_features is not None:
        from bandgap.datasets.own_features import with_run_features

        records = with_run_features(records, request.features, run.descriptor.user_features)
    baseline = None if baseline_eV is None else as_numbers(baseline_eV, name="baseline_eV")
    predictions, _ = predict_records(
        run, records, baseline_eV=baseline, cache=cache, n_jobs=request.n_jobs, progress=progress
    )
    return as_requested(predictions, calibrator, request)


def predict_records(
    run: Run,
    records: Sequence[StructureRecord],
    *,
    baseline_eV: Floats | None = None,
    labelled: NDArray[np.bool_] | None = None,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> "tuple[Predictions, PredictionDetails | None]":
    """Return the predictions of a loaded run, without calibrator.

    If `labelled` (n,) says which records have a known gap, their details follow. Other parameters
    and errors are those of `predict_run`.
    """
    check_baseline(run, len(records), baseline_eV)
    described = describe_new(run, records, cache=cache, n_jobs=n_jobs, progress=progress)
    progress(Update("predicting", 0, len(records)))
    (drawn,) = draw_requests(run, [(records, described, baseline_eV)])
    progress(Update("predicting", len(records), len(records)))
    predictions = record_predictions(run, records, drawn)
    predictions = _with_substitute(run, records, predictions, cache=cache)
    if labelled is None:
        return predictions, None
    return predictions, record_details(run, records, drawn, labelled=labelled)


def _with_substitute(
    run: Run,
    records: Sequence[StructureRecord],
    predictions: Predictions,
    *,
    cache: DescriptorCache | None,
) -> Predictions:
    """Return predictions in which the substitute of a shipped model fills refused rows.

    These are structures that the model cannot describe. They have a warning with its error.
    """
    name = (run.manifest.get("about") or {}).get("substitute", "")
    rows = [
        i
        for i, record in enumerate(records)
        if predictions.status[i] == "refused" and record.status != "refused"
    ]
    if not name or not rows:
        return predictions
    from bandgap.runs.substitute import filled, substitute_of

    other = substitute_of(name)
    replacing, _ = predict_records(other, [records[i] for i in rows], cache=cache)
    rmse_eV = other.manifest["about"]["rmse_eV"]
    sentence = f"predicted by {name}, with an RMSE of {rmse_eV:.2f} eV"
    return filled(predictions, rows, replacing, sentence=sentence)


def predict_with_details(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    *,
    baseline_eV: Floats | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> tuple[Predictions, "PredictionDetails"]:
    """Predict structures as `predict_run`, and return the details for `next_structures` too.

    The gaps of the structures are not known. Details are those of the model without a calibrator.

    Parameters and errors are those of `predict_run`.
    """
    run, calibrator = load_for(model_folder, PredictRequest())
    predictions, details = predict_records(
        run,
        records,
        baseline_eV=baseline_eV,
        labelled=np.zeros(len(records), dtype=bool),
        cache=cache,
        progress=progress,
    )
    assert details is not None  # as `labelled` is given
    return as_requested(predictions, calibrator, PredictRequest()), details


def as_requested(
    predictions: Predictions, calibrator: "Calibrator | None", request: PredictRequest
) -> Predictions:
    """Return calibrated predictions with the intervals that the request widens and withholds."""
    if calibrator is not None:
        predictions = calibrator.apply(predictions)
    return request.interval_changes.apply(predictions)


def load_for(model_folder: Path | str, request: PredictRequest) -> tuple[Run, "Calibrator | None"]:
    """Return a stored run and its calibrator.

    Raises ConfigError or InputError as `predict_run` does.
    """
    run = load_run(model_folder)
    calibrator = stored_calibrator(run.folder) if request.calibrated else None
    if request.interval == "conformal":
        scores = run.conformal if calibrator is None else calibrator.conformal or run.conformal
        conformal_quantile(available(scores).scores, request.probability)
    return run, calibrator


def stored_calibrator(model_folder: Path) -> "Calibrator | None":
    """Return the calibrator of a run, or None; raise ArtifactError where it is damaged."""
    if not (model_folder / CALIBRATOR).is_file():
        return None
    from bandgap.evaluation.calibrators import load_calibrator

    return load_calibrator(model_folder)


def check_baseline(run: Run, n: int, baseline_eV: Floats | None) -> None:
    """Raise InputError unless a baseline (n,) is given exactly when the run needs one."""
    if run.baseline and (baseline_eV is None or baseline_eV.shape != (n,)):
        actual = "None is given" if baseline_eV is None else f"Given: {baseline_eV.shape}"
        raise InputError(
            f"This run corrects {run.baseline!r} of every structure, so a prediction needs it, in "
            f"eV, of {n} structures (NaN: none). {actual}: name its table, "
            "`bandgap predict --baselines CSV` (on the page Predict, below the files), or give "
            "extXYZ files that have it under this key."
        )
    if baseline_eV is not None and not run.baseline:
        raise InputError("A baseline is given, but this run was trained without one. Leave it out.")


# Records, their descriptors, and the baseline (n,) of a run that has one.
Request = tuple[Sequence[StructureRecord], Descriptors, Floats | None]


def draw_requests(run: Run, requests: Sequence[Request]) -> list[DrawnRecords]:
    """Return the predictive draws of a stored run at the records that have a descriptor.

    The result also says whether each record is inside the run's domain. With a baseline, records
    without it are refused. All requests share one pass through the draws, which changes a
    prediction by less than 1e-6 eV.
    """
    if not requests:
        return []
    prepared = [_inputs_and_judgements(run, *request) for request in requests]
    all_draws = run.posterior.predictive_draws(np.concatenate([inputs for inputs, *_ in prepared]))
    ends = np.cumsum([0, *(len(inputs) for inputs, *_ in prepared)]).tolist()
    draws_by_request = [all_draws.of_rows(slice(*pair)) for pair in itertools.pairwise(ends)]
    return [
        DrawnRecords(
            usable,
            draws,
            judgements,
            problems,
            run.known_structures.distances.copied(records),
        )
        for (records, *_), (_, usable, judgements, problems), draws in zip(
            requests, prepared, draws_by_request, strict=True
        )
    ]


def _inputs_and_judgements(
    run: Run, records: Sequence[StructureRecord], described: Descriptors, baseline_eV: Floats | None
) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64], tuple[Judgement, ...], tuple[str, ...]]:
    """Return inputs (k, p) and rows (k,) of usable records, and judgements and problems of all."""
    described_problems = [problem.text if problem else "" for problem in described.problems]
    if baseline_eV is not None:
        no_baseline = f"has no {run.baseline}, which this run needs"
        described_problems = [
            text if has_baseline else "; ".join(filter(None, (text, no_baseline)))
            for text, has_baseline in zip(described_problems, np.isfinite(baseline_eV), strict=True)
        ]
    usable = [
        i
        for i, text in enumerate(described_problems)
        if not text and records[i].status != "refused"
    ]
    judgements = judge_rows(
        run.domain,
        described.features,
        [elements_of(r) for r in records],
        descriptor=run.descriptor,
        baseline_eV=baseline_eV,
    )
    problems = [
        "; ".join(text for text in (record.problem, described_problem) if text)
        for record, described_problem in zip(records, described_problems, strict=True)
    ]
    inputs = with_baseline_column(described.features, baseline_eV)
    return inputs[usable], np.array(usable, dtype=np.int64), judgements, tuple(problems)


def record_predictions(
    run: Run,
    records: Sequence[StructureRecord],
    drawn: DrawnRecords,
    *,
    level: float | None = None,
) -> Predictions:
    """Return the predictions of a stored run; refused records have a row with empty numbers.

    `level` is the only one at which intervals are needed, None for all. Intervals of structures
    that are described in part are wider (`runs.new_structures`).
    """
    draws = drawn.draws
    usable = set(drawn.usable.tolist())
    learned = [run.known_structures.sentence(number) for number in drawn.known_numbers]
    is_ok = [
        record.status == "ready" and judgement.text == "ok" and not text
        for record, judgement, text in zip(records, drawn.judgements, learned, strict=True)
    ]
    predictions = predictions_from_draws(
        draws.flat_means_eV,
        draws.sds_eV,
        centres=draws.centres_eV,
        ids=[r.id for r in records],
        files=[r.file for r in records],
        formulas=[r.formula for r in records],
        domain=[j.text if i in usable else "" for i, j in enumerate(drawn.judgements)],
        status=[
            "refused" if i not in usable else "ok" if ok else "warning"
            for i, ok in enumerate(is_ok)
        ],
        problem=[
            "; ".join(filter(None, texts)) for texts in zip(drawn.problems, learned, strict=True)
        ],
        level_of_theory=run.manifest.get("level_of_theory", ""),
        conformal=run.conformal,
        p_metal=draws.p_metal,
        domain_p=np.array([judgement.p for judgement in drawn.judgements]),
        level=level,
    )
    if not _has_unknown_elements(run, records):
        return predictions
    from bandgap.runs.new_structures import with_left_out_elements

    return with_left_out_elements(run, records, predictions)


def describe_new(
    run: Run,
    records: Sequence[StructureRecord],
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Descriptors:
    """Return the descriptors of new structures, in part where an element is not known."""
    settings: dict[str, Any] = {"cache": cache, "n_jobs": n_jobs, "progress": progress}
    described = featurize(list(records), run.descriptor, **settings)
    if not _has_unknown_elements(run, records):
        return described
    from bandgap.runs.new_structures import with_partly_described

    return with_partly_described(run, records, described, **settings)


def _has_unknown_elements(run: Run, records: Sequence[StructureRecord]) -> bool:
    """Return whether a record has an element that is not in the terms of the run's descriptor."""
    species = set(run.descriptor.species)
    return bool(run.descriptor.terms) and any(elements_of(record) - species for record in records)


def record_details(
    run: Run,
    records: Sequence[StructureRecord],
    drawn: DrawnRecords,
    *,
    labelled: NDArray[np.bool_],
) -> "PredictionDetails":
    """Return the details of predictions; `labelled` (n,) says which records have a known gap.

    So have those that the run learned from or was tested on. Draws and noise of structures that are
    described in part are as wide as their intervals.
    """
    from bandgap.predictions.details import PredictionDetails, joint_subset

    is_usable = np.zeros(len(records), dtype=bool)
    is_usable[drawn.usable] = True
    labelled = labelled | (drawn.known_numbers >= 0)
    unlabelled = ~labelled[drawn.usable]
    draws = drawn.draws
    rows = drawn.usable[unlabelled]
    means_eV = draws.flat_means_eV[:, unlabelled]
    noise_variance = draws.noise_variance[unlabelled]
    if _has_unknown_elements(run, records):
        from bandgap.runs.new_structures import sd_factors

        factors = sd_factors(run, records)[rows]
        centres_eV = means_eV.mean(axis=0)
        means_eV = centres_eV + factors * (means_eV - centres_eV)
        noise_variance = factors**2 * noise_variance
    joint_rows, means, variances = joint_subset(means_eV, noise_variance, rows)
    n_atoms = [record.n_atoms if is_usable[i] else 0 for i, record in enumerate(records)]
    return PredictionDetails(
        nearest=tuple(j.nearest if is_usable[i] else "" for i, j in enumerate(drawn.judgements)),
        n_atoms=np.array(n_atoms, dtype=np.int64),
        distance=np.where(is_usable, [j.distance for j in drawn.judgements], np.nan),
        percentile=np.where(is_usable, [j.percentile for j in drawn.judgements], np.nan),
        labelled=labelled,
        joint_rows=joint_rows,
        means_eV=means,
        noise_variance=variances,
    )

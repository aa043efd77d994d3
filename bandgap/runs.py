"""The jobs that shell, worker and notebooks share: train a source, transfer it, predict; one folder each."""

import datetime
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.artifacts import Run, load_run, load_source, save_run, save_source, source_fingerprint
from bandgap.cache import DescriptorCache
from bandgap.config import to_dict
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, elements_of, learnable
from bandgap.descriptors import Descriptors, MBTRConfig, featurize
from bandgap.domain import Domain, fit_domain
from bandgap.errors import InputError
from bandgap.inference import diagnostics
from bandgap.metrics import evaluate_predictions
from bandgap.overlap import known_of, load_known, overlap, save_known
from bandgap.posterior import Posterior, PredictiveDraws
from bandgap.prediction_store import save_predictions
from bandgap.predictions import IntervalKind, Predictions, check_level, predictions_from_draws
from bandgap.progress import Progress, Update, no_progress
from bandgap.source import SourceConfig, train_source
from bandgap.structures import StructureRecord
from bandgap.transfer import TargetData, get_method

PREDICTIONS_CSV, QUANTILES = "predictions.csv", "quantiles.safetensors"
DEFAULT_TEST_SHARE = 0.2
RHAT_NAME = "predictions"
MIN_DRAWS = 4  # of every chain, below which R-hat cannot be computed
SUMMARIES = ("max", "min", "fit_max", "fit_median")  # figures over several quantities, not one of them

Floats = NDArray[np.float64]


def train_source_run(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    out: Path,
    seed: int,
    level_of_theory: str = "",
    licence: str = "",
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train a source network on labelled molecules, write it to `out` and return `out`.

    Structures that are refused or have no gap (NaN) are left out; raises InputError when nothing is left.
    """
    table = learnable(records, gaps_eV, descriptor=descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    source = train_source(
        table.features,
        table.gaps_eV,
        descriptor=descriptor,
        config=config,
        data=sorted({record.file for record in table.records})[:20],
        elements=sorted(set().union(*table.elements)),
        level_of_theory=level_of_theory,
        licence=licence,
        seed=seed,
        device=device,
        progress=progress,
    )
    save_source(Path(out), source, references=table.records)
    save_known(Path(out), known_of(table.records))
    return Path(out)


def transfer_run(
    source_folder: Path | str,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    method: str = "btl_pcp_pe",
    n: int | None = None,
    n_test: int | None = None,
    seed: int = 0,
    out: Path,
    level_of_theory: str = "",
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Transfer a source model to labelled crystals, write the run to `out` and return `out`.

    Rows are sorted by id and permuted by the seed; the first `n_test` (default: a fifth, or what `n` leaves if that is
    less) are the test set, the next `n` (default: the rest) the training set. Raises InputError when there are too few
    rows.
    """
    started = time.perf_counter()
    chosen = get_method(method)
    config = chosen.configure(settings or {})
    source = load_source(source_folder)
    table = learnable(records, gaps_eV, descriptor=source.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    if n_test is None:
        n_test = min(round(DEFAULT_TEST_SHARE * len(table)), max(0, len(table) - (n or 0)))
    split = permuted_split(table.ids, n_test=n_test, n_train=n, seed=seed)
    train, test = table.rows(split.train), table.rows(split.test)
    data = TargetData(train.features, train.gaps_eV)
    fit_started = time.perf_counter()
    posterior = chosen.fit(source, data, config, seed=seed, device=device, progress=progress)
    fit_s = time.perf_counter() - fit_started
    domain = fit_domain(train.features, ids=train.ids, elements=train.elements, source_species=source.card.elements)
    figures: dict[str, float] = {}
    rhat: dict[str, float] = {}
    if len(test):
        progress(Update("predicting the test set"))
        draws = posterior.predictive_draws(test.features)
        predictions = _predictions(draws, test, domain=domain, level_of_theory=level_of_theory)
        figures = _figures(draws, predictions, test.gaps_eV)
        rhat = _prediction_rhat(draws.means_eV, members=posterior.n_members)
        Path(out).mkdir(parents=True, exist_ok=True)
        predictions.to_csv(Path(out) / PREDICTIONS_CSV)
        save_predictions(Path(out) / QUANTILES, predictions)
    manifest = {
        "method": chosen.name,
        "title": chosen.title,
        "config": to_dict(config),
        "seed": seed,
        "n": len(train),
        "level_of_theory": level_of_theory,
        "data": {"fingerprint": table.content(), "n_labelled": len(table), "n_given": len(records)},
        "source": {
            "card": to_dict(source.card),
            "fingerprint": source_fingerprint(source),
            "overlap": _overlap(Path(source_folder), [*train.records, *test.records]),
        },
        "split": {"train": train.ids, "test": test.ids},
        "metrics": figures,
        "diagnostics": _diagnostics(posterior, rhat),
        "warnings": list(posterior.diagnostics.warnings),
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "elapsed_s": {"fit": fit_s, "all": time.perf_counter() - started},
    }
    save_run(
        Path(out), posterior, descriptor=source.descriptor, domain=domain, manifest=manifest, references=train.records
    )
    return Path(out)


def predict_run(
    model_folder: Path | str,
    records: Sequence[StructureRecord],
    *,
    level: float = 0.95,
    interval: IntervalKind = "prediction",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Predictions:
    """Predict the gaps of new structures with a stored run: one row for every record, refused ones with empty numbers.

    `level` and `interval` are only checked here; every level and both kinds are stored in what is returned.
    """
    check_level(level)
    if interval not in ("prediction", "credible"):
        raise InputError(f"interval is {interval!r}. Accepted: prediction, credible.")
    run = load_run(model_folder)
    described = featurize(list(records), run.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    progress(Update("predicting", 0, len(records)))
    predictions = _predict_records(run, records, described)
    progress(Update("predicting", len(records), len(records)))
    return predictions


def _overlap(source_folder: Path, records: Sequence[StructureRecord]) -> dict[str, int] | None:
    """Return how many of the run's structures the source knows; None where the source stores no keys."""
    known = load_known(source_folder)
    return None if known is None else to_dict(overlap(known, records))


def _predictions(draws: PredictiveDraws, table: Table, *, domain: Domain, level_of_theory: str) -> Predictions:
    judged = [judgement.text for judgement in domain.judge(table.features, table.elements)]
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
    )


def _predict_records(run: Run, records: Sequence[StructureRecord], described: Descriptors) -> Predictions:
    usable = [i for i, p in enumerate(described.problems) if p is None and records[i].status != "refused"]
    draws = run.posterior.predictive_draws(described.features[usable])

    def scatter(values: Floats) -> Floats:
        full = np.full((values.shape[0], len(records)), np.nan)
        full[:, usable] = values
        return full

    judged = run.domain.judge(described.features, [elements_of(r) for r in records])
    good = set(usable)
    status, problem, domain = [], [], []
    for i, (record, judgement, found) in enumerate(zip(records, judged, described.problems, strict=True)):
        fine = record.status == "ready" and judgement.text == "ok"
        status.append(("ok" if fine else "warning") if i in good else "refused")
        problem.append("; ".join(text for text in (record.problem, found.text if found else "") if text))
        domain.append(judgement.text if i in good else "")
    return predictions_from_draws(
        scatter(draws.flat_means_eV),
        scatter(draws.sds_eV) if draws.sds_eV.ndim == 2 else draws.sds_eV,
        centres=scatter(draws.centres_eV),
        ids=[r.id for r in records],
        files=[r.file for r in records],
        formulas=[r.formula for r in records],
        domain=domain,
        status=status,
        problem=problem,
        level_of_theory=run.manifest.get("level_of_theory", ""),
    )


def _figures(draws: PredictiveDraws, predictions: Predictions, gaps: Floats) -> dict[str, float]:
    lower, upper = predictions.interval(0.95, "prediction")
    return evaluate_predictions(
        gaps, draws.centres_eV, sds=draws.sds_eV, lower=lower, upper=upper, point=predictions.mean_eV
    )


def _prediction_rhat(means: Floats, *, members: int) -> dict[str, float]:
    """Return the worst R-hat and the fewest effective draws of means (chain, draw, n), compared within members."""
    if means.shape[0] < 2 * members or means.shape[1] < MIN_DRAWS:
        return {}
    parts = np.split(means, members)
    return {
        f"rhat_{RHAT_NAME}": max(float(diagnostics.rhat(part).max()) for part in parts),
        f"ess_{RHAT_NAME}": min(float(diagnostics.ess_bulk(part).min()) for part in parts),
    }


def _diagnostics(posterior: Posterior, rhat: Mapping[str, float]) -> dict[str, Any]:
    """Return flat figures, and the same grouped by statistic and name for pages."""
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
    return {**flat, **extra, **groups, "warnings": list(posterior.diagnostics.warnings)}


__all__ = ["Table", "learnable", "predict_run", "train_source_run", "transfer_run"]

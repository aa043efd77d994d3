r"""Weighted conformal intervals under a shift, against ordinary ones on the same structures.

A run learns from structures of one composition, and further ones of the same kind are the
calibration structures. The test structures have another composition. Ordinary conformal intervals
state a coverage for structures like the calibration ones only. Weighted ones (Tibshirani, Foygel
Barber, Candes, Ramdas 2019) give calibration structure i with score V_i the weight

    p_i(x) = w(x_i) / (sum_j w(x_j) + w(x)),   w = density of the test / of the calibration features

and the rest, p(x) of the new structure itself, to an infinite score. The half-width is the
(1 - alpha)-quantile of these scores, infinite where p(x) > alpha. Here w is estimated without
labels, on structures that are neither calibration nor test structures: by two sets of flows, or by
a logistic regression that tells both kinds apart.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.table import LabelledSet, elements_of
from bandgap.descriptors import featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.networks.hidden_layers import hidden_in_double
from bandgap.networks.perceptron import layer_of
from bandgap.research.flows.fitting import FlowTraining, fit_flows
from bandgap.research.flows.masked_flow import FlowConfig
from bandgap.runs.prediction import draw_requests, record_predictions
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import Run, load_run
from bandgap.runs.transfer import transfer_run
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import load_source
from benchmarks.crystals import SETS, labelled_of
from benchmarks.domain import UNFAMILIAR

Floats = NDArray[np.float64]

LEVEL: Final = 0.95
DIMENSIONS: Final = 16  # coordinates in which densities are compared
N_FLOWS: Final = 3
STOPPING_SHARE: Final = 0.15
WEIGHTS: Final = ("ordinary", "flows", "classifier")


@dataclass(frozen=True)
class ShiftBenchmark:
    """Numbers of structures of each role, seeds, and the share of the test kind in calibration."""

    n: int = 300
    n_calibration: int = 200
    n_batch: int = 250  # structures of the test kind, without gaps, for the weights
    n_test: int = 250
    shares: tuple[float, ...] = (0.0, 0.1)
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True, eq=False)
class ShiftedSet:
    """Structures of the calibration and of the test kind, the method, and the source, if any."""

    calibration: LabelledSet
    test: LabelledSet
    method: str
    source: Path | None


def run_shift(
    name: str,
    data: Path,
    config: ShiftBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> list[dict[str, Any]]:
    """Return the figures of a set, one entry for each share and seed.

    Raises InputError for an unknown set.
    """
    check_set(name)
    shifted = SHIFTED_SETS[name](data, progress)
    settings: dict[str, Any] = {"cache": cache, "n_jobs": n_jobs, "progress": progress}
    return [
        _figures(shifted, config, share, seed, settings)
        for share in config.shares
        for seed in config.seeds
    ]


def check_set(name: str) -> None:
    """Raise InputError for an unknown set."""
    if name not in SHIFTED_SETS:
        raise InputError(f"set {name!r}. Accepted: {', '.join(SHIFTED_SETS)}.")


def weighted_half_widths(
    scores: Floats, weights: Floats, test_weights: Floats, *, level: float
) -> Floats:
    """Return the weighted conformal quantiles (m,) of scores, infinite where weight is missing.

    Parameters
    ----------
    scores
        Scores V_i of the calibration structures, (n,).
    weights
        Their density ratios, (n,), not negative.
    test_weights
        Density ratios of the new structures, (m,).
    level
        Coverage that the intervals state.

    References
    ----------
    Tibshirani, Foygel Barber, Candes, Ramdas 2019, equations 6 and 8.
    """
    order = np.argsort(scores, kind="stable")
    sums = np.cumsum(weights[order])
    # the least score whose share of all weights, with that of the new structure, is the level
    target_sums = level * (sums[-1] + test_weights)
    positions = np.searchsorted(sums, target_sums * (1 - 1e-12))
    half_widths: Floats = np.append(scores[order], np.inf)[positions]
    return half_widths


def log_density_ratio(fitted: Floats, batch: Floats, rows: Floats, *, seed: int) -> Floats:
    """Return log q(x) - log p(x) of rows by flows on the batch (q) and on the fitted rows (p)."""
    log_densities = []
    for features in (batch, fitted):
        random = np.random.default_rng(seed)
        is_stopping = torch.from_numpy(random.random((N_FLOWS, len(features))) < STOPPING_SHARE)
        flows = fit_flows(
            torch.from_numpy(features),
            is_fitted=~is_stopping,
            is_stopping=is_stopping,
            config=FlowConfig(features.shape[1]),
            training=FlowTraining(bootstrap=False),
            seed=seed,
        )
        of_flows = flows.log_density(torch.from_numpy(rows))
        log_densities.append((torch.logsumexp(of_flows, dim=0) - np.log(N_FLOWS)).numpy())
    ratio: Floats = log_densities[0] - log_densities[1]
    return ratio


def log_odds_ratio(fitted: Floats, batch: Floats, rows: Floats, *, seed: int) -> Floats:
    """Return log q(x) - log p(x) of rows by a logistic regression, up to a constant."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    strengths = {"C": np.logspace(-3, 3, 7)}
    model = GridSearchCV(
        LogisticRegression(max_iter=2_000), strengths, scoring="neg_log_loss", cv=folds
    )
    is_batch = np.r_[np.zeros(len(fitted)), np.ones(len(batch))]
    model.fit(np.concatenate([fitted, batch]), is_batch)
    ratio: Floats = model.decision_function(rows)
    return ratio


def _figures(
    shifted: ShiftedSet,
    config: ShiftBenchmark,
    share: float,
    seed: int,
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    first = random.permutation(len(shifted.calibration.records))
    second = random.permutation(len(shifted.test.records))
    n_of_test_kind = round(share * (config.n + config.n_calibration))
    n_first = config.n + config.n_calibration - n_of_test_kind
    mixed = _joined(
        _rows(shifted.calibration, first[:n_first]), _rows(shifted.test, second[:n_of_test_kind])
    )
    order = random.permutation(len(mixed.records))
    learned = _rows(mixed, order[: config.n])
    calibration = _rows(mixed, order[config.n :])
    further = second[n_of_test_kind:]
    batch = _rows(shifted.test, further[: config.n_batch])
    test = _rows(shifted.test, further[config.n_batch : config.n_batch + config.n_test])
    with TemporaryDirectory() as folder:
        request = TransferRequest(
            method=shifted.method, n_test=0, seed=seed, n_jobs=settings["n_jobs"]
        )
        run = load_run(
            transfer_run(
                shifted.source,
                learned,
                request,
                out=Path(folder) / "run",
                cache=settings["cache"],
                progress=settings["progress"],
            )
        )
    descriptors, scores = _described_and_scored(run, [learned, batch, calibration, test], settings)
    features = _coordinates(shifted.source, descriptors)
    fitted, batch_rows, *compared = features
    n_calibration = len(compared[0])
    rows = np.concatenate(compared)
    log_ratios = {
        "ordinary": np.zeros(len(rows)),
        "flows": log_density_ratio(fitted, batch_rows, rows, seed=seed),
        "classifier": log_odds_ratio(fitted, batch_rows, rows, seed=seed),
    }
    return {
        "seed": seed,
        "share": share,
        "n": len(fitted),
        "n_calibration": n_calibration,
        "n_batch": len(batch_rows),
        "n_test": len(compared[1]),
        "intervals": {
            name: _coverage(
                scores[2], scores[3], log_ratio[:n_calibration], log_ratio[n_calibration:]
            )
            for name, log_ratio in log_ratios.items()
        },
    }


def _coverage(
    scores: Floats, test_scores: Floats, log_ratio: Floats, test_log_ratio: Floats
) -> dict[str, float]:
    """Return coverage, width in standard deviations, and how many structures carry the weights."""
    largest = max(log_ratio.max(), test_log_ratio.max())
    weights = np.exp(log_ratio - largest)
    half_widths = weighted_half_widths(
        scores, weights, np.exp(test_log_ratio - largest), level=LEVEL
    )
    is_finite = np.isfinite(half_widths)
    is_covered = test_scores <= half_widths
    return {
        "coverage": float(np.mean(is_covered)),
        "coverage_of_finite": float(np.mean(is_covered[is_finite])) if is_finite.any() else np.nan,
        "infinite_share": float(np.mean(~is_finite)),
        "median_half_width_sd": float(np.median(half_widths)),
        "effective_n": float(weights.sum() ** 2 / max(np.square(weights).sum(), 1e-300)),
    }


def _described_and_scored(
    run: Run, sets: list[LabelledSet], settings: Mapping[str, Any]
) -> tuple[list[Floats], list[Floats]]:
    """Return raw descriptors (n, p) and conformal scores (n,) of the usable structures of sets."""
    descriptors: list[Floats] = []
    scores: list[Floats] = []
    for labelled in sets:
        described = featurize(list(labelled.records), run.descriptor, **settings)
        (drawn,) = draw_requests(run, [(labelled.records, described, None)])
        predictions = record_predictions(run, labelled.records, drawn)
        error_eV = np.abs(labelled.gaps_eV - predictions.mean_eV)
        scores.append((error_eV / predictions.sd_new_eV)[drawn.usable])
        descriptors.append(described.features[drawn.usable].astype(np.float64))
    return descriptors, scores


def _coordinates(source: Path | None, descriptors: list[Floats]) -> list[Floats]:
    """Return whitened principal coordinates of the first two sets, for all sets.

    The features are the inputs of the last rectified units of a source network, else the
    standardised descriptors.
    """
    if source is not None:
        values = [last_hidden_inputs(load_source(source), descriptor) for descriptor in descriptors]
    else:
        centre, scale = descriptors[0].mean(axis=0), descriptors[0].std(axis=0)
        values = [(rows - centre) / np.where(scale == 0, 1.0, scale) for rows in descriptors]
    pooled = np.concatenate(values[:2])
    centre = pooled.mean(axis=0)
    _, singular, directions = np.linalg.svd(pooled - centre, full_matrices=False)
    n_dimensions = min(DIMENSIONS, int((singular > 1e-9 * singular[0]).sum()))
    scales = singular[:n_dimensions] / np.sqrt(len(pooled) - 1)
    return [(value - centre) @ directions[:n_dimensions].T / scales for value in values]


def last_hidden_inputs(source: SourceModel, descriptors: NDArray[np.floating[Any]]) -> Floats:
    """Return the inputs (n, q) of the last rectified units of a source network."""
    last = max(map(layer_of, source.params)) - 1
    before = {name: value for name, value in source.params.items() if layer_of(name) < last}
    h = source.standardiser.features(np.asarray(descriptors, dtype=np.float64))
    if before:
        h = hidden_in_double(before, h)[-1]
    weight, bias = (source.params[f"{name}.{last}"].double().numpy() for name in ("weight", "bias"))
    inputs: Floats = h @ weight.T + bias
    return inputs


def _rows(labelled: LabelledSet, rows: NDArray[np.int64]) -> LabelledSet:
    return LabelledSet(
        [labelled.records[i] for i in rows],
        labelled.gaps_eV[rows],
        level_of_theory=labelled.level_of_theory,
    )


def _joined(one: LabelledSet, other: LabelledSet) -> LabelledSet:
    return LabelledSet(
        [*one.records, *other.records],
        np.concatenate([one.gaps_eV, other.gaps_eV]),
        level_of_theory=one.level_of_theory,
    )


def _by_elements(
    labelled: LabelledSet, elements: frozenset[str], method: str, source: Path | None
) -> ShiftedSet:
    """Return the set whose test structures have one of the elements."""
    has_element = np.array([bool(elements_of(r) & elements) for r in labelled.records])
    return ShiftedSet(
        _rows(labelled, np.flatnonzero(~has_element)),
        _rows(labelled, np.flatnonzero(has_element)),
        method,
        source,
    )


def _demo(data: Path, progress: Progress) -> ShiftedSet:
    demo = load_demo("crystals")
    gaps_eV = demo.table["gap_eV"].to_numpy(dtype=np.float64)
    labelled = LabelledSet(list(demo.records), gaps_eV, level_of_theory=demo.level_of_theory)
    return _by_elements(labelled, UNFAMILIAR, "last_layer_ridge", demo_source_folder())


def _organic(data: Path, progress: Progress) -> ShiftedSet:
    labelled = labelled_of(SETS["organic"], data, progress)
    return _by_elements(labelled, UNFAMILIAR, "last_layer_ridge", demo_source_folder())


SHIFTED_SETS: Final[Mapping[str, Callable[[Path, Progress], ShiftedSet]]] = {
    "demo": _demo,
    "organic": _organic,
}

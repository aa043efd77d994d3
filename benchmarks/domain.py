"""The applicability domain: its p-values against the distance alone, on four sets of structures.

Every set has familiar structures, of which a run learns from some and others are held out, and
unfamiliar ones: organic crystals with sulfur, chlorine, bromine or iodine where the run has learned
from crystals without, the fifth of the demo's crystals with most nitrogen, or organic molecules for
a run on perovskites. The source network has seen their elements. A good score tells unfamiliar
structures from held-out ones (AUROC), flags about 5 % of the held-out ones at p = 0.05, and is
small where errors are large.
"""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.table import LabelledSet, elements_of
from bandgap.descriptors import featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.runs.prediction import draw_requests, record_predictions
from bandgap.runs.requests import TransferRequest
from bandgap.runs.stored import Run, load_run
from bandgap.runs.transfer import transfer_run
from bandgap.structures import StructureRecord
from benchmarks.crystals import SETS, labelled_of

Floats = NDArray[np.float64]

UNFAMILIAR: Final = frozenset({"S", "Cl", "Br", "I"})
RICH_FROM: Final = 0.8  # quantile of the share of nitrogen above which a crystal is unfamiliar
LEVEL: Final = 0.05  # p-value up to which a structure is flagged, and its interval withheld
INTERVAL_LEVEL: Final = 0.95  # of the intervals whose coverage is measured


@dataclass(frozen=True)
class DomainBenchmark:
    """Numbers of structures that are learned from and compared, and seeds."""

    n: int = 400
    n_compared: int = 500
    seeds: tuple[int, ...] = (0, 1, 2)


@dataclass(frozen=True, eq=False)
class DomainSet:
    """Familiar and unfamiliar structures, the method, and the folder of the source, if any."""

    familiar: LabelledSet
    unfamiliar: LabelledSet
    method: str
    source: Path | None
    gaps_are_comparable: bool = True


def run_domain(
    name: str,
    data: Path,
    config: DomainBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> list[dict[str, Any]]:
    """Return the figures of a set, one entry for each seed.

    Raises InputError for an unknown set.
    """
    if name not in DOMAIN_SETS:
        raise InputError(f"set {name!r}. Accepted: {', '.join(DOMAIN_SETS)}.")
    domain_set = DOMAIN_SETS[name](data, progress)
    return [
        _figures(domain_set, config, seed, cache=cache, n_jobs=n_jobs, progress=progress)
        for seed in config.seeds
    ]


def _figures(
    domain_set: DomainSet,
    config: DomainBenchmark,
    seed: int,
    *,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> dict[str, Any]:
    familiar = domain_set.familiar
    order = np.random.default_rng(seed).permutation(len(familiar.records))
    learned = order[: config.n]
    held_out = order[config.n : config.n + config.n_compared]
    drawn = np.random.default_rng(seed).permutation(len(domain_set.unfamiliar.records))
    unfamiliar = _rows(domain_set.unfamiliar, drawn[: config.n_compared])
    with tempfile.TemporaryDirectory() as folder:
        request = TransferRequest(method=domain_set.method, n_test=0, seed=seed, n_jobs=n_jobs)
        run_folder = transfer_run(
            domain_set.source,
            _rows(familiar, learned),
            request,
            out=Path(folder) / "run",
            cache=cache,
            progress=progress,
        )
        run = load_run(run_folder)
    settings: dict[str, Any] = {"cache": cache, "n_jobs": n_jobs, "progress": progress}
    inside = _scores(run, _rows(familiar, held_out), settings)
    outside = _scores(run, unfamiliar, settings)
    is_outside = np.r_[np.zeros(len(inside["p"])), np.ones(len(outside["p"]))]
    errors = inside["error_eV"]
    p = inside["p"]
    is_covered = inside["is_covered"]
    if domain_set.gaps_are_comparable:
        errors = np.r_[errors, outside["error_eV"]]
        p = np.r_[p, outside["p"]]
        is_covered = np.r_[is_covered, outside["is_covered"]]
    return {
        "seed": seed,
        "n": len(learned),
        "n_held_out": len(inside["p"]),
        "n_unfamiliar": len(outside["p"]),
        "flagged_share": float(np.mean(inside["p"] <= LEVEL)),
        "flagged_share_unfamiliar": float(np.mean(outside["p"] <= LEVEL)),
        "auroc": {
            score: float(roc_auc_score(is_outside, sign * np.r_[inside[score], outside[score]]))
            for score, sign in (("p", -1), ("distance", 1))
        },
        "rmse_flagged_eV": _rmse(errors[p <= LEVEL]),
        "rmse_rest_eV": _rmse(errors[p > LEVEL]),
        "coverage": float(np.mean(is_covered)),
        "coverage_not_withheld": float(np.mean(is_covered[p > LEVEL])),
    }


def _scores(run: Run, labelled: LabelledSet, settings: Mapping[str, Any]) -> dict[str, Floats]:
    """Return p-value, distance and error of the usable structures."""
    described = featurize(list(labelled.records), run.descriptor, **settings)
    (drawn,) = draw_requests(run, [(labelled.records, described, None)])
    rows = drawn.usable
    gaps_eV = labelled.gaps_eV[rows]
    lower, upper = record_predictions(run, labelled.records, drawn).interval(INTERVAL_LEVEL)
    return {
        "is_covered": np.asarray((lower[rows] <= gaps_eV) & (gaps_eV <= upper[rows]), np.float64),
        "p": np.array([drawn.judgements[i].p for i in rows]),
        "distance": np.array([drawn.judgements[i].distance for i in rows]),
        "error_eV": drawn.draws.flat_means_eV.mean(axis=0) - gaps_eV,
    }


def _rmse(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2))) if errors.size else float("nan")


def _rows(labelled: LabelledSet, rows: NDArray[np.int64]) -> LabelledSet:
    return LabelledSet(
        [labelled.records[i] for i in rows],
        labelled.gaps_eV[rows],
        level_of_theory=labelled.level_of_theory,
    )


def _by_elements(labelled: LabelledSet, method: str, source: Path | None) -> DomainSet:
    """Return the set whose unfamiliar structures have an element of `UNFAMILIAR`."""
    has_element = np.array([bool(elements_of(r) & UNFAMILIAR) for r in labelled.records])
    return DomainSet(
        _rows(labelled, np.flatnonzero(~has_element)),
        _rows(labelled, np.flatnonzero(has_element)),
        method,
        source,
    )


def _demo(data: Path, progress: Progress) -> DomainSet:
    demo = load_demo("crystals")
    gaps_eV = demo.table["gap_eV"].to_numpy(dtype=np.float64)
    labelled = LabelledSet(list(demo.records), gaps_eV, level_of_theory=demo.level_of_theory)
    return _by_elements(labelled, "last_layer_ridge", demo_source_folder())


def _nitrogen(data: Path, progress: Progress) -> DomainSet:
    """Return crystals of the demo without new elements, but with a larger share of nitrogen."""
    demo = _demo(data, progress).familiar
    shares = np.array([_share_of_nitrogen(record) for record in demo.records])
    is_rich = shares > np.quantile(shares, RICH_FROM)
    return DomainSet(
        _rows(demo, np.flatnonzero(~is_rich)),
        _rows(demo, np.flatnonzero(is_rich)),
        "last_layer_ridge",
        demo_source_folder(),
    )


def _share_of_nitrogen(record: StructureRecord) -> float:
    return 0.0 if record.atoms is None else float(np.mean(record.atoms.numbers == 7))


def _organic(data: Path, progress: Progress) -> DomainSet:
    labelled = labelled_of(SETS["organic"], data, progress)
    return _by_elements(labelled, "last_layer_ridge", demo_source_folder())


def _perovskites(data: Path, progress: Progress) -> DomainSet:
    perovskites = labelled_of(SETS["perovskites"], data, progress)
    organic = labelled_of(SETS["organic"], data, progress)
    learned_elements = set().union(*(elements_of(record) for record in perovskites.records))
    is_described = [elements_of(record) <= learned_elements for record in organic.records]
    molecules = _rows(organic, np.flatnonzero(is_described))
    return DomainSet(perovskites, molecules, "kernel_ridge", None, gaps_are_comparable=False)


DOMAIN_SETS: Final[Mapping[str, Callable[[Path, Progress], DomainSet]]] = {
    "demo": _demo,
    "nitrogen": _nitrogen,
    "organic": _organic,
    "perovskites": _perovskites,
}

"""Metals among the labels: a probability of a metal against zeros learned as any other gap.

Perovskites ABX3 with GLLB-SC gaps, of which some 70 % are metals. On every split a method is fitted
twice: with the classifier of metals (`transfer.shared.metals`), and to all gaps, zeros included,
with predictive distributions that are not cut at zero. Both sides have the same test rows.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.labels import match_labels, read_labels
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.evaluation.metrics import coverage, crps_mixture_each, mean_width, rmse
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.runs.fitting import fit_gaps, fit_members
from bandgap.sources.no_source import descriptor_for_labelled, no_source
from bandgap.structures import read_paths
from bandgap.transfer import TargetData, get_method

FOLDER: Final = "perov5_gllb"
STRUCTURES: Final = "cifs.zip"
LABELS: Final = "perov5_gllb.csv"
LABEL: Final = "gap_eV"
LEVEL: Final = 0.95
LARGE_EV: Final = 1.0  # mean prediction from which coverage is measured apart
CERTAIN: Final = 0.95  # probability of a metal from which the width is measured apart

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MetalsBenchmark:
    """Methods without transfer, and the splits."""

    methods: tuple[str, ...] = ("stacking",)
    n: int = 400
    n_test: int = 200
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)

    def __post_init__(self) -> None:
        """Raise ConfigError for an unknown method, and InputError for one that transfers."""
        for name in self.methods:
            if get_method(name).transfers:
                raise InputError(f"method {name!r} needs a source. Give one without transfer.")


@dataclass(frozen=True)
class MetalsFit:
    """One side of a split: figures of the test rows, and seconds of the fit and the prediction.

    Widths and coverages of no row are NaN. `n_large` and `n_certain` are the numbers of their rows.
    """

    method: str
    side: str
    seed: int
    rmse_eV: float
    crps_eV: float
    auc: float
    coverage: float
    coverage_large: float
    n_large: int
    below_zero: float
    width_eV: float
    width_certain_eV: float
    n_certain: int
    seconds: float


SIDES: Final = ("zeros as gaps", "with metals")


def run_metals(
    data: Path,
    config: MetalsBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[MetalsFit]:
    """Yield both sides of every split of every method.

    Raises
    ------
    InputError
        If a file is missing in `data`.
    """
    table, descriptor = _table(data / FOLDER, cache=cache, n_jobs=n_jobs, progress=progress)
    for name in config.methods:
        method = get_method(name)
        for seed in config.seeds:
            progress(Update(f"{name}, split {seed}"))
            split = permuted_split(table.ids, n_test=config.n_test, n_train=config.n, seed=seed)
            train = table.rows(split.train)
            test = table.rows(split.test)
            learned = TargetData(train.features, train.gaps_eV)
            members = [{"none": no_source(descriptor, learned.features, learned.gaps_eV)}]
            for side, fit in zip(SIDES, (fit_gaps, fit_members), strict=True):
                started = time.perf_counter()
                posterior = fit(
                    method, members, learned, method.configure({}), head="none", seed=seed
                )
                draws = posterior.predictive_draws(test.features)
                seconds = time.perf_counter() - started
                figures = figures_of_side(draws, test.gaps_eV)
                yield MetalsFit(name, side, seed, **figures, seconds=seconds)


def figures_of_side(draws: PredictiveDraws, gaps_eV: Floats) -> dict[str, Any]:
    """Return the figures of predictive draws on known gaps (n,) in eV.

    Without a probability of a metal, the score of a metal is minus the mean, and the distribution
    is not cut at zero.
    """
    mean = draws.flat_means_eV.mean(axis=0)
    if draws.p_metal is None:
        tails = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]
        lower, upper = mixture_quantiles(draws.centres_eV, draws.sds_eV, tails)
        crps = crps_mixture_each(gaps_eV, draws.centres_eV, sds=draws.sds_eV)
        score = -mean
        is_certain = np.zeros(mean.size, dtype=bool)
    else:
        lower, upper = draws.gaps.interval(LEVEL)
        crps = draws.gaps.crps_eV(gaps_eV)
        score = draws.p_metal
        is_certain = draws.p_metal > CERTAIN
    is_large = mean > LARGE_EV
    return {
        "rmse_eV": rmse(gaps_eV, mean),
        "crps_eV": float(crps.mean()),
        "auc": area_under_roc(gaps_eV <= ZERO_EV, score),
        "coverage": coverage(gaps_eV, lower, upper=upper),
        "coverage_large": _of_rows(coverage, is_large, gaps_eV, lower, upper),
        "n_large": int(is_large.sum()),
        "below_zero": float((lower < 0).mean()),
        "width_eV": mean_width(lower, upper),
        "width_certain_eV": (
            mean_width(lower[is_certain], upper[is_certain]) if is_certain.any() else float("nan")
        ),
        "n_certain": int(is_certain.sum()),
    }


def as_dict(fit: MetalsFit) -> dict[str, Any]:
    """Return a fit as plain values, None for NaN."""
    return {name: None if value != value else value for name, value in asdict(fit).items()}


def _of_rows(
    figure: Any, rows: NDArray[np.bool_], gaps_eV: Floats, lower: Floats, upper: Floats
) -> float:
    if not rows.any():
        return float("nan")
    return float(figure(gaps_eV[rows], lower[rows], upper=upper[rows]))


def _table(
    folder: Path, *, cache: DescriptorCache | None, n_jobs: int, progress: Progress
) -> tuple[Table, Any]:
    """Return the usable labelled structures with their descriptor."""
    for file in (STRUCTURES, LABELS):
        if not (folder / file).is_file():
            raise InputError(f"{folder} has no {file}. Give the folder that contains the data.")
    records = read_paths([folder / STRUCTURES], progress=progress)
    labels = read_labels(folder / LABELS, column=LABEL, level_of_theory="GLLB-SC")
    gaps = match_labels([r.id for r in records], [r.file for r in records], labels).gaps
    descriptor = descriptor_for_labelled(records, gaps)
    table = learnable(
        records, gaps, descriptor=descriptor, cache=cache, n_jobs=n_jobs, progress=progress
    )
    return table, descriptor

r"""Stochastic-gradient MCMC with many labels: accuracy, agreement with HMC, and time of a step.

The molecules are those of QM9 with the descriptor of the demo's source. `btl_pcp_sg`, `nptl` and
`ensemble` have the same training and test rows. `nptl` and `ensemble` get as many networks as fit
into the CPU time of `btl_pcp_sg`. The number is found by several fits, because part of their time
does not depend on it.

On few rows `btl_pcp_sg` and `btl_pcp_pe` (HMC) sample the same posterior. Their predictive means
are compared in posterior standard deviations and in Monte-Carlo errors. Times and errors are
medians over `repeats` splits.
"""

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from bandgap.datasets.demo import demo_source_folder
from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import coverage, crps_gaussian, rmse
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import diagnostics
from bandgap.posterior import Posterior
from bandgap.predictions.mixtures import mixture_quantiles, mixture_sd
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import load_source
from bandgap.storage.arrays import save_arrays
from bandgap.storage.stored_fields import stored_fields
from bandgap.structures.reading import read_paths
from bandgap.transfer import METHODS, TargetData
from bandgap.transfer.shared.method import Fitting
from benchmarks.kept_parts import Parts, file_digest
from benchmarks.medians import medians

OURS = "btl_pcp_sg"
EXACT = "btl_pcp_pe"
# Setting of the number of networks.
RIVALS: Final[Mapping[str, str]] = {"ensemble": "members", "nptl": "samples"}
FEW = 8  # Networks of the first fit.
MANY = 400  # Largest number of networks.
GROWTH = 8  # Largest ratio of the numbers of networks of consecutive fits.
REFITS = 3  # Fits after the first one.
NEAR = 0.9  # Fits end when a method takes this share of the sampler's time.
FILE = Path("qm9_gap") / "qm9_gap.extxyz.gz"


@dataclass(frozen=True)
class SgmcmcBenchmark:
    """Training rows, test rows, rows of the comparison with HMC, and timing of a step.

    A step is timed by `timed` iterations at the numbers of rows `sizes`. `draws` and `warmup` are
    iterations of `btl_pcp_sg`, None for its defaults.
    """

    n: int = 8000
    n_test: int = 4000
    n_exact: int = 500
    sizes: tuple[int, ...] = (1000, 2000, 4000, 8000)
    timed: int = 200
    warmup: int | None = None
    draws: int | None = None
    rivals: tuple[str, ...] = tuple(RIVALS)
    prune_shares: tuple[float, ...] = ()
    repeats: int = 1
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.n, self.n_exact, *self.sizes) < 50
            or min(self.n_test, self.timed) < 20
            or max(self.sizes) > self.n
        ):
            raise ConfigError(
                f"benchmark sgmcmc: {self.n} rows, {self.n_test} for testing, {self.n_exact} with "
                f"HMC, sizes {self.sizes}, {self.timed} timed iterations. Accepted: at least 50 "
                "rows, 20 for testing, 20 iterations, sizes up to the number of rows."
            )


def run_benchmark(
    data: Path,
    config: SgmcmcBenchmark,
    *,
    parts: Parts | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure accuracy, agreement with HMC and time of a step; return plain values.

    Parts that `parts` has from an earlier run are not measured again.

    Raises
    ------
    InputError
        If the data are not in the folder.
    """
    parts = parts or Parts()
    digest = file_digest(data / FILE)
    source = load_source(demo_source_folder())

    @lru_cache(maxsize=1)
    def rows(seed: int) -> tuple[Table, Table]:
        count = config.n + config.n_test
        table = read_rows(data, source, count=count, seed=seed, cache=cache, progress=progress)
        return table.rows(np.arange(config.n)), table.rows(np.arange(config.n, len(table)))

    def measure_split(split_config: SgmcmcBenchmark) -> dict[str, Any]:
        train, test = rows(split_config.seed)
        return {
            "sides": equal_time(source, train, test, split_config),
            "steps": cost_of_a_step(source, train, split_config),
        }

    def measure_share(share: float) -> dict[str, float]:
        train, test = rows(config.seed)
        settings = ours(config) | {"prune_share": share}
        return measured(source, TargetData(train.features, train.gaps_eV), settings, test, config)

    split_config = replace(config, repeats=1, prune_shares=())
    about = asdict(split_config) | {"data": digest}  # The figures depend on these.
    splits: list[dict[str, Any]] = []
    # The first split comes last, because the other parts are measured on it.
    for repeat in reversed(range(config.repeats)):
        progress(Update("equal time", len(splits), config.repeats))
        split = replace(split_config, seed=config.seed + repeat)
        splits.insert(
            0, parts.get("split", about | {"seed": split.seed}, partial(measure_split, split))
        )
    pruned = {}
    for share in config.prune_shares:
        progress(Update("pruning", message=f"share {share:g}"))
        pruned[f"{share:g}"] = parts.get(
            "pruned", about | {"prune_share": share}, partial(measure_share, share)
        )
    progress(Update("agreement with HMC"))
    agreement = parts.get(
        "agreement", about, lambda: compare_with_exact(source, *rows(config.seed), config)
    )
    return {
        "n": config.n,
        "n_test": config.n_test,
        "n_exact": config.n_exact,
        "repeats": config.repeats,
        "sides": medians([split["sides"] for split in splits]),
        "each": [split["sides"] for split in splits],
        "pruned": pruned,
        "agreement": agreement,
        "ms_per_iteration": medians([split["steps"] for split in splits]),
    }


def read_rows(
    data: Path,
    source: SourceModel,
    *,
    count: int,
    seed: int,
    cache: DescriptorCache | None,
    progress: Progress,
) -> Table:
    """Return `count` molecules in random order with the descriptor of the source."""
    path = data / FILE
    if not path.is_file():
        raise InputError(f"{path}: no such file. Give the folder that contains {FILE}.")
    records = read_paths([path])
    if count > len(records):
        raise InputError(f"{path} has {len(records)} molecules, not {count}. Ask for fewer rows.")
    order = np.random.default_rng(seed).permutation(len(records))[:count]
    selected = [records[i] for i in order]
    gaps = labels_from_info(selected, "gap_eV")
    return learnable(
        selected, gaps, descriptor=source.descriptor, cache=cache, n_jobs=1, progress=progress
    )


def equal_time(
    source: SourceModel, train: Table, test: Table, config: SgmcmcBenchmark
) -> dict[str, dict[str, float]]:
    """Return figures of each method; others get as many networks as fit into the sampler's time."""
    data = TargetData(train.features, train.gaps_eV)
    figures_of_sides = {OURS: measured(source, data, ours(config), test, config)}
    seconds = figures_of_sides[OURS]["seconds"]
    for name in config.rivals:
        count = FEW
        tried = []
        for _ in range(1 + REFITS):
            rival, spent = timed_fit(name, source, data, networks(name, count), seed=config.seed)
            tried.append((count, spent))
            if spent > NEAR * seconds or (more := affordable(tried, seconds)) <= count:
                break
            count = more
        count, spent = tried[-1]
        figures_of_sides[name] = figures(rival, test) | {"seconds": spent, "networks": float(count)}
    return figures_of_sides


def affordable(tried: Sequence[tuple[int, float]], seconds: float) -> int:
    """Return how many networks fit into `seconds`, by a line through the last two fits.

    `tried` has pairs of number of networks and seconds.

    >>> affordable([(8, 103.0), (16, 118.0)], 218.0)
    69
    """
    before, quicker = tried[-2] if len(tried) > 1 else (0, 0.0)
    count, spent = tried[-1]
    seconds_each = (spent - quicker) / (count - before)
    return min(
        MANY, GROWTH * count, count + int((seconds - spent) / max(seconds_each, 1e-3 * spent))
    )


def measured(
    source: SourceModel,
    data: TargetData,
    settings: Mapping[str, Any],
    test: Table,
    config: SgmcmcBenchmark,
) -> dict[str, float]:
    """Return figures of the sampler: errors, seconds of fit and prediction, MB of stored draws."""
    posterior, seconds = timed_fit(OURS, source, data, settings, seed=config.seed)
    posterior.predictive_draws(test.features[:4])  # Compiles the evaluation of draws.
    started = time.process_time()
    result = figures(posterior, test)
    result |= {"seconds": seconds, "prediction_seconds": time.process_time() - started}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.safetensors"
        save_arrays(stored_fields(posterior)[0], path)
        result["stored_MB"] = path.stat().st_size / 1e6
    return result | dict(posterior.diagnostics.figures)


def ours(config: SgmcmcBenchmark) -> dict[str, Any]:
    """Return the settings of the sampler."""
    lengths = {"warmup": config.warmup, "draws": config.draws}
    return {"sampler": {name: value for name, value in lengths.items() if value is not None}}


def networks(name: str, count: int) -> dict[str, Any]:
    """Return the settings of a method with `count` networks."""
    return {RIVALS[name]: count}


def timed_fit(
    name: str, source: SourceModel, data: TargetData, settings: Mapping[str, Any], *, seed: int
) -> tuple[Posterior, float]:
    """Fit a method; return its posterior and the CPU seconds of this process."""
    method = METHODS[name]
    started = time.process_time()
    posterior = method.fit(source, data, method.configure(settings), Fitting(seed, device="cpu"))
    return posterior, time.process_time() - started


def figures(posterior: Posterior, test: Table) -> dict[str, float]:
    """Return RMSE and CRPS in eV and the coverage of 90 % on the test rows."""
    draws = posterior.predictive_draws(test.features)
    mean = draws.flat_means_eV.mean(0)
    sd = mixture_sd(draws.centres_eV, draws.sds_eV)
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.05, 0.95])
    return {
        "rmse_eV": rmse(test.gaps_eV, mean),
        "crps_eV": crps_gaussian(test.gaps_eV, mean, sd=sd),
        "coverage": coverage(test.gaps_eV, low, upper=high),
    }


def compare_with_exact(
    source: SourceModel, train: Table, test: Table, config: SgmcmcBenchmark
) -> dict[str, Any]:
    """Return figures of both samplers on `n_exact` rows, and how their predictions differ."""
    subset = train.rows(np.arange(config.n_exact))
    data = TargetData(subset.features, subset.gaps_eV)
    result = {}
    means_eV = {}
    for name, settings in ((EXACT, {}), (OURS, ours(config))):
        started = time.perf_counter()  # Wall clock: HMC may run its chains in other processes.
        posterior, _ = timed_fit(name, source, data, settings, seed=config.seed)
        seconds = time.perf_counter() - started
        means_eV[name] = posterior.mean_draws_eV(test.features)
        result[name] = figures(posterior, test) | {"seconds": seconds}
        result[name]["rhat_max"] = posterior.diagnostics.figures["rhat_max"]
    return result | {"difference": differences(means_eV[EXACT], means_eV[OURS])}


def differences(exact: np.ndarray[Any, Any], approximate: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return medians over rows, from draws (chain, draw, n) of the mean by both samplers.

    `means_in_sd` is the absolute difference of the means over the exact sd, `means_in_errors` that
    over their combined Monte-Carlo error, and `sd_ratio` the approximate over the exact sd.
    """
    sd = exact.std((0, 1))
    difference = np.abs(approximate.mean((0, 1)) - exact.mean((0, 1)))
    error = np.hypot(diagnostics.mean_error(exact), diagnostics.mean_error(approximate))
    return {
        "means_in_sd": float(np.median(difference / sd)),
        "means_in_errors": float(np.median(difference / error)),
        "sd_ratio": float(np.median(approximate.std((0, 1)) / sd)),
    }


def cost_of_a_step(source: SourceModel, train: Table, config: SgmcmcBenchmark) -> dict[str, float]:
    """Return milliseconds of an iteration of the sampler, by number of rows.

    The time is the difference between two runs, one of which has `timed` more iterations, so the
    search for a start is not counted.
    """
    ms_by_rows = {}
    for n in config.sizes:
        part = train.rows(np.arange(n))
        data = TargetData(part.features, part.gaps_eV)
        spent = []
        for draws in (20, 20 + config.timed):
            settings = {
                "sampler": {"warmup": 10, "draws": draws, "search": 10, "keep": 8, "step": 1e-8}
            }
            spent.append(timed_fit(OURS, source, data, settings, seed=config.seed)[1])
        ms_by_rows[str(n)] = 1e3 * (spent[1] - spent[0]) / config.timed
    return ms_by_rows

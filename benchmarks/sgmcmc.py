r"""Stochastic-gradient MCMC where labels are many: accuracy at equal time, agreement with HMC, and the cost of a step.

QM9 molecules described as the demo's source describes them. `btl_pcp_sg`, `nptl` and `ensemble` learn from the same
rows and predict the same others; the rivals get as many networks as fit into the processor's time that `btl_pcp_sg`
took, found by fits of several numbers: a part of their time does not depend on how many there are. At a number of rows
where `btl_pcp_pe` is affordable, both sample the same posterior: their predictive means are compared in posterior
standard deviations and in Monte-Carlo errors. What is timed is measured `repeats` times, on as many splits, and medians
are returned.
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
from bandgap.storage.packed_draws import packed
from bandgap.storage.tensors import save_tensors
from bandgap.structures.reading import read_paths
from bandgap.transfer import METHODS, TargetData
from benchmarks.kept_parts import Parts, file_digest
from benchmarks.medians import medians

OURS, EXACT = "btl_pcp_sg", "btl_pcp_pe"
RIVALS: Final[Mapping[str, str]] = {
    "ensemble": "members",
    "nptl": "samples",
}  # setting that holds their networks
FEW, MANY, GROWTH = (
    8,
    400,
    8,
)  # networks of the first fit, at most, and at most times as many as in the fit before
REFITS, NEAR = (
    3,
    0.9,
)  # fits after the first, which end once a rival takes this share of the sampler's time
FILE = Path("qm9_gap") / "qm9_gap.extxyz.gz"


@dataclass(frozen=True)
class SgmcmcBenchmark:
    """Rows to train on and to test on, rows of the comparison with HMC, sizes at which a step is timed, its iterations.

    `draws` and `warmup` are iterations of `btl_pcp_sg`, None for its own.
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
                f"benchmark sgmcmc: {self.n} rows, {self.n_test} for testing, {self.n_exact} with HMC, sizes "
                f"{self.sizes}, {self.timed} timed iterations. Accepted: at least 50 rows, 20 for testing, 20 "
                "iterations, sizes up to the number of rows."
            )


def run_benchmark(
    data: Path,
    config: SgmcmcBenchmark,
    *,
    parts: Parts | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure all three; return plain values. What `parts` keeps of an earlier run is not measured again.

    Raises InputError where the data are not in the folder.
    """
    parts, digest = parts or Parts(), file_digest(data / FILE)
    source = load_source(demo_source_folder())

    @lru_cache(maxsize=1)
    def rows(seed: int) -> tuple[Table, Table]:
        count = config.n + config.n_test
        table = read_rows(data, source, count=count, seed=seed, cache=cache, progress=progress)
        return table.rows(np.arange(config.n)), table.rows(np.arange(config.n, len(table)))

    def of_split(split_config: SgmcmcBenchmark) -> dict[str, Any]:
        train, test = rows(split_config.seed)
        return {
            "sides": equal_time(source, train, test, split_config),
            "steps": cost_of_a_step(source, train, split_config),
        }

    def of_share(share: float) -> dict[str, float]:
        train, test = rows(config.seed)
        settings = ours(config) | {"prune_share": share}
        return measured(source, TargetData(train.features, train.gaps_eV), settings, test, config)

    split_config = replace(config, repeats=1, prune_shares=())
    about = asdict(split_config) | {"data": digest}  # what the figures of a part depend on
    splits: list[dict[str, Any]] = []
    for repeat in reversed(
        range(config.repeats)
    ):  # the first split last, as the rest is measured on it
        progress(Update("equal time", len(splits), config.repeats))
        split = replace(split_config, seed=config.seed + repeat)
        splits.insert(0, parts.get("split", about | {"seed": split.seed}, partial(of_split, split)))
    pruned = {}
    for share in config.prune_shares:
        progress(Update("pruning", message=f"share {share:g}"))
        pruned[f"{share:g}"] = parts.get(
            "pruned", about | {"prune_share": share}, partial(of_share, share)
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
    """Return molecules in a random order, described as the source's are."""
    path = data / FILE
    if not path.is_file():
        raise InputError(f"{path}: no such file. Give the folder that holds {FILE}.")
    records = read_paths([path])
    if count > len(records):
        raise InputError(
            f"{path}: {len(records)} molecules, {count} are asked for. Ask for fewer rows."
        )
    order = np.random.default_rng(seed).permutation(len(records))[:count]
    selected = [records[i] for i in order]
    gaps = labels_from_info(selected, "gap_eV")
    return learnable(
        selected, gaps, descriptor=source.descriptor, cache=cache, n_jobs=1, progress=progress
    )


def equal_time(
    source: SourceModel, train: Table, test: Table, config: SgmcmcBenchmark
) -> dict[str, dict[str, float]]:
    """Return figures of every side, rivals with as many networks as fit into the time of the sampler."""
    data = TargetData(train.features, train.gaps_eV)
    figures_of_sides = {OURS: measured(source, data, ours(config), test, config)}
    seconds = figures_of_sides[OURS]["seconds"]
    for name in config.rivals:
        count, tried = FEW, []
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
    """Return how many networks fit into the seconds, by a line through the last two fits of (networks, seconds).

    >>> affordable([(8, 103.0), (16, 118.0)], 218.0)
    69
    """
    (before, quicker), (count, spent) = tried[-2] if len(tried) > 1 else (0, 0.0), tried[-1]
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
    """Return figures of the sampler: errors, seconds of fit and prediction, megabytes of its stored draws."""
    posterior, seconds = timed_fit(OURS, source, data, settings, seed=config.seed)
    posterior.predictive_draws(test.features[:4])  # compiles what evaluates draws
    began = time.process_time()
    result = figures(posterior, test)
    result |= {"seconds": seconds, "prediction_seconds": time.process_time() - began}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "draws.safetensors"
        save_tensors(packed(posterior.to_arrays()), path)
        result["stored_MB"] = path.stat().st_size / 1e6
    return result | dict(posterior.diagnostics.figures)


def ours(config: SgmcmcBenchmark) -> dict[str, Any]:
    """Return the settings of the sampler."""
    lengths = {"warmup": config.warmup, "draws": config.draws}
    return {"sampler": {name: value for name, value in lengths.items() if value is not None}}


def networks(name: str, count: int) -> dict[str, Any]:
    """Return the settings of a rival with so many networks."""
    return {RIVALS[name]: count}


def timed_fit(
    name: str, source: SourceModel, data: TargetData, settings: Mapping[str, Any], *, seed: int
) -> tuple[Posterior, float]:
    """Return a method's posterior and the seconds of the processor that it took in this process."""
    method, began = METHODS[name], time.process_time()
    posterior = method.fit(source, data, method.configure(settings), seed=seed, device="cpu")
    return posterior, time.process_time() - began


def figures(posterior: Posterior, test: Table) -> dict[str, float]:
    """Return RMSE and CRPS in eV and the coverage of 90 % on the test rows."""
    draws = posterior.predictive_draws(test.features)
    mean, sd = draws.flat_means_eV.mean(0), mixture_sd(draws.centres_eV, draws.sds_eV)
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.05, 0.95])
    return {
        "rmse_eV": rmse(test.gaps_eV, mean),
        "crps_eV": crps_gaussian(test.gaps_eV, mean, sd=sd),
        "coverage": coverage(test.gaps_eV, low, upper=high),
    }


def compare_with_exact(
    source: SourceModel, train: Table, test: Table, config: SgmcmcBenchmark
) -> dict[str, Any]:
    """Return how predictions of both samplers of one posterior differ, at few rows."""
    subset = train.rows(np.arange(config.n_exact))
    data, result, means_eV = TargetData(subset.features, subset.gaps_eV), {}, {}
    for name, settings in ((EXACT, {}), (OURS, ours(config))):
        began = time.perf_counter()  # HMC may run its chains in processes of their own
        posterior, _ = timed_fit(name, source, data, settings, seed=config.seed)
        seconds = time.perf_counter() - began
        means_eV[name] = posterior.mean_draws_eV(test.features)
        result[name] = figures(posterior, test) | {"seconds": seconds}
        result[name]["rhat_max"] = posterior.diagnostics.figures["rhat_max"]
    return result | {"difference": differences(means_eV[EXACT], means_eV[OURS])}


def differences(exact: np.ndarray[Any, Any], ours_: np.ndarray[Any, Any]) -> dict[str, float]:
    """Return medians over rows from draws (chain, draw, n) of the mean by both samplers.

    `means_in_sd`: the means' absolute difference over the exact sd; `means_in_errors`: over their combined Monte-Carlo
    error; `sd_ratio`: ours over exact.
    """
    sd = exact.std((0, 1))
    difference = np.abs(ours_.mean((0, 1)) - exact.mean((0, 1)))
    error = np.hypot(diagnostics.mean_error(exact), diagnostics.mean_error(ours_))
    return {
        "means_in_sd": float(np.median(difference / sd)),
        "means_in_errors": float(np.median(difference / error)),
        "sd_ratio": float(np.median(ours_.std((0, 1)) / sd)),
    }


def cost_of_a_step(source: SourceModel, train: Table, config: SgmcmcBenchmark) -> dict[str, float]:
    """Return milliseconds of an iteration of the sampler by number of rows, the start's search left out.

    The difference between runs of which one is longer by `timed` iterations.
    """
    ms_by_rows = {}
    for n in config.sizes:
        part = train.rows(np.arange(n))
        data, spent = TargetData(part.features, part.gaps_eV), []
        for draws in (20, 20 + config.timed):
            settings = {
                "sampler": {"warmup": 10, "draws": draws, "search": 10, "keep": 8, "step": 1e-8}
            }
            spent.append(timed_fit(OURS, source, data, settings, seed=config.seed)[1])
        ms_by_rows[str(n)] = 1e3 * (spent[1] - spent[0]) / config.timed
    return ms_by_rows

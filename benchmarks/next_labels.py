"""Labels saved by choosing what to compute next, against labels chosen at random.

A method learns from a few random structures of a pool. A strategy then chooses batches of
structures from the rest of the pool, whose gaps are added, and the method is trained again. All
strategies of a seed start from the same structures and are scored on the same test structures. The
strategies are those of `bandgap compute-next`: "reduction" is the expected reduction of the error
over the pool, "improvement" the expected improvement for a target window.

The window of a set is a range in which few of its gaps lie. Its figure is the number of labelled
structures whose gap is in the window.

All figures of a strategy on a seed are reused if each number of labels is stored, and data, number
of test rows, descriptor, source and numbers of labels are unchanged.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student_t

from bandgap.datasets.demo import demo_source_folder
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import rmse
from bandgap.foundation.errors import InputError
from bandgap.foundation.json_lines import append_line, read_lines
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.acquisition import joint_means, rank
from bandgap.predictions.details import joint_subset
from bandgap.predictions.table import LEVELS
from bandgap.predictions.window import Window
from bandgap.predictions.window_ranking import rank_for_window
from bandgap.sources.no_source import descriptor_for_labelled
from bandgap.sources.sets import open_sources
from bandgap.storage.result_folders import check_table_folder
from bandgap.transfer import TargetData, get_method
from benchmarks.crystal_facts import facts_of
from benchmarks.crystals import SETS, CrystalSet, check_files, labelled_of
from benchmarks.metals import PEROVSKITES as METALS
from benchmarks.method_start import MethodStart

STRATEGIES: Final = ("random", "reduction", "improvement")
RESULTS: Final = "next.jsonl"

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True)
class NextSet:
    """A set with its method, target window, and number of test structures.

    Only `n_described` structures, drawn once, are used.
    """

    crystals: CrystalSet
    method: str
    window: Window
    n_test: int
    n_described: int


NEXT_SETS: Final[Mapping[str, NextSet]] = {
    "organic": NextSet(SETS["organic"], "feature_gp", Window(1.5, 2.0), 400, 1200),
    "perovskites": NextSet(SETS["perovskites"], "gaussian_process", Window(1.6, 1.9), 103, 353),
    "metals": NextSet(METALS, "gaussian_process", Window(1.5, 2.5), 200, 700),
}


@dataclass(frozen=True)
class NextBenchmark:
    """Sets, strategies and seeds, and the numbers of labels.

    `n_start` labels are random, then batches of `batch` are added up to `n_most`. `pool` is the
    number of structures to choose from, the first ones included.
    """

    sets: tuple[str, ...] = tuple(NEXT_SETS)
    strategies: tuple[str, ...] = STRATEGIES
    seeds: tuple[int, ...] = tuple(range(10))
    n_start: int = 20
    n_most: int = 120
    batch: int = 10
    pool: int = 400

    def __post_init__(self) -> None:
        """Raise InputError for an unknown set or strategy, and for numbers that do not fit."""
        for name in self.sets:
            if name not in NEXT_SETS:
                raise InputError(f"set {name!r}. Accepted: {', '.join(NEXT_SETS)}.")
        for name in self.strategies:
            if name not in STRATEGIES:
                raise InputError(f"strategy {name!r}. Accepted: {', '.join(STRATEGIES)}.")
        if not 2 <= self.n_start <= self.n_most <= self.pool or self.batch < 1:
            raise InputError(
                f"n_start {self.n_start}, n_most {self.n_most}, pool {self.pool}, batch "
                f"{self.batch}. Accepted: 2 <= n_start <= n_most <= pool, batch from 1."
            )

    @property
    def sizes(self) -> list[int]:
        """The numbers of labels with which the method is trained."""
        return [*range(self.n_start, self.n_most, self.batch), self.n_most]


@dataclass(frozen=True)
class NextFit:
    """Figures after a number of labels. `in_window` counts labels whose gap is in the window.

    `made_of` are the other inputs that the figures depend on, by name.
    """

    set: str
    strategy: str
    seed: int
    n: int
    rmse_eV: float
    in_window: int
    n_pool_in_window: int
    made_of: Mapping[str, Any] = field(default_factory=dict)


def run_next(
    data: Path,
    out: Path,
    config: NextBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[NextFit]:
    """Yield the figures of every number of labels. Those that `out` contains are not recomputed.

    Raises
    ------
    InputError
        If a file is missing in `data`, before any fit.
    """
    for name in config.sets:
        check_files(data, NEXT_SETS[name].crystals)
    check_table_folder(out, RESULTS)
    out.mkdir(parents=True, exist_ok=True)
    stored_fits = read_lines(out / RESULTS, lambda values: NextFit(**values), what="fit")
    for name in config.sets:
        next_set = NEXT_SETS[name]
        labelled = _drawn_of(next_set, data, progress)
        start = _start_of(next_set, labelled)
        facts = facts_of(labelled, next_set.n_test, start.descriptor, source=start.fingerprint)
        facts["labels"] = [config.n_start, config.n_most, config.batch, config.pool]
        missing_curves = []
        for curve in itertools.product(config.seeds, config.strategies):
            done = {
                fit.n: fit
                for fit in stored_fits
                if (fit.set, (fit.seed, fit.strategy), fit.made_of) == (name, curve, facts)
            }
            if sorted(done) == config.sizes:
                yield from done.values()
            else:
                missing_curves.append(curve)
        if not missing_curves:
            continue
        table = learnable(
            labelled.records,
            labelled.gaps_eV,
            descriptor=start.descriptor,
            cache=cache,
            n_jobs=n_jobs,
            progress=progress,
        )
        for seed, strategy in missing_curves:
            progress(Update(f"{name}, seed {seed}, {strategy}"))
            for figures in _curve(name, table, start, config, seed=seed, strategy=strategy):
                fit = replace(figures, made_of=facts)
                append_line(out / RESULTS, asdict(fit))
                yield fit


def _curve(
    name: str,
    table: Table,
    start: MethodStart,
    config: NextBenchmark,
    *,
    seed: int,
    strategy: str,
) -> Iterator[NextFit]:
    """Yield the figures of a strategy on the split of a seed, for every number of labels."""
    next_set = NEXT_SETS[name]
    split = permuted_split(table.ids, n_test=next_set.n_test, n_train=None, seed=seed)
    pool = table.rows(split.train[: config.pool])
    test = table.rows(split.test)
    learner = _Learner(next_set.method, next_set.window, start, seed)
    is_inside = _is_inside(next_set.window, pool.gaps_eV)
    for n, test_mean, labelled in choose_labels(
        learner, pool, test, strategy=strategy, config=config
    ):
        yield NextFit(
            name,
            strategy,
            seed,
            n,
            rmse(test.gaps_eV, test_mean),
            in_window=int(is_inside[labelled].sum()),
            n_pool_in_window=int(is_inside.sum()),
        )


def choose_labels(
    learner: "_Learner", pool: Table, test: Table, *, strategy: str, config: NextBenchmark
) -> Iterator[tuple[int, Floats, Rows]]:
    """Yield number of labels, mean predictions of the test rows and labelled rows of the pool.

    Raises InputError if the pool has fewer structures than are to be labelled.
    """
    if len(pool) < config.n_most:
        raise InputError(
            f"The pool has {len(pool):,} structures, but {config.n_most:,} are to be labelled. "
            "Ask for fewer."
        )
    order = np.arange(len(pool), dtype=np.int64)
    labelled = order[: config.n_start]
    while True:
        unlabelled = np.setdiff1d(order, labelled)
        n_batch = min(config.batch, config.n_most - labelled.size, unlabelled.size)
        is_last = n_batch <= 0
        features = test.features
        if not is_last and strategy != "random":
            features = np.concatenate([test.features, pool.features[unlabelled]])
        draws = learner.predict(pool.rows(labelled), features)
        test_draws = rows_of(draws, np.arange(len(test)))
        yield labelled.size, mean_of(test_draws), labelled
        if is_last:
            return
        if strategy == "random":
            rows = unlabelled[:n_batch]
        else:
            candidates = rows_of(draws, np.arange(len(test), len(features)))
            rows = unlabelled[ranked(candidates, strategy, n_batch, learner.window)]
        labelled = np.concatenate([labelled, rows])


def ranked(draws: PredictiveDraws, strategy: str, count: int, window: Window) -> Rows:
    """Return the candidates that a strategy chooses, best first, as `next_structures` does."""
    n = draws.centres_eV.shape[1]
    rows, means_eV, noise = joint_subset(draws.flat_means_eV, draws.noise_variance, np.arange(n))
    if strategy == "reduction":
        return rank(joint_means(means_eV, noise), count).rows
    quantiles_eV = draws.gaps.quantiles(LEVELS)
    return rank_for_window(
        means_eV,
        noise,
        window,
        goal="improvement",
        single_scores=window.expected_depth_eV(quantiles_eV, LEVELS)[rows],
        count=count,
        quantiles_eV=None if draws.p_metal is None else quantiles_eV[:, rows],
    ).rows


def rows_of(draws: PredictiveDraws, rows: Rows) -> PredictiveDraws:
    """Return the draws of some of the structures."""
    return PredictiveDraws(
        draws.means_eV[..., rows],
        draws.centres_eV[:, rows],
        draws.sds_eV if draws.sds_eV.ndim == 1 else draws.sds_eV[:, rows],
        None if draws.p_metal is None else draws.p_metal[rows],
    )


def mean_of(draws: PredictiveDraws) -> Floats:
    """Return the means that a prediction states, (n,), in eV."""
    mean: Floats = draws.flat_means_eV.mean(axis=0)
    return mean


def labels_needed(sizes: Sequence[int], errors: Floats, error: float) -> float:
    """Return the number of labels with which a curve first reaches an error.

    Between two sizes the error is interpolated linearly; NaN where it is never reached.
    """
    for k, value in enumerate(errors):
        if value <= error:
            if k == 0:
                return float(sizes[0])
            share = (errors[k - 1] - error) / (errors[k - 1] - value)
            return float(sizes[k - 1] + share * (sizes[k] - sizes[k - 1]))
    return float("nan")


def paired_difference(errors: Floats, random_errors: Floats) -> str:
    """Return the mean difference to random labels over all sizes but the first, with its interval.

    Errors are (seed, size) of the same seeds. The interval is that of the mean over seeds at 95 %,
    by Student's t.
    """
    differences = (errors[:, 1:] - random_errors[:, 1:]).mean(axis=1)
    n = differences.size
    if n < 2:
        return f"{differences.mean():+.3f}"
    half = student_t.ppf(0.975, n - 1) * differences.std(ddof=1) / np.sqrt(n)
    return f"{differences.mean():+.3f} +- {half:.3f}"


def saved_share(sizes: Sequence[int], errors: Floats, random_errors: Floats) -> str:
    """Return the number of labels for the error of the most random labels, "more" if none does.

    Errors are (seed, size). The curves are the means over seeds.
    """
    target = float(random_errors.mean(axis=0)[-1])
    n_labels = labels_needed(sizes, errors.mean(axis=0), target)
    return f"more than {sizes[-1]}" if np.isnan(n_labels) else f"{n_labels:.0f} of {sizes[-1]}"


def figures_by_strategy(
    fits: Sequence[NextFit], set_name: str, figure: str
) -> dict[str, tuple[list[int], Floats]]:
    """Return the sizes and the figure (seed, size) of each strategy, of the complete seeds."""
    result = {}
    for strategy in dict.fromkeys(fit.strategy for fit in fits if fit.set == set_name):
        strategy_fits = [f for f in fits if (f.set, f.strategy) == (set_name, strategy)]
        sizes = sorted({fit.n for fit in strategy_fits})
        values = {(fit.seed, fit.n): float(getattr(fit, figure)) for fit in strategy_fits}
        seeds = sorted({fit.seed for fit in strategy_fits})
        complete = [seed for seed in seeds if all((seed, n) in values for n in sizes)]
        result[strategy] = (sizes, np.array([[values[s, n] for n in sizes] for s in complete]))
    return result


@dataclass(frozen=True, eq=False)
class _Learner:
    """A method with its source, which is trained on any number of labels."""

    method: str
    window: Window
    start: MethodStart
    seed: int

    def predict(self, train: Table, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return the draws of structures after training."""
        data = TargetData(train.features, train.gaps_eV)
        posterior = self.start.posterior(get_method(self.method), data, seed=self.seed)
        return posterior.predictive_draws(features)


def _is_inside(window: Window, gaps_eV: Floats) -> NDArray[np.bool_]:
    result: NDArray[np.bool_] = (window.lower_eV <= gaps_eV) & (gaps_eV <= window.upper_eV)
    return result


def _drawn_of(next_set: NextSet, data: Path, progress: Progress) -> LabelledSet:
    """Return the structures of a set that are used, drawn once."""
    labelled = labelled_of(next_set.crystals, data, progress)
    n = len(labelled.records)
    drawn = np.sort(np.random.default_rng(0).permutation(n)[: next_set.n_described])
    records = [labelled.records[i] for i in drawn]
    return LabelledSet(records, labelled.gaps_eV[drawn], labelled.level_of_theory)


def _start_of(next_set: NextSet, labelled: LabelledSet) -> MethodStart:
    """Return what the method of a set starts from.

    Structures with elements that the source lacks cannot be described.
    """
    if get_method(next_set.method).transfers:
        members = open_sources(demo_source_folder()).load(verify=False)
        return MethodStart(next(iter(members[0].values())).descriptor, members)
    return MethodStart(descriptor_for_labelled(labelled.records, labelled.gaps_eV))

"""Metals among the labels: a probability of a metal against zeros learned as any other gap.

Perovskites ABX3 with GLLB-SC gaps, of which some 70 % are metals. On every split a method is fitted
twice: with the classifier of metals (`transfer.shared.metals`), and to all gaps, zeros included,
with predictive distributions that are not cut at zero. Both sides have the same test rows. A stored
fit is reused if data, number of test rows, descriptor and source are unchanged.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.gap_scores import area_under_roc
from bandgap.evaluation.metrics import coverage, crps_mixture_each, mean_width, rmse
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.runs.compared_fits import ComparedFit, append_fit
from bandgap.runs.fitting import fit_gaps, fit_members
from bandgap.runs.origin import descriptor_taken
from bandgap.sources.measured_errors import NO_SOURCE, MeasuredError
from bandgap.sources.sets import open_sources
from bandgap.storage.result_folders import check_table_folder
from bandgap.transfer import TargetData, get_method
from benchmarks.crystal_facts import facts_of, reusable_fits
from benchmarks.crystals import (
    CrystalSet,
    all_elements,
    check_files,
    check_potentials,
    descriptor_without_source,
    labelled_of,
    parts_of,
    rows_of_fits,
)
from benchmarks.method_start import MethodStart
from benchmarks.paired import append_errors

PEROVSKITES: Final = CrystalSet(
    "perov5_gllb/cifs.zip",
    "perov5_gllb/perov5_gllb.csv",
    "GLLB-SC",
    (400,),
    200,
    kind="inorganic perovskites with metals among them, GLLB-SC",
)
RESULTS: Final = "metals.jsonl"
ERRORS: Final = "metals-errors.jsonl"  # errors and CRPS of single structures
AS_GAPS: Final = ", zeros as gaps"  # after the name of a method
LEVEL: Final = 0.95
LARGE_EV: Final = 1.0  # mean prediction from which coverage is measured apart
CERTAIN: Final = 0.95  # probability of a metal from which the width is measured apart

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class MetalsBenchmark:
    """Methods, splits, whether zeros are also learned as gaps, and what methods start from.

    `source` is the folder of the source of transfer methods. `potentials` are up to two pretrained
    potentials for methods without a source, None for those that are installed, as in a run.
    """

    methods: tuple[str, ...] = ("stacking",)
    sizes: tuple[int, ...] = PEROVSKITES.sizes
    n_test: int = PEROVSKITES.n_test
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    potentials: tuple[str, ...] | None = None
    source: Path | None = None
    zeros_as_gaps: bool = True

    def __post_init__(self) -> None:
        """Raise ConfigError for unknown names, and InputError for a method that lacks a source."""
        if self.potentials is not None:
            check_potentials(self.potentials)
        for name in self.methods:
            if get_method(name).transfers and self.source is None:
                raise InputError(
                    f"method {name!r} needs a source. Give one, or a method without transfer."
                )


def run_metals(
    data: Path,
    out: Path,
    config: MetalsBenchmark,
    *,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[ComparedFit]:
    """Yield the sides of every split of every method. Stored fits of `out` come first.

    The method of a fit to all gaps has `AS_GAPS` after its name. A figure of no row is left out.

    Raises
    ------
    InputError
        If a file is missing in `data`, before any fit.
    """
    check_files(data, PEROVSKITES)
    check_table_folder(out, RESULTS, ERRORS)
    out.mkdir(parents=True, exist_ok=True)
    labelled = labelled_of(PEROVSKITES, data, progress)
    for name in config.methods:
        start = _start(name, labelled, config)
        facts = facts_of(labelled, config.n_test, start.descriptor, source=start.fingerprint)
        keys = [
            (side, n, seed)
            for n in config.sizes
            for seed in config.seeds
            for side in ([f"{name}{AS_GAPS}"] if config.zeros_as_gaps else []) + [name]
        ]
        stored = reusable_fits(out / RESULTS, keys, facts)
        done = {key: fit for key, fit in stored.items() if "expected_coverage" in fit.figures}
        yield from done.values()
        missing_keys = [key for key in keys if key not in done]
        if not missing_keys:
            continue
        table = learnable(
            labelled.records,
            labelled.gaps_eV,
            descriptor=start.descriptor,
            cache=cache,
            n_jobs=n_jobs,
            progress=progress,
        )
        for position, (side, n, seed) in enumerate(missing_keys):
            message = f"n = {n}, seed {seed}"
            progress(Update(side, position, len(missing_keys), message=message))
            train, test = parts_of(table, labelled, n=n, n_test=config.n_test, seed=seed)
            learned = TargetData(train.features, train.gaps_eV)
            started = time.perf_counter()
            fit_side = fit_gaps if side.endswith(AS_GAPS) else fit_members
            posterior = start.posterior(get_method(name), learned, seed=seed, fit=fit_side)
            draws = posterior.predictive_draws(test.features)
            seconds = time.perf_counter() - started
            crps_eV = _crps_eV(draws, test.gaps_eV)
            figures = {
                "crps_eV": float(crps_eV.mean()),
                **figures_of_side(draws, test.gaps_eV),
            }
            fit = ComparedFit(side, n, seed, figures, seconds, made_of=facts)
            errors_eV = draws.flat_means_eV.mean(axis=0) - test.gaps_eV
            append_errors(
                out / ERRORS, side, n, seed, _by_id(test, errors_eV), _by_id(test, crps_eV)
            )
            append_fit(out / RESULTS, fit)
            yield fit


def measured_rows(
    fits: Sequence[ComparedFit], config: MetalsBenchmark, *, date: str, command: str
) -> list[MeasuredError]:
    """Return the rows of the table of measured errors, of fits with the classifier of metals."""
    return rows_of_fits(
        [fit for fit in fits if not fit.method.endswith(AS_GAPS)],
        kind=PEROVSKITES.kind,
        n_test=config.n_test,
        source=NO_SOURCE if config.source is None else config.source.name,
        potentials=config.potentials,
        date=date,
        command=command,
    )


def _start(name: str, labelled: LabelledSet, config: MetalsBenchmark) -> MethodStart:
    method = get_method(name)
    if config.source is None or not method.transfers:
        return MethodStart(descriptor_without_source(labelled, config.potentials))
    members = open_sources(config.source).load(verify=False)
    descriptor = next(iter(members[0].values())).descriptor
    elements = all_elements(labelled)
    return MethodStart(descriptor_taken(descriptor, method, elements) or descriptor, members)


def _by_id(table: Table, values: Floats) -> dict[str, float]:
    return dict(zip(table.ids, values.tolist(), strict=True))


def _crps_eV(draws: PredictiveDraws, gaps_eV: Floats) -> Floats:
    """Return the CRPS (n,) in eV; not cut at zero without a probability of a metal."""
    if draws.p_metal is None:
        return crps_mixture_each(gaps_eV, draws.centres_eV, sds=draws.sds_eV)
    return draws.gaps.crps_eV(gaps_eV)


def figures_of_side(draws: PredictiveDraws, gaps_eV: Floats) -> dict[str, float]:
    """Return figures of predictive draws on gaps (n,) in eV, without those of no row and the CRPS.

    `n_large` and `n_certain` are the numbers of rows of two of them. Without a probability of a
    metal, the score of a metal is minus the mean, and the distribution is not cut at zero.
    `expected_coverage` is the mean probability of the 95 % intervals by the distributions
    themselves (`interval_probabilities`).
    """
    mean = draws.flat_means_eV.mean(axis=0)
    if draws.p_metal is None:
        tails = [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0]
        lower, upper = mixture_quantiles(draws.centres_eV, draws.sds_eV, tails)
        inside = np.full(mean.size, LEVEL)
        score = -mean
        is_certain = np.zeros(mean.size, dtype=bool)
    else:
        lower, upper = draws.gaps.interval(LEVEL)
        below = np.where(lower > 0, draws.gaps.cdf(lower), 0.0)
        inside = draws.gaps.cdf(upper) - below
        score = draws.p_metal
        is_certain = draws.p_metal > CERTAIN
    is_large = mean > LARGE_EV
    figures = {
        "rmse_eV": rmse(gaps_eV, mean),
        "auc": area_under_roc(gaps_eV <= ZERO_EV, score),
        "coverage_95": coverage(gaps_eV, lower, upper=upper),
        "expected_coverage": float(inside.mean()),
        "below_zero": float((lower < 0).mean()),
        "width_eV": mean_width(lower, upper),
        "n_large": float(is_large.sum()),
        "n_certain": float(is_certain.sum()),
    }
    if is_large.any():
        figures["coverage_large"] = coverage(
            gaps_eV[is_large], lower[is_large], upper=upper[is_large]
        )
    if is_certain.any():
        figures["width_certain_eV"] = mean_width(lower[is_certain], upper[is_certain])
    return figures

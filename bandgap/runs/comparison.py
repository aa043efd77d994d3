"""Methods beside each other on one labelled set: several sizes of the training set, several splits, one row a fit.

Every method sees the same rows, the same source and the same seeds. Two rows need no fit and stand beside them: the
mean of the training gaps, and the source network recalibrated by a straight line.
"""

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table
from bandgap.descriptors import MBTRConfig, n_features
from bandgap.descriptors.electron_levels import METHOD, Levels
from bandgap.evaluation.metrics import evaluate_predictions, rmse
from bandgap.foundation.config import fingerprint
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.errors import BandgapError, Cancelled, InputError
from bandgap.foundation.machine import set_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.predictions.mixtures import mixture_quantiles, mixture_sd
from bandgap.runs.compared_fits import ComparedFit, Facts, fit_key, reusable_fits
from bandgap.runs.compared_tables import Compared, Given, Members
from bandgap.runs.fitting import fit_members
from bandgap.runs.results import LEVEL, conformal_figures, conformal_scores
from bandgap.runs.split_rows import split_of
from bandgap.sources.head_choice import choose_head
from bandgap.sources.recalibration import source_gaps_eV, standardiser_for
from bandgap.sources.stored import source_fingerprint
from bandgap.transfer import TargetData, get_method, without_source

CONSTANT, SOURCE_ALONE = "mean of the training gaps", "source, recalibrated"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Comparison:
    """What is compared: methods with their settings, sizes of the training set, seeds, number of test rows.

    Of each training set a share is held back for conformal intervals, as `transfer_run` does. A method named NAME@K
    starts from the first K networks of the source only, one named NAME+levels is given electron levels.
    """

    methods: Mapping[str, Mapping[str, Any]]
    sizes: tuple[int, ...] = (100, 250, 500, 1000)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_test: int = 700
    conformal_share: float = 0.0

    def __post_init__(self) -> None:
        for name, settings in self.methods.items():
            get_method(entrant_of(name).method).configure(settings)
        if not self.sizes or not self.seeds or min(self.sizes) < 1 or self.n_test < 2:
            raise InputError(
                f"comparison: sizes {self.sizes}, seeds {self.seeds}, {self.n_test} test rows. Accepted: at least one "
                "size and one seed, and 2 test rows."
            )


@dataclass(frozen=True)
class Entrant:
    """A method as it takes part: from how many networks of the source (None: all), and whether it is given levels."""

    method: str
    networks: int | None
    levels: bool


def entrant_of(name: str) -> Entrant:
    """Return what NAME, NAME@K or NAME+levels means; raises InputError for another form.

    >>> entrant_of("fine_tune@1"), entrant_of("feature_gp+levels")
    (Entrant(method='fine_tune', networks=1, levels=False), Entrant(method='feature_gp', networks=None, levels=True))
    """
    rest, plus, what = name.partition("+")
    plain, at, count = rest.partition("@")
    if (at and not (count.isdigit() and int(count))) or (plus and what != "levels"):
        raise InputError(
            f"method {name!r}. Write NAME, or NAME@K for the first K networks of the source, and either with +levels "
            "for a method that is given electron levels."
        )
    return Entrant(plain, int(count) if at else None, bool(plus))


def levels_of(names: Iterable[str]) -> Levels:
    """Return which levels the table of these methods must hold."""
    return METHOD if any(entrant_of(name).levels for name in names) else "none"


def compare(
    members: Members | MBTRConfig,
    table: Table,
    comparison: Comparison,
    *,
    head: str | None = None,
    device: str = "auto",
    done: Sequence[ComparedFit] = (),
    progress: Progress = no_progress,
) -> Iterator[ComparedFit]:
    """Yield the figures of every method on every split as they come.

    Fits in `done` are not computed again where they were made of the same (`facts_by_method`).

    A method that cannot be fitted on a split says why (`ComparedFit.failed`), and the others go on.

    `members` are the source models by output, for each network; without a source the descriptor, for methods without
    transfer. Electron levels are the features of the table beyond those of the source (`levels_of`). Raises InputError
    when there are too few rows, ConfigError for a method that transfers where there is no source.
    """
    of_source = not isinstance(members, MBTRConfig)
    for name in () if of_source else comparison.methods:
        without_source(entrant_of(name).method)
    compared = compared_of(members, table)
    yield from compare_given(compared, comparison, head=head, device=device, done=done, progress=progress)


def compared_of(members: Members | MBTRConfig, table: Table) -> Compared:
    """Return what the methods of `compare` are given: all of them the same table and source, or descriptor."""
    given = Given(() if isinstance(members, MBTRConfig) else members, descriptor_of(members), table)
    return Compared(given, len(table))


def facts_by_method(compared: Compared, comparison: Comparison, *, head: str | None = None) -> dict[str, Facts]:
    """Return what the fits of every method depend on beside size, split and share held back.

    These are the rows with their gaps, the number of test rows, the descriptor, the networks of the source, the set of
    the source that was asked for, the settings, and the version of this package (`compared_fits.DIFFERENCES`). Where a
    kept fit has others, it is a fit of something else. The device is left out: it changes rounding and seconds alone.
    """
    contents = {id(given): given.table.content() for given in compared.distinct}
    networks = {
        id(given): [[source_fingerprint(model) for model in member.values()] for member in given.members]
        for given in compared.distinct
    }
    version = importlib.metadata.version("bandgap")
    facts: dict[str, Facts] = {}
    for name in _names(compared, comparison):
        entrant = entrant_of(name) if name in comparison.methods else Entrant("", None, False)
        given = compared.of(entrant.method) if entrant.method else compared.beside
        levels: Levels = levels_of([name]) if entrant.method else "none"
        config = get_method(entrant.method).configure(comparison.methods[name]) if entrant.method else None
        sources = networks[id(given)][: entrant.networks]
        facts[name] = {
            "data": contents[id(given)],
            "n_test": comparison.n_test,
            "descriptor": fingerprint(replace(given.descriptor, levels=levels)),
            "source": fingerprint(sources) if sources else "",
            "head": head or "",
            "settings": fingerprint(repr(config)),
            "version": version,
        }
    return facts


def compare_given(
    compared: Compared,
    comparison: Comparison,
    *,
    head: str | None = None,
    device: str = "auto",
    done: Sequence[ComparedFit] = (),
    progress: Progress = no_progress,
) -> Iterator[ComparedFit]:
    """As `compare`, of methods that are not all given the same table; every split has the same test rows for all."""
    tables, among = [given.table for given in compared.distinct], compared.common
    fewest, largest, tested_on = min(len(table) for table in tables), max(comparison.sizes), compared.tested_on
    if largest + comparison.n_test > fewest:
        raise InputError(
            f"{largest} training and {comparison.n_test} test rows are more than the {fewest} labelled structures"
            f"{' that every method takes' if tested_on else ''}. Lower --n or --n-test."
        )
    facts = facts_by_method(compared, comparison, head=head)
    known = {fit_key(fit) for fit in reusable_fits(done, facts)}
    names = _names(compared, comparison)
    wanted = [(n, s, m) for n in comparison.sizes for s in comparison.seeds for m in names]
    work = _Work(compared, among, tested_on, comparison, facts, head, device)
    pairs = [(n, seed) for n in comparison.sizes for seed in comparison.seeds]
    here = (comparison.conformal_share, tested_on)
    splits = [(work, n, seed, [m for m in names if (m, n, seed, *here) not in known]) for n, seed in pairs]
    tasks = [split for split in splits if split[3]]
    place = {where: position for position, where in enumerate(wanted)}

    def note(n: int, seed: int, name: str) -> None:
        message = f"{name}, n = {n}, seed {seed}"
        progress(Update("comparing", place[n, seed, name], len(wanted), message=message))

    if engine_in_use().remote:
        with contextlib.closing(mapped(_fits_in_worker, tasks)) as done_splits:
            for fits in done_splits:
                for fit in fits:
                    note(fit.n, fit.seed, fit.method)
                    yield fit
    else:
        for task in tasks:
            yield from _fits_of_split(*task, note=note)
    progress(Update("comparing", len(wanted), len(wanted)))


@dataclass(frozen=True, eq=False)
class _Work:
    """What every split of a comparison shares; test rows are drawn among the structures of the ids `among`."""

    compared: Compared
    among: Sequence[str]
    tested_on: str
    comparison: Comparison
    facts: Mapping[str, Facts]
    head: str | None
    device: str


def _fits_of_split(
    work: _Work, n: int, seed: int, names: Sequence[str], *, note: Callable[[int, int, str], None]
) -> Iterator[ComparedFit]:
    """Yield the figures of methods on one split, each after `note` was told of it."""
    comparison = work.comparison
    chosen: dict[int, tuple[Members, str]] = {}
    for name in names:
        note(n, seed, name)
        entrant = entrant_of(name) if name in comparison.methods else None
        given = work.compared.beside if entrant is None else work.compared.of(entrant.method)
        table = given.table
        if entrant is None or not entrant.levels:
            table = replace(table, features=table.features[:, : n_features(given.descriptor)])
        split = split_of(
            table,
            n_test=comparison.n_test,
            n_train=n,
            seed=seed,
            conformal_share=comparison.conformal_share,
            among=work.among,
        )
        train, held_back, test = (table.rows(rows) for rows in (split.train, split.held_back, split.test))
        data = TargetData(train.features, train.gaps_eV)
        if id(given) not in chosen:
            members = given.members_for(data)
            asked = work.head if given.members else None
            chosen[id(given)] = members, choose_head(members, data.features, data.gaps_eV, seed=seed, head=asked)[0]
        members, head = chosen[id(given)]
        try:
            fit = _fit_one(name, members, data, held_back, test, comparison, seed=seed, head=head, device=work.device)
        except Cancelled:
            raise
        except BandgapError as error:
            fit = ComparedFit(name, n, seed, {}, 0.0, head, failed=str(error))
        yield replace(
            fit,
            n=n,
            conformal_share=comparison.conformal_share,
            tested_on=work.tested_on,
            made_of=work.facts[name],
            warnings=(*fit.warnings, *(given.warnings if entrant else ())),
        )


def _names(compared: Compared, comparison: Comparison) -> list[str]:
    """Return the methods that are compared, after the rows that need no fit."""
    return [CONSTANT, *([SOURCE_ALONE] if compared.beside.members else []), *comparison.methods]


def _fits_in_worker(work: _Work, n: int, seed: int, names: Sequence[str]) -> list[ComparedFit]:
    set_threads()
    return list(_fits_of_split(work, n, seed, names, note=lambda *place: None))


def descriptor_of(members: Members | MBTRConfig) -> MBTRConfig:
    """Return the descriptor of a source, or the one that is there without a source."""
    return members if isinstance(members, MBTRConfig) else next(iter(members[0].values())).descriptor


def _fit_one(
    name: str,
    members: Members,
    data: TargetData,
    held_back: Table,
    test: Table,
    comparison: Comparison,
    *,
    seed: int,
    head: str,
    device: str,
) -> ComparedFit:
    n, gaps = len(data.gaps_eV), test.gaps_eV
    if name == CONSTANT:
        point = np.full(gaps.size, data.gaps_eV.mean())
        return ComparedFit(name, n, seed, {"rmse_eV": rmse(gaps, point)}, 0.0)
    if name == SOURCE_ALONE:
        models = [member[head] for member in members]
        scales = [standardiser_for(model, data.features, data.gaps_eV) for model in models]
        parts = [source_gaps_eV(m, s, test.features) for m, s in zip(models, scales, strict=True)]
        return ComparedFit(name, n, seed, {"rmse_eV": rmse(gaps, np.mean(parts, axis=0))}, 0.0, head)
    entrant = entrant_of(name)
    method = get_method(entrant.method)
    started = time.perf_counter()
    config = method.configure(comparison.methods[name])
    posterior = fit_members(method, members[: entrant.networks], data, config, head=head, seed=seed, device=device)
    seconds = time.perf_counter() - started
    draws = posterior.predictive_draws(test.features)
    scores = conformal_scores(posterior, held_back) if len(held_back) else None
    spread = {"mean": draws.flat_means_eV.mean(axis=0), "sd": mixture_sd(draws.centres_eV, draws.sds_eV)}
    figures = heldout_figures(draws, gaps) | conformal_figures(scores, gaps, **spread)
    diagnosed = {k: v for k, v in posterior.diagnostics.figures.items() if k in ("rhat_max", "ess_min", "divergences")}
    return ComparedFit(name, n, seed, {**figures, **diagnosed}, seconds, head, posterior.diagnostics.warnings)


def heldout_figures(draws: PredictiveDraws, gaps: Floats) -> dict[str, float]:
    """Return errors, scores, coverage and width of the 95 % prediction interval on known gaps (n,) in eV."""
    ends = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    point = draws.flat_means_eV.mean(axis=0)
    return evaluate_predictions(gaps, draws.centres_eV, sds=draws.sds_eV, lower=ends[0], upper=ends[1], point=point)

"""Comparison of methods on one labelled set, at several sizes and on several splits.

Every method gets the same rows, the same source and the same seeds. Two references need no fit: the
mean of the training gaps, and the source network recalibrated by a straight line.
"""

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table
from bandgap.descriptors import DescriptorConfig, n_features
from bandgap.descriptors.block_settings import ElectronLevels
from bandgap.descriptors.electron_levels import BOTH, HUECKEL, METHOD, MOLECULES
from bandgap.evaluation.error_context import tiny_error_warning
from bandgap.evaluation.gap_scores import gap_figures
from bandgap.evaluation.metrics import rmse
from bandgap.evaluation.near_copies import NEAR_COPIES, near_copy_share
from bandgap.foundation.config import fingerprint
from bandgap.foundation.engines import engine_in_use, mapped
from bandgap.foundation.errors import BandgapError, Cancelled, InputError
from bandgap.foundation.machine import set_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior import PredictiveDraws
from bandgap.runs.compared_fits import ComparedFit, Facts, fit_key, reusable_fits
from bandgap.runs.compared_tables import Compared, Members, MethodInputs
from bandgap.runs.fitting import fit_members, refuse_gaps_as_inputs
from bandgap.runs.results import LEVEL, conformal_figures, conformal_scores, mean_and_sd
from bandgap.runs.split_rows import split_of
from bandgap.sources.head_choice import choose_head
from bandgap.sources.recalibration import source_gaps_eV, standardiser_for
from bandgap.sources.stored import source_fingerprint
from bandgap.transfer import TargetData, get_method, without_source
from bandgap.transfer.shared.method import Fitting

CONSTANT = "mean of the training gaps"
SOURCE_ALONE = "source, recalibrated"
DIAGNOSTICS = ("rhat_max", "ess_min", "divergences")

Floats = NDArray[np.float64]


# Electron levels by the end of an entrant's name, after the plus.
_LEVELS: Final[Mapping[str, ElectronLevels]] = {
    "levels": METHOD,
    "molecules": MOLECULES,
    "hueckel": HUECKEL,
    "both": BOTH,
}


@dataclass(frozen=True)
class Comparison:
    """Methods with their settings, sizes of the training set, seeds, number of test rows.

    A share of each training set is held back for conformal intervals, as in `transfer_run`. With
    `by_formula` all structures of one formula are on the same side of a split. A method named
    NAME@K starts from the first K networks of the source; one named NAME+levels gets electron
    levels, one named NAME+molecules those of the molecules of each crystal, and one named
    NAME+hueckel those by Hückel's method; NAME+both gets these and those of NAME+levels.
    """

    methods: Mapping[str, Mapping[str, Any]]
    sizes: tuple[int, ...] = (100, 250, 500, 1000)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_test: int = 700
    conformal_share: float = 0.0
    by_formula: bool = False

    def __post_init__(self) -> None:
        for name, settings in self.methods.items():
            get_method(entrant_of(name).method).configure(settings)
        if not self.sizes or not self.seeds or min(self.sizes) < 1 or self.n_test < 2:
            raise InputError(
                f"comparison: sizes {self.sizes}, seeds {self.seeds}, {self.n_test} test rows. "
                "Accepted: at least one size and one seed, and 2 test rows."
            )


@dataclass(frozen=True)
class Entrant:
    """A method of a comparison.

    `networks` is the number of networks of the source, None for all. `levels` are the electron
    levels that the method gets.
    """

    method: str
    networks: int | None
    levels: ElectronLevels


def entrant_of(name: str) -> Entrant:
    """Parse NAME, NAME@K or NAME+LEVELS of `_LEVELS`; raises InputError for another form.

    >>> entrant_of("fine_tune@1")
    Entrant(method='fine_tune', networks=1, levels='none')
    >>> entrant_of("feature_gp+levels")
    Entrant(method='feature_gp', networks=None, levels='GFN1-xTB')
    """
    base, plus, suffix = name.partition("+")
    method, at, count = base.partition("@")
    if (at and not (count.isdigit() and int(count))) or (plus and suffix not in _LEVELS):
        raise InputError(
            f"method {name!r}. Write NAME, or NAME@K for the first K networks of the source, and "
            "either with +levels for a method that gets electron levels, +molecules for one that "
            "gets those of the molecules of each crystal, +hueckel for those by Hückel's method, "
            "or +both for these and +levels."
        )
    return Entrant(method, int(count) if at else None, _LEVELS[suffix] if plus else "none")


def levels_of(names: Iterable[str]) -> ElectronLevels:
    """Return the electron levels that the table of these methods must contain.

    Raises InputError if the methods get different ones, as a table contains one kind.
    """
    kinds = {entrant_of(name).levels for name in names} - {"none"}
    if len(kinds) > 1:
        raise InputError(
            "methods with different electron levels (such as +levels and +hueckel) are compared "
            "together. Compare them one after another, in different folders."
        )
    return kinds.pop() if kinds else "none"


def compared_of(members: Members | DescriptorConfig, table: Table) -> Compared:
    """Return the inputs of a comparison with one table, and one source or descriptor, for all."""
    inputs = MethodInputs(
        () if isinstance(members, DescriptorConfig) else members, descriptor_of(members), table
    )
    return Compared(inputs, len(table))


def facts_by_method(
    compared: Compared, comparison: Comparison, *, head: str | None = None
) -> dict[str, Facts]:
    """Return the inputs of the fits of every method, except size, split and share held back.

    These are the rows with their gaps, the number of test rows, the grouping of the split, the
    descriptor, the networks of the source, the requested output, the settings, and the version of
    this package (`compared_fits.DIFFERENCES`). A stored fit with other inputs is not reused. The
    device is not an input: it changes rounding and time only.
    """
    contents = {id(inputs): inputs.table.content() for inputs in compared.distinct}
    networks = {
        id(inputs): [
            [source_fingerprint(model) for model in member.values()] for member in inputs.members
        ]
        for inputs in compared.distinct
    }
    version = importlib.metadata.version("bandgap")
    facts: dict[str, Facts] = {}
    for name in _names(compared, comparison):
        entrant = entrant_of(name) if name in comparison.methods else Entrant("", None, "none")
        inputs = compared.of(entrant.method) if entrant.method else compared.reference
        levels: ElectronLevels = levels_of([name]) if entrant.method else "none"
        config = (
            get_method(entrant.method).configure(comparison.methods[name])
            if entrant.method
            else None
        )
        sources = networks[id(inputs)][: entrant.networks]
        facts[name] = {
            "data": contents[id(inputs)],
            "n_test": comparison.n_test,
            "descriptor": fingerprint(replace(inputs.descriptor, levels=levels)),
            "source": fingerprint(sources) if sources else "",
            "head": head or "",
            "settings": fingerprint(repr(config)),
            "by_formula": comparison.by_formula,
            "version": version,
        }
    return facts


def compare(
    compared: Compared,
    comparison: Comparison,
    *,
    head: str | None = None,
    device: str = "auto",
    done: Sequence[ComparedFit] = (),
    progress: Progress = no_progress,
) -> Iterator[ComparedFit]:
    """Yield the figures of every method on every split, each as soon as it is computed.

    All methods have the same test rows in a split. A method that cannot be fitted on a split has
    the reason in `ComparedFit.failed`; the comparison continues.

    Parameters
    ----------
    compared
        Source and table of every method. Features beyond those of the source are electron levels
        (`levels_of`).
    comparison
        Methods, sizes, seeds and number of test rows.
    head
        Output of the source to start from. Default: the one that fits the training rows best.
    device
        Where to train and sample.
    done
        Earlier fits. They are not recomputed where their inputs are the same (`facts_by_method`).
    progress
        Called before every fit; may raise `Cancelled`.

    Raises
    ------
    InputError
        When there are too few rows.
    ConfigError
        For a method that transfers where there is no source.
    """
    if not compared.reference.members:
        for name in comparison.methods:
            without_source(entrant_of(name).method)
    fewest = min(len(inputs.table) for inputs in compared.distinct)
    largest = max(comparison.sizes)
    tested_on = compared.tested_on
    if largest + comparison.n_test > fewest:
        raise InputError(
            f"{largest} training and {comparison.n_test} test rows are more than the {fewest} "
            f"labelled structures{' that every method takes' if tested_on else ''}. Lower --n or "
            "--n-test."
        )
    facts = facts_by_method(compared, comparison, head=head)
    reusable_keys = {fit_key(fit) for fit in reusable_fits(done, facts)}
    names = _names(compared, comparison)
    work = _Work(compared, compared.common, tested_on, comparison, facts, head, device)
    splits = [(n, seed) for n in comparison.sizes for seed in comparison.seeds]
    all_fits = [(n, seed, name) for n, seed in splits for name in names]
    position = {fit: i for i, fit in enumerate(all_fits)}
    key_end = (comparison.conformal_share, tested_on)
    tasks = []
    for n, seed in splits:
        missing = [name for name in names if (name, n, seed, *key_end) not in reusable_keys]
        if missing:
            tasks.append((work, n, seed, missing))

    def report(n: int, seed: int, name: str) -> None:
        message = f"{name}, n = {n}, seed {seed}"
        progress(Update("comparing", position[n, seed, name], len(all_fits), message=message))

    if engine_in_use().remote:
        with contextlib.closing(mapped(_fits_in_worker, tasks)) as fits_by_split:
            for fits in fits_by_split:
                for fit in fits:
                    report(fit.n, fit.seed, fit.method)
                    yield fit
    else:
        for task in tasks:
            yield from _fits_of_split(*task, report=report)
    progress(Update("comparing", len(all_fits), len(all_fits)))


@dataclass(frozen=True, eq=False)
class _Work:
    """The part of a task that all splits of a comparison share.

    Test rows are drawn from `candidate_ids`.
    """

    compared: Compared
    candidate_ids: Sequence[str]
    tested_on: str
    comparison: Comparison
    facts: Mapping[str, Facts]
    head: str | None
    device: str


def _fits_of_split(
    work: _Work, n: int, seed: int, names: Sequence[str], *, report: Callable[[int, int, str], None]
) -> Iterator[ComparedFit]:
    """Yield the figures of methods on one split, each after a call of `report`."""
    comparison = work.comparison
    members_and_head: dict[int, tuple[Members, str]] = {}  # by the id of the inputs
    near_copy_shares: dict[int, float] = {}
    for name in names:
        report(n, seed, name)
        entrant = entrant_of(name) if name in comparison.methods else None
        inputs = work.compared.reference if entrant is None else work.compared.of(entrant.method)
        table = inputs.table
        if entrant is None or entrant.levels == "none":
            table = replace(table, features=table.features[:, : n_features(inputs.descriptor)])
        split = split_of(
            table,
            n_test=comparison.n_test,
            n_train=n,
            seed=seed,
            conformal_share=comparison.conformal_share,
            by_formula=comparison.by_formula,
            test_candidates=work.candidate_ids,
            crystals=inputs.table.crystals,
        )
        train = table.rows(split.train)
        held_back = table.rows(split.held_back)
        test = table.rows(split.test)
        data = TargetData(train.features, train.gaps_eV)
        if id(inputs) not in near_copy_shares:
            near_copy_shares[id(inputs)] = near_copy_share(inputs.table, split)
        if id(inputs) not in members_and_head:
            members = inputs.members_for(data)
            requested_head = work.head if inputs.members else None
            head, _ = choose_head(
                members, data.features, data.gaps_eV, seed=seed, head=requested_head
            )
            members_and_head[id(inputs)] = (members, head)
        members, head = members_and_head[id(inputs)]
        failed = ""
        try:
            figures, seconds, warnings = _figures(
                name,
                members,
                data,
                held_back,
                test,
                comparison,
                seed=seed,
                head=head,
                device=work.device,
            )
            figures[NEAR_COPIES] = near_copy_shares[id(inputs)]
        except Cancelled:
            raise
        except BandgapError as error:
            figures, seconds, warnings, failed = {}, 0.0, (), str(error)
        spread_eV = rmse(test.gaps_eV, np.full(len(test), train.gaps_eV.mean()))
        tiny = tiny_error_warning({**figures, "n": len(test), "mean_gap_rmse_eV": spread_eV})
        yield ComparedFit(
            name,
            n,
            seed,
            figures,
            seconds,
            "" if name == CONSTANT else head,
            (*warnings, *(inputs.warnings if entrant else ()), *filter(None, [tiny])),
            failed=failed,
            conformal_share=comparison.conformal_share,
            tested_on=work.tested_on,
            made_of=work.facts[name],
        )


def _names(compared: Compared, comparison: Comparison) -> list[str]:
    """Return the names of all rows: the references without a fit, then the methods."""
    return [CONSTANT, *([SOURCE_ALONE] if compared.reference.members else []), *comparison.methods]


def _fits_in_worker(work: _Work, n: int, seed: int, names: Sequence[str]) -> list[ComparedFit]:
    set_threads()
    return list(_fits_of_split(work, n, seed, names, report=lambda *_: None))


def descriptor_of(members: Members | DescriptorConfig) -> DescriptorConfig:
    """Return the descriptor of a source, or the one that is given instead of a source."""
    return (
        members
        if isinstance(members, DescriptorConfig)
        else next(iter(members[0].values())).descriptor
    )


def _figures(
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
) -> tuple[dict[str, float], float, tuple[str, ...]]:
    """Return the figures of one row of a comparison, the seconds of its fit, and warnings."""
    gaps = test.gaps_eV
    if name == CONSTANT:
        return {"rmse_eV": rmse(gaps, np.full(gaps.size, data.gaps_eV.mean()))}, 0.0, ()
    if name == SOURCE_ALONE:
        predicted = [
            source_gaps_eV(
                model, standardiser_for(model, data.features, data.gaps_eV), test.features
            )
            for model in (member[head] for member in members)
        ]
        return {"rmse_eV": rmse(gaps, np.mean(predicted, axis=0))}, 0.0, ()
    entrant = entrant_of(name)
    refuse_gaps_as_inputs(data, entrant.levels)
    method = get_method(entrant.method)
    started = time.perf_counter()
    config = method.configure(comparison.methods[name])
    fitting = Fitting(seed, device, networks=members[: entrant.networks], head=head)
    posterior = fit_members(method, data, config, fitting)
    seconds = time.perf_counter() - started
    draws = posterior.predictive_draws(test.features)
    scores = conformal_scores(posterior, held_back) if len(held_back) else None
    mean, sd = mean_and_sd(draws)
    figures = heldout_figures(draws, gaps) | conformal_figures(scores, gaps, mean=mean, sd=sd)
    stored = posterior.diagnostics.figures
    figures |= {name: stored[name] for name in DIAGNOSTICS if name in stored}
    return figures, seconds, posterior.diagnostics.warnings


def heldout_figures(draws: PredictiveDraws, gaps: Floats) -> dict[str, float]:
    """Return errors, scores, coverage and width of the 95 % interval on gaps (n,) in eV."""
    distribution = draws.gaps
    lower, upper = distribution.interval(LEVEL)
    point = draws.flat_means_eV.mean(axis=0)
    return gap_figures(gaps, distribution, lower=lower, upper=upper, point=point)

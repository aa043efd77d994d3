"""The transfer of a source model to labelled structures, from a request to a run's folder.

`transfer_run` has four stages: `prepare` (method, descriptor, usable structures), `split_rows`
(training, calibration and test rows with their features), `fit` (the posterior) and `report`
(predictions of the test rows, manifest).
"""

import datetime
import shutil
import time
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.datasets.checked import checked_set
from bandgap.datasets.own_features import own_features
from bandgap.datasets.shipped_models import folder_of_source
from bandgap.datasets.splits import Split
from bandgap.datasets.table import LabelledSet, Table, learnable_without_features
from bandgap.descriptors import DescriptorConfig
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.electron_levels import refuse_tight_binding_gaps
from bandgap.evaluation.near_copies import tested_facts, tested_warnings
from bandgap.foundation.arguments import as_folder, check_type
from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import peak_memory_bytes
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.requests import checked_keywords
from bandgap.inference.checkpoints import CHECKPOINT, Checkpoint, ForeignCheckpointError
from bandgap.posterior import Floats, Posterior
from bandgap.posterior.layer_parts import LayerCorrection, layer_correction
from bandgap.posterior.metals import sampled_part
from bandgap.predictions.conformal import ConformalScores, too_few
from bandgap.predictions.domain import Domain
from bandgap.predictions.gap_distribution import ZERO_EV
from bandgap.predictions.store import PREDICTIONS_CSV, QUANTILES, save_predictions
from bandgap.predictions.table import Predictions
from bandgap.runs.described_split import described_split
from bandgap.runs.fitting import fit_members, refuse_gaps_as_inputs
from bandgap.runs.known_structures import N_NEAREST, save_known
from bandgap.runs.origin import Origin, origin_of
from bandgap.runs.parent_test import ParentTest
from bandgap.runs.proposal import DEFAULT_TEST_SHARE, method_and_levels
from bandgap.runs.requests import TransferRequest
from bandgap.runs.results import (
    LEVEL,
    conformal_scores,
    far_figures,
    figures_of,
    grouped_diagnostics,
    prediction_chains,
    table_predictions,
)
from bandgap.runs.run_domain import fit_run_domain
from bandgap.runs.split_rows import formula_numbers, split_of, split_on
from bandgap.runs.stored import save_run
from bandgap.runs.unseen_elements import gap_facts
from bandgap.sources.cards import left_out_sentence
from bandgap.sources.head_choice import choose_head
from bandgap.sources.model import SourceModel
from bandgap.sources.no_source import named_descriptor
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.structures.near_copies import NearCopies
from bandgap.transfer import Method, TargetData
from bandgap.transfer.shared.metals import metals_warning
from bandgap.transfer.shared.method import MIN_ROWS, Fitting


@dataclass(frozen=True, eq=False)
class Prepared:
    """The method with its settings, origin, descriptor and structures that a request means.

    `table` has no features, because only the rows of the split are described.
    """

    request: TransferRequest  # with the names of method and levels
    theory_level: str
    method: Method
    config: Any
    origin: Origin
    descriptor: DescriptorConfig
    table: Table
    facts: dict[str, Any]  # of the data, for the manifest


@dataclass(frozen=True, eq=False)
class SplitTables:
    """The rows of a split: to learn from, held back for conformal intervals, and to test on."""

    train: Table
    held_back: Table
    test: Table

    @property
    def all_records(self) -> list[Any]:
        """Records of all three."""
        return [*self.train.records, *self.held_back.records, *self.test.records]

    @property
    def n_learned(self) -> int:
        """Number of the records, the first ones, that a run learns from."""
        return len(self.train) + len(self.held_back)

    @cached_property
    def structures(self) -> NearCopies:
        """All records in the form in which near-copies are looked for and stored."""
        return NearCopies(self.all_records, n_nearest=N_NEAREST)


@dataclass(frozen=True, eq=False)
class Fitted:
    """A posterior, the output and networks that it started from, and the seconds of the fit."""

    posterior: Posterior
    head: str
    head_errors_eV: dict[str, float]
    models: list[SourceModel]
    seconds: float


@dataclass(frozen=True, eq=False)
class HeldOutResult:
    """Predictions of the test rows and their scores; empty without test rows."""

    predictions: Predictions | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    rhat: dict[str, float] = field(default_factory=dict)
    traces: dict[str, Floats] = field(default_factory=dict)
    far: dict[str, float] = field(default_factory=dict)
    correction: LayerCorrection | None = None


@checked_keywords(TransferRequest)
def transfer_run(
    source: Path | str | None,
    data: LabelledSet,
    request: TransferRequest | None = None,
    *,
    out: Path | str,
    cache: DescriptorCache | None = None,
    checkpoints: Path | None = None,
    keeps_checkpoints: bool = False,
    inputs: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> Path:
    """Transfer a source model to labelled structures and write the run to a folder.

    Rows are sorted by identifier and permuted by the seed; the first `request.n_test` (default: a
    fifth, or what `request.n` leaves if that is less) are the test set, the next `request.n`
    (default: the rest) the training set.

    Parameters
    ----------
    source
        Folder of a source model, or "demo" or "inorganic" for a shipped one. None: a method without
        transfer, and the descriptor that the request names, or the one for the elements of the
        structures.
    data
        Structures of any kind that `as_records` takes, with their gaps (n,) in eV, NaN where there
        is none, and their baseline if the request names one.
    request
        Method, split, inputs and settings. Default: the proposed method with its defaults.
    out
        Folder to write. It is written as a whole when everything is computed, and replaces an older
        run.
    cache
        Cache of descriptors on disk.
    checkpoints
        Folder in which a method that samples a network saves its state (default: "checkpoint" in
        `out`). A run that finds files there resumes from them, to the same posterior. It is removed
        at the end.
    keeps_checkpoints
        Whether the files in `checkpoints` stay at the end. A run with more draws
        (`bandgap.runs.more_draws`) continues from them. Only with a folder outside of `out`.
    inputs
        Where structures and gaps were read, as JSON values. It is stored in the manifest.
    progress
        Called with every step; may raise `Cancelled`.

    Returns
    -------
    Path
        The folder `out`.

    Raises
    ------
    InputError
        For structures of another kind, and for values that are not gaps. When there are too few
        rows, when a baseline is named and not given, and for electron levels where the gaps are of
        such a calculation themselves. Before anything is computed, when `out` cannot be written or
        is not a run.
    ConfigError
        For a method that transfers where there is no source, and for a descriptor where there is
        one.
    ForeignCheckpointError
        When the files in `checkpoints` are of another run.
    """
    started = time.perf_counter()
    folder = as_folder(out, name="out")
    source_folder = folder_of_source(source)
    check_result_folder(folder, kind="run", inputs=[source_folder])
    prepared = prepare(source_folder, data, request or TransferRequest())
    tables = split_rows(prepared, cache=cache, progress=progress)
    unfinished = folder / CHECKPOINT if checkpoints is None else checkpoints
    fitted = fit(prepared, tables, checkpoints=unfinished, progress=progress)
    report(
        prepared, tables, fitted, folder=folder, started=started, inputs=inputs, progress=progress
    )
    if prepared.request.checkpoint_every and not keeps_checkpoints:
        shutil.rmtree(unfinished, ignore_errors=True)
    return folder


def prepare(source: Path | str | None, data: LabelledSet, request: TransferRequest) -> Prepared:
    """Check the arguments, and choose method, descriptor and the structures to draw from.

    Rows without a gap and structures that cannot be described are left out.
    """
    source = folder_of_source(source)
    check_type(request, TransferRequest, name="request")
    data = checked_set(data)
    _check_baseline(data, request)
    if request.features and not any(record.user_features for record in data.records):
        data = replace(data, records=own_features(request.features).matched(data.records))
    method, levels, _ = method_and_levels(
        request.method,
        request.levels,
        data.records,
        data.gaps_eV,
        has_source=source is not None,
        level_of_theory=data.level_of_theory,
        n=request.n,
    )
    request = request.changed(method=method, levels=levels)
    refuse_tight_binding_gaps(levels, data.level_of_theory)
    descriptor = named_descriptor(request.preset, request.species, data.records, data.gaps_eV)
    origin = origin_of(source, method, data.records, data.gaps_eV, descriptor=descriptor)
    config = origin.method.configure(request.settings)
    of_source = origin.sources is not None
    table = learnable_without_features(
        data.records,
        data.gaps_eV,
        descriptor=origin.descriptor,
        of_source=of_source,
        baseline_eV=data.baseline_eV,
    )
    return Prepared(
        request=request,
        theory_level=data.level_of_theory,
        method=origin.method,
        config=config,
        origin=origin,
        descriptor=replace(origin.descriptor, levels=levels),
        table=table,
        facts=table.facts(n_given=len(data.records), of_source=of_source, licence=data.licence),
    )


def n_to_learn(request: TransferRequest, data: LabelledSet) -> int:
    """Return how many structures are learned from if all that have a gap can be described."""
    n_labelled = int(np.isfinite(data.gaps_eV).sum())
    return min(request.n or n_labelled - _n_to_test(request, n_labelled), n_labelled)


def _n_to_test(request: TransferRequest, n: int) -> int:
    """Return how many of n structures are held back for testing."""
    if request.n_test is not None:
        return request.n_test
    return min(round(DEFAULT_TEST_SHARE * n), max(0, n - (request.n or 0)))


def split_rows(
    prepared: Prepared, *, cache: DescriptorCache | None = None, progress: Progress = no_progress
) -> SplitTables:
    """Draw the rows to learn from, to hold back for conformal intervals and to test on.

    Features and electron levels, which take seconds a structure, are computed here, for these rows
    only. Rows without them are left out; they are added to `prepared.facts`.
    """
    split = _split(prepared)
    if prepared.request.n is None or prepared.request.n >= MIN_ROWS:
        _check_enough_to_learn_from(split, prepared.request.n)
    n_drawn = len(split.train)
    table, split, without_features = described_split(
        prepared.table,
        split,
        prepared.descriptor,
        cache=cache,
        n_jobs=prepared.request.n_jobs,
        progress=progress,
    )
    prepared.facts["data"]["n_labelled"] -= len(without_features)
    prepared.facts["left_out"] += [to_dict(structure) for structure in without_features]
    if len(split.train) < MIN_ROWS <= n_drawn:
        raise InputError(
            f"{len(split.train):,} of {n_drawn:,} structures to learn from can be described. At"
            f" least {MIN_ROWS} are needed. {left_out_sentence(_facts_with_descriptor(prepared))}"
        )
    train = table.rows(split.train)
    prepared.facts["data"]["gaps"] = gap_facts(train.gaps_eV)
    return SplitTables(train, table.rows(split.held_back), table.rows(split.test))


def _facts_with_descriptor(prepared: Prepared) -> dict[str, Any]:
    return prepared.facts | {"descriptor": to_dict(prepared.descriptor)}


def _check_enough_to_learn_from(split: Split, n_requested: int | None) -> None:
    """Raise InputError if so many rows are held out that too few are left to learn from.

    Test rows are not taken from a requested number of rows to learn from.
    """
    n_test = len(split.test) if n_requested is None else 0
    n_held_back = len(split.held_back)
    n = len(split.train)
    n_all = n + n_test + n_held_back
    if n >= MIN_ROWS or n_all < MIN_ROWS:  # with fewer labels the method itself refuses
        return
    parts = [
        f"{count:,} {purpose}"
        for count, purpose in (
            (n_test, "for the test"),
            (n_held_back, "for conformal intervals"),
        )
        if count
    ]
    if not parts:
        return
    remedy = (
        "Label more structures, or hold back fewer: `--n-test, --conformal-share`"
        if n_requested is None
        else f"Learn from more than {n_requested:,}, or hold back fewer: `--n, --conformal-share`"
    )
    raise InputError(
        f"{n:,} of {n_all:,} labelled structures are left to learn from, because"
        f" {' and '.join(parts)} {'was' if n_test + n_held_back == 1 else 'were'} held back. At"
        f" least {MIN_ROWS} are needed to learn from, better 50. {remedy}"
        " (on the page Train, the line of the split and More settings)."
    )


def _split(prepared: Prepared) -> Split:
    request = prepared.request
    table = prepared.table
    draw: dict[str, Any] = {
        "n_train": request.n,
        "seed": request.seed,
        "conformal_share": request.conformal_share,
    }
    try:
        if request.test_ids is not None:
            return split_on(table, test_ids=request.test_ids, **draw)
        test_candidates = _ids_of_known_elements(prepared)
        return split_of(
            table,
            n_test=_n_to_test(request, len(table)),
            by_formula=request.by_formula,
            test_candidates=test_candidates,
            **draw,
        )
    except InputError as error:  # fewer rows than structures: say which were left out
        sentence = left_out_sentence(_facts_with_descriptor(prepared))
        raise InputError(f"{error} {sentence}".rstrip()) from error


def fit(
    prepared: Prepared,
    tables: SplitTables,
    *,
    checkpoints: Path,
    progress: Progress = no_progress,
) -> Fitted:
    """Fit the method to the training rows.

    It starts from the requested output of the source, or from the one that fits the rows best.
    """
    request = prepared.request
    origin = prepared.origin
    train = tables.train
    data = TargetData(
        train.inputs,
        train.gaps_eV,
        baseline=train.baseline_eV is not None,
        groups=formula_numbers(train) if request.by_formula else None,
    )
    refuse_gaps_as_inputs(data, prepared.descriptor.levels, baseline=request.baseline)
    members = origin.members(data)
    head, head_errors_eV = choose_head(
        members,
        data.features,
        data.gaps_eV,
        seed=request.seed,
        head=None if origin.lacking else request.head,
    )
    members = origin.fitted_from(members, head, data)
    every = request.checkpoint_every
    checkpoint = Checkpoint(checkpoints / "chains.safetensors", every) if every else None
    started = time.perf_counter()
    try:
        fitting = Fitting(request.seed, request.device, progress, checkpoint, members, head)
        posterior = fit_members(prepared.method, data, prepared.config, fitting)
    except ForeignCheckpointError as error:
        raise ForeignCheckpointError(
            f"{error} All files of the unfinished run are in {checkpoints}."
        ) from error
    seconds = time.perf_counter() - started
    return Fitted(posterior, head, head_errors_eV, [member[head] for member in members], seconds)


def report(
    prepared: Prepared,
    tables: SplitTables,
    fitted: Fitted,
    *,
    folder: Path,
    started: float,
    parent: ParentTest | None = None,
    inputs: Mapping[str, Any] | None = None,
    progress: Progress = no_progress,
) -> None:
    """Predict the test rows and write predictions, posterior and manifest.

    `started` is the time at which the run started. With `parent` the run reports the test of that
    run. `inputs` become the entry of this name in the manifest.
    """
    train = tables.train
    domain = fit_run_domain(
        train,
        prepared.descriptor,
        source_species=prepared.origin.elements,
        baseline=prepared.request.baseline,
    )
    conformal = (
        conformal_scores(fitted.posterior, tables.held_back) if len(tables.held_back) else None
    )
    if parent is not None:
        conformal = parent.conformal
    result = HeldOutResult(metrics={} if parent is None else parent.manifest["metrics"])
    if len(tables.test):
        progress(Update("predicting the test set"))
        result = held_out_result(
            prepared,
            tables.test,
            fitted,
            domain=domain,
            conformal=conformal,
        )
    tested = _tested(tables, result) if parent is None else parent.tested
    manifest = _manifest(prepared, tables, fitted, result, tested=tested, conformal=conformal)
    manifest["elapsed_s"] = {"fit": fitted.seconds, "all": time.perf_counter() - started}
    manifest["peak_memory_bytes"] = peak_memory_bytes()
    if inputs is not None:
        manifest["inputs"] = dict(inputs)
    if parent is not None:
        manifest |= parent.entries
    with replaced_result(folder, kind="run") as new_folder:
        if result.predictions is not None:
            result.predictions.to_csv(new_folder / PREDICTIONS_CSV)
            save_predictions(new_folder / QUANTILES, result.predictions)
        if parent is not None:
            parent.copy_files(new_folder)
        save_run(
            new_folder,
            fitted.posterior,
            descriptor=prepared.descriptor,
            domain=domain,
            manifest=manifest,
            references=train.records,
            baseline_eV=train.baseline_eV,
            traces=result.traces,
        )
        save_known(new_folder, tables.structures, n_learned=tables.n_learned)


def held_out_result(
    prepared: Prepared,
    test: Table,
    fitted: Fitted,
    *,
    domain: Domain,
    conformal: ConformalScores | None,
) -> HeldOutResult:
    """Return predictions of the test rows with their errors, scores, coverage and R-hat."""
    posterior = fitted.posterior
    draws = posterior.predictive_draws(test.inputs)
    sampled_means_eV = draws.means_eV
    learned = test.gaps_eV > -np.inf
    if (sampled := sampled_part(posterior)) is not posterior:
        sampled_means_eV = sampled.mean_draws_eV(test.inputs)
        learned = test.gaps_eV > ZERO_EV
    predictions = table_predictions(
        draws,
        test,
        descriptor=prepared.descriptor,
        domain=domain,
        level_of_theory=prepared.theory_level,
        conformal=conformal,
    )
    rhat, traces = prediction_chains(sampled_means_eV, test.ids, members=posterior.n_members)
    return HeldOutResult(
        predictions,
        metrics=figures_of(draws, predictions, test.gaps_eV),
        rhat=rhat,
        traces=traces,
        far=far_figures(posterior, test.inputs),
        correction=layer_correction(
            sampled,
            [model.params for model in fitted.models],
            test.inputs[learned],
            test.gaps_eV[learned],
            seed=prepared.request.seed,
        ),
    )


def _manifest(
    prepared: Prepared,
    tables: SplitTables,
    fitted: Fitted,
    result: HeldOutResult,
    *,
    tested: Mapping[str, float],
    conformal: ConformalScores | None,
) -> dict[str, Any]:
    """Return the manifest's entries on a run."""
    warnings = [*fitted.posterior.diagnostics.warnings, *prepared.origin.warnings]
    if problem := metals_warning(tables.train.gaps_eV):
        warnings.append(problem)
    if conformal is not None and (problem := too_few(len(conformal), level=LEVEL)):
        warnings.append(problem)
    warnings += tested_warnings(
        {**result.metrics, **tested}, n_formulas=prepared.facts["data"]["n_formulas"]
    )
    source = prepared.origin.facts(fitted.head, fitted.models, tables.all_records)
    return {
        "method": prepared.method.name,
        "citations": list(prepared.method.references),
        "title": prepared.method.title,
        "config": to_dict(prepared.config),
        "request": prepared.request.to_values(),
        "n": len(tables.train),
        "level_of_theory": prepared.theory_level,
        **prepared.facts,
        "source": {**source, "head_errors_eV": fitted.head_errors_eV},
        "split": {"train": tables.train.ids, "test": tables.test.ids},
        "test_gaps_eV": tables.test.gaps_eV.tolist(),
        "conformal": None
        if conformal is None
        else {"ids": conformal.ids, "scores": conformal.scores.tolist()},
        "metrics": result.metrics,
        "tested": dict(tested),
        "diagnostics": grouped_diagnostics(
            fitted.posterior, result.rhat, far=result.far, warnings=warnings
        )
        | ({} if result.correction is None else {"correction": asdict(result.correction)}),
        "warnings": warnings,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _tested(tables: SplitTables, result: HeldOutResult) -> dict[str, float]:
    """Return how many structures the errors rest on, and what the errors are compared with."""
    if result.predictions is None:
        return {}
    return tested_facts(
        tables.structures,
        range(tables.n_learned, len(tables.all_records)),
        learned_rows=range(tables.n_learned),
        gaps_eV=tables.test.gaps_eV,
        predicted_eV=np.asarray(result.predictions.mean_eV, dtype=np.float64),
        mean_gap_eV=float(tables.train.gaps_eV.mean()),
    )


def _check_baseline(data: LabelledSet, request: TransferRequest) -> None:
    """Raise InputError unless the data have a baseline exactly when the request names one."""
    if request.baseline and data.baseline_eV is None:
        raise InputError(
            f"baseline: the request names {request.baseline!r}, but the data have no baseline. "
            "Give the values in eV, NaN for none: LabelledSet(..., baseline_eV=values)."
        )
    if data.baseline_eV is not None and not request.baseline:
        raise InputError(
            "baseline: the data have baseline values, but the request does not name them. "
            'Name them: TransferRequest(baseline="gap_pbe_eV").'
        )


def _ids_of_known_elements(prepared: Prepared) -> Collection[str] | None:
    """Return the ids from which test rows are drawn, None for all."""
    known_elements = prepared.origin.known_elements
    if not prepared.request.test_known or known_elements is None:
        return None
    table = prepared.table
    return [
        id_
        for id_, elements in zip(table.ids, table.elements, strict=True)
        if elements <= known_elements
    ]

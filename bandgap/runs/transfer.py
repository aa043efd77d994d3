"""The transfer of a source to labelled crystals, from records to the folder of a run."""

import datetime
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import learnable
from bandgap.descriptors import MBTRConfig, similarity_features
from bandgap.descriptors.cache import DescriptorCache
from bandgap.descriptors.electron_levels import Levels, refuse_own_gaps
from bandgap.foundation.config import to_dict
from bandgap.foundation.errors import InputError
from bandgap.foundation.machine import peak_memory_bytes
from bandgap.foundation.progress import Progress, Update, no_progress, progress_of
from bandgap.inference.checkpoints import CHECKPOINT, CHECKPOINT_EVERY, Checkpoint, ForeignCheckpointError
from bandgap.posterior import Posterior, mix
from bandgap.predictions.conformal import too_few
from bandgap.predictions.domain import fit_domain
from bandgap.predictions.store import PREDICTIONS_CSV, QUANTILES, save_predictions
from bandgap.runs.origin import origin_of
from bandgap.runs.results import (
    LEVEL,
    conformal_scores,
    far_figures,
    figures_of,
    grouped_diagnostics,
    prediction_rhat,
    table_predictions,
)
from bandgap.runs.split_rows import split_of, split_on
from bandgap.runs.stored import save_run
from bandgap.sources.cards import left_out_sentence
from bandgap.sources.head_choice import choose_head
from bandgap.sources.model import SourceModel
from bandgap.sources.proposed import proposed_method
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.structures import StructureRecord
from bandgap.transfer import Method, TargetData
from bandgap.transfer.shared.baseline import fit_baseline, with_baseline

DEFAULT_TEST_SHARE = 0.2


def transfer_run(
    source_folder: Path | str | None,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    method: str | None = None,
    n: int | None = None,
    n_test: int | None = None,
    test_ids: Collection[str] | None = None,
    seed: int = 0,
    head: str | None = None,
    descriptor: MBTRConfig | None = None,
    conformal_share: float = 0.0,
    by_formula: bool = False,
    test_known: bool = False,
    out: Path,
    level_of_theory: str = "",
    levels: Levels = "none",
    baseline_eV: NDArray[np.floating[Any]] | None = None,
    baseline: str = "",
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
    checkpoint_every: int = CHECKPOINT_EVERY,
    checkpoints: Path | None = None,
) -> Path:
    """Transfer a source model to labelled crystals, write the run to `out` and return `out`.

    The folder is written as a whole when all is computed (`foundation.replacement`) and replaces an older run. Raises
    InputError before anything is computed where it cannot be (`storage.result_folders`).

    Rows are sorted by id and permuted by the seed; the first `n_test` (default: a fifth, or what `n` leaves if that is
    less) are the test set, the next `n` (default: the rest) the training set. Of these the last, a share of
    `conformal_share`, are held back from the fit for conformal intervals; with `by_formula` no formula is in two of
    these sets, and the test set may be a little smaller. With `test_ids` the structures of these ids are the test set,
    and the seed draws the training set alone. With `test_known` the test set is drawn among the structures of elements
    that the source has, as for a method that leaves the others out, whose runs are then tested on the same.

    A source of several sets starts from the output of the set `head` (default: the one that `head_choice` finds), a
    source of several networks gives the mixture of their posteriors. With `levels` the structures' own electron levels
    by this method are features too, in eV, or their gap a baseline (`Method`). Raises InputError when there are too few
    rows, and for levels where the gaps are of such a calculation themselves.

    With `baseline_eV` (n,), such as the gap of every structure at a cheaper level of theory (NaN: none, and it is left
    out), every method learns what a straight line in it leaves of the gaps; `baseline` is its name, and a prediction
    needs it of every new structure.

    The default method is the proposed one (`sources.proposed`). Without a source (None) the method is one without
    transfer, and the structures' descriptor is `descriptor` (default: the one for their elements, `descriptor_for`).
    Raises ConfigError for a method that transfers, and for a descriptor beside a source, which has its own.

    A method that samples a network leaves its state every `checkpoint_every` iterations (0: never) in the folder
    `checkpoints` (default: "checkpoint" in `out`), goes on from it where there is one, to the same posterior, and the
    folder is removed at the end. Raises ForeignCheckpointError where it is of another run.
    """
    check_result_folder(Path(out), kind="run", inputs=[source_folder])
    kept = Path(out) / CHECKPOINT if checkpoints is None else checkpoints
    checkpoint = Checkpoint(kept / "chains.safetensors", checkpoint_every) if checkpoint_every else None
    started = time.perf_counter()
    refuse_own_gaps(levels, level_of_theory)
    method = method or proposed_method(transfers=source_folder is not None)
    origin = origin_of(source_folder, method, records, gaps_eV, descriptor=descriptor)
    chosen, of_source = origin.method, origin.sources is not None
    config = chosen.configure(settings or {})
    descriptor = replace(origin.descriptor, levels=levels)
    table = learnable(
        records,
        gaps_eV,
        descriptor=descriptor,
        of_source=of_source,
        baseline_eV=baseline_eV,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    if n_test is None:
        n_test = min(round(DEFAULT_TEST_SHARE * len(table)), max(0, len(table) - (n or 0)))
    facts = table.facts(n_given=len(records), of_source=of_source)
    among, known = None, origin.known
    if test_known and known is not None:
        among = [id for id, found in zip(table.ids, table.elements, strict=True) if found <= known]
    draw: dict[str, Any] = {"n_train": n, "seed": seed, "conformal_share": conformal_share}
    try:
        split = (
            split_of(table, n_test=n_test, by_formula=by_formula, among=among, **draw)
            if test_ids is None
            else split_on(table, test_ids=test_ids, **draw)
        )
    except InputError as error:  # fewer than were given: say where the others are
        left_out = left_out_sentence(facts | {"descriptor": to_dict(descriptor)})
        raise InputError(f"{error} {left_out}".rstrip()) from error
    train, held_back, test = (table.rows(rows) for rows in (split.train, split.held_back, split.test))
    data = TargetData(train.inputs, train.gaps_eV, baseline=train.baseline_eV is not None)
    members = origin.members(data)
    head = None if origin.lacking else head
    head, head_errors = choose_head(members, data.features, data.gaps_eV, seed=seed, head=head)
    wanted = origin.fitted_from(members, head, data)
    models = [member[head] for member in wanted]
    fit_started = time.perf_counter()
    try:
        posterior = fit_members(
            chosen,
            wanted,
            data,
            config,
            head=head,
            seed=seed,
            device=device,
            progress=progress,
            checkpoint=checkpoint,
        )
    except ForeignCheckpointError as error:
        raise ForeignCheckpointError(f"{error} All files of the unfinished run are in {kept}.") from error
    fit_s = time.perf_counter() - fit_started
    shapes = similarity_features(train.features, descriptor)
    domain = fit_domain(shapes, ids=train.ids, elements=train.elements, source_species=origin.elements)
    conformal = conformal_scores(posterior, held_back) if len(held_back) else None
    figures: dict[str, float] = {}
    rhat: dict[str, float] = {}
    far: dict[str, float] = {}
    predictions = None
    if len(test):
        progress(Update("predicting the test set"))
        draws = posterior.predictive_draws(test.inputs)
        predictions = table_predictions(
            draws, test, descriptor=descriptor, domain=domain, level_of_theory=level_of_theory, conformal=conformal
        )
        figures = figures_of(draws, predictions, test.gaps_eV)
        rhat = prediction_rhat(draws.means_eV, members=posterior.n_members)
        far = far_figures(posterior, test.inputs)
    warnings = [*posterior.diagnostics.warnings, *origin.warnings]
    if conformal is not None and (short := too_few(len(conformal), level=LEVEL)):
        warnings.append(short)
    everybody = [*train.records, *held_back.records, *test.records]
    manifest = {
        "method": chosen.name,
        "title": chosen.title,
        "config": to_dict(config),
        "levels": levels,
        **({} if baseline_eV is None else {"baseline": baseline or "baseline"}),
        "seed": seed,
        "n": len(train),
        "level_of_theory": level_of_theory,
        **facts,
        "source": {**origin.facts(head, models, everybody), "head_errors_eV": head_errors},
        "split": {"train": train.ids, "test": test.ids, "by_formula": by_formula}
        | ({"test_known": True} if test_known else {}),
        "test_gaps_eV": test.gaps_eV.tolist(),
        "conformal": None if conformal is None else {"ids": conformal.ids, "scores": conformal.scores.tolist()},
        "metrics": figures,
        "diagnostics": grouped_diagnostics(posterior, rhat, far=far, warnings=warnings),
        "warnings": warnings,
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "elapsed_s": {"fit": fit_s, "all": time.perf_counter() - started},
        "peak_memory_bytes": peak_memory_bytes(),
    }
    with replaced_result(Path(out), kind="run") as folder:
        if predictions is not None:
            predictions.to_csv(folder / PREDICTIONS_CSV)
            save_predictions(folder / QUANTILES, predictions)
        save_run(
            folder,
            posterior,
            descriptor=descriptor,
            domain=domain,
            manifest=manifest,
            references=train.records,
            baseline_eV=train.baseline_eV,
        )
    if checkpoint is not None:
        shutil.rmtree(kept, ignore_errors=True)
    return Path(out)


def fit_members(
    method: Method,
    members: Sequence[Mapping[str, SourceModel]],
    data: TargetData,
    config: Any,
    *,
    head: str,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
    checkpoint: Checkpoint | None = None,
) -> Posterior:
    """Fit a method from the output `head` of every network of a source; return the equal-weight mixture of posteriors.

    The first network has the given seed, the others seeds of their own made from it. A method that takes all networks
    together returns one posterior. Where the data have a baseline, a line in it is fitted first, beside the first
    network's prediction, and the method to what it leaves. With `checkpoint` every network has files of its own, from
    which a method that can goes on.
    """
    if data.baseline:
        column = data.features.shape[1] - 1
        first = members[0][head]
        line, left = fit_baseline(first, data.features, data.gaps_eV, column=column, beside_source=method.transfers)
        rest = fit_members(
            method,
            members,
            TargetData(data.features[:, :column], left),
            config,
            head=head,
            seed=seed,
            device=device,
            progress=progress,
            checkpoint=checkpoint,
        )
        return with_baseline(rest, line, seed=seed)
    if method.fit_together is not None:
        return method.fit_together(members, data, config, head=head, seed=seed, device=device, progress=progress)
    posteriors = []
    for i, member in enumerate(members):
        own = seed if i == 0 else int(np.random.SeedSequence([seed, i]).generate_state(1)[0] % 2**31)
        note = progress if len(members) == 1 else progress_of(f"network {i + 1} of {len(members)}", progress)
        part = None if checkpoint is None else checkpoint.of_part(i)
        posteriors.append(
            method.fit_or_resume(member[head], data, config, seed=own, device=device, progress=note, checkpoint=part)
        )
    return mix(posteriors)

"""Train source models and write them: one network on one set, or several on several sets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.checked import checked_set
from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.error_context import error_sentences
from bandgap.evaluation.metrics import rmse
from bandgap.evaluation.near_copies import tested_facts, tested_warnings
from bandgap.foundation.arguments import as_folder
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.graph_config import GraphConfig
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.sources.added_extras import add_to_heads
from bandgap.sources.held_back import predicted_eV, rows_to_learn
from bandgap.sources.joint import Head, SourceSet, member_splits, train_joint_sources
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.one_set import first_state, train_source
from bandgap.sources.overlap import keys_of, save_keys
from bandgap.sources.sets import KIND, open_sources, save_sources
from bandgap.sources.stored import save_source
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.structures import StructureRecord
from bandgap.structures.displaced import DISPLACEMENT, check_displacement, displaced
from bandgap.structures.near_copies import NearCopies, StoredDistances

Floats = NDArray[np.float64]

# Largest number of file names in a card.
MAX_FILE_NAMES = 20
_JUDGE_BY_TRANSFER = "Judge the source by what a transfer of it gains on other structures."


def train_source_folder(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: DescriptorConfig | GraphConfig,
    config: SourceConfig,
    out: Path,
    seed: int,
    level_of_theory: str = "",
    licence: str = "",
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train a source network on labelled structures, write it to `out` and return `out`.

    Structures that are refused or have no gap (NaN) are left out. Features of a large set are kept
    in a file on disk, with the same result. The settings of a graph network as descriptor: it is
    trained first (`sources.graph_training`).

    Parameters
    ----------
    records, gaps_eV
        Structures and their gaps (n,).
    descriptor, config, seed
        Descriptor, settings and seed of the training.
    out
        Folder to write or replace (`storage.result_folders`). It is written completely or not at
        all.
    level_of_theory, licence
        Entries of the card.
    device, cache, n_jobs, progress
        Where and how it is computed.

    Raises
    ------
    InputError
        Before anything is computed if `out` cannot be replaced; if no structure remains, or fewer
        than the split of the config asks for.
    """
    check_result_folder(Path(out), kind="source")
    graph_description = ""
    if isinstance(descriptor, GraphConfig):
        from bandgap.sources.graph_training import body_of_source

        trained = body_of_source(
            records, gaps_eV, descriptor, config=config, seed=seed, device=device, progress=progress
        )
        descriptor = DescriptorConfig(graph=trained.body)
        graph_description = trained.card_text
    table, test = rows_to_learn(
        records,
        gaps_eV,
        descriptor,
        config.split,
        seed=seed,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    if config.split is not None:
        share = config.split[1] / sum(config.split)
        config = replace(config, training=replace(config.training, validation_share=share))
    source = train_source(
        table.features,
        table.gaps_eV,
        descriptor=descriptor,
        config=config,
        data=_files(table),
        elements=_elements(table),
        level_of_theory=level_of_theory,
        licence=licence,
        graph_description=graph_description,
        seed=seed,
        device=device,
        progress=progress,
    )
    if test is None:
        structures = table.near_copies
        held_out_rows = _held_out(source)
        held_out = table.rows(held_out_rows)
    else:
        structures = NearCopies([*table.records, *test.records])
        held_out_rows = len(table) + np.arange(len(test))
        held_out = test
    held_out_eV = predicted_eV(source, held_out.features)
    if test is not None:
        test_error_eV = rmse(test.gaps_eV, held_out_eV)
        card = replace(source.card, n_test=len(test), test_rmse_eV=test_error_eV)
        source = replace(source, card=card)
    learned_rows = np.setdiff1d(np.arange(len(table)), held_out_rows)
    tested, warnings = _tested(
        structures,
        held_out_rows,
        learned_rows=learned_rows,
        gaps_eV=held_out.gaps_eV,
        predicted_eV=held_out_eV,
        mean_gap_eV=float(table.gaps_eV[learned_rows].mean()),
    )
    entries = {"tested": tested, "warnings": warnings}
    with replaced_result(Path(out), kind="source") as folder:
        save_source(folder, source, references=table.records, entries=entries)
        save_keys(folder, keys_of(table.records), StoredDistances.of(table.near_copies).arrays())
    return Path(out)


def _held_out(source: SourceModel) -> NDArray[np.int64]:
    """Return the rows that the training of a source held out for early stopping, sorted."""
    card = source.card
    _, _, split = first_state(
        source.network, source.config.training, n=card.n_structures, seed=card.seed
    )
    return np.sort(split.held_out.numpy())


def _tested(
    structures: NearCopies,
    rows: NDArray[np.int64],
    *,
    learned_rows: NDArray[np.int64],
    gaps_eV: Floats,
    predicted_eV: Floats,
    mean_gap_eV: float,
) -> tuple[dict[str, float], list[str]]:
    """Return the facts of a test of a source (`tested_facts`) and the warnings on it."""
    tested = tested_facts(
        structures,
        rows.tolist(),
        learned_rows=learned_rows.tolist(),
        gaps_eV=gaps_eV,
        predicted_eV=predicted_eV,
        mean_gap_eV=mean_gap_eV,
    )
    rmse_eV = rmse(gaps_eV, predicted_eV)
    return tested, [
        *error_sentences(n=len(rows), rmse_eV=rmse_eV, context=tested),
        *tested_warnings(
            {**tested, "rmse_eV": rmse_eV},
            n_formulas=structures.n_formulas,
            remedy=_JUDGE_BY_TRANSFER,
        ),
    ]


def train_sources_run(
    sets: Mapping[str, LabelledSet],
    *,
    descriptor: DescriptorConfig,
    config: SourceConfig,
    training: JointTrainingConfig,
    members: int = 1,
    powers: Sequence[float] | None = None,
    displacement_angstrom: float = DISPLACEMENT,
    out: Path,
    seed: int,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train networks with one output for each set, write them to `out` and return `out`.

    Every output gets the extras that the config asks for, from the rows of its set. Structures
    that are refused or have no gap are left out.

    Parameters
    ----------
    sets
        Labelled structures by name.
    descriptor, config, training, seed
        Descriptor, settings and seed of the training.
    members
        Number of networks.
    powers
        Powers of the features that the networks see in turn (`joint.train_joint_sources`).
    displacement_angstrom
        Every network also sees copies of the structures whose coordinates are changed by normal
        noise of this standard deviation, a different copy for each network. From 0 (no copies) to
        0.3.
    out
        Folder to write or replace (`storage.result_folders`).
    device, cache, n_jobs, progress
        Where and how it is computed.

    Raises
    ------
    InputError
        Before anything is computed if `out` cannot be replaced; if no structure of a set remains.
    ConfigError
        If the displacement is outside its range.
    """
    check_result_folder(as_folder(out, name="out"), kind=KIND)
    sets = {name: checked_set(labelled) for name, labelled in sets.items()}
    check_displacement(displacement_angstrom)
    options: dict[str, Any] = {"descriptor": descriptor, "cache": cache, "n_jobs": n_jobs}
    tables = {
        name: learnable(s.records, s.gaps_eV, progress=progress, **options)
        for name, s in sets.items()
    }
    source_sets = [
        SourceSet(
            name,
            table.features,
            table.gaps_eV,
            _files(table),
            _elements(table),
            sets[name].level_of_theory,
            sets[name].licence,
        )
        for name, table in tables.items()
    ]
    if displacement_angstrom:
        options["progress"] = progress_of("displaced copies", progress)
        source_sets = [
            _with_displaced(
                s, tables[s.name], displacement_angstrom, copies=members, seed=seed, **options
            )
            for s in source_sets
        ]
    models = train_joint_sources(
        source_sets,
        descriptor=descriptor,
        config=config,
        training=training,
        members=members,
        powers=powers,
        seed=seed,
        device=device,
        progress=progress,
    )
    records = [record for table in tables.values() for record in table.records]
    structures = NearCopies(records)
    entries = _joint_test(models[0], tables, structures, share=training.validation_share)
    references = {name: table.records for name, table in tables.items()}
    with replaced_result(Path(out), kind=KIND) as folder:
        save_sources(folder, models, references=references, training=training, entries=entries)
        save_keys(folder, keys_of(records), StoredDistances.of(structures).arrays())
    add_to_heads(open_sources(out), tables, device=device, progress=progress)
    return Path(out)


def _joint_test(
    models: Mapping[str, SourceModel],
    tables: Mapping[str, Table],
    structures: NearCopies,
    *,
    share: float,
) -> dict[str, Any]:
    """Return the manifest's entries on the held-out rows of every set in the first network.

    `structures` are those of all sets, one after the other, and `share` is that held out.
    """
    sizes = tuple(map(len, tables.values()))
    starts = np.cumsum([0, *sizes])
    first = next(iter(models))
    splits = member_splits(models[first], Head(first, 0, sizes, share), member=0)
    learned_rows = np.concatenate(
        [start + split.training.numpy() for start, split in zip(starts, splits, strict=False)]
    )
    tested = {}
    warnings = []
    for name, start, split in zip(tables, starts, splits, strict=False):
        rows = split.held_out.numpy()
        held_out = tables[name].rows(rows)
        tested[name], sentences = _tested(
            structures,
            start + rows,
            learned_rows=learned_rows,
            gaps_eV=held_out.gaps_eV,
            predicted_eV=predicted_eV(models[name], held_out.features),
            mean_gap_eV=float(tables[name].gaps_eV[split.training.numpy()].mean()),
        )
        warnings += [f"{name}: {sentence}" for sentence in sentences]
    return {"tested": tested, "warnings": warnings}


def _with_displaced(
    source_set: SourceSet,
    table: Table,
    sd_angstrom: float,
    *,
    descriptor: DescriptorConfig,
    copies: int,
    seed: int,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> SourceSet:
    """Return the set with the features of displaced copies.

    A structure whose copy cannot be described keeps its own features.
    """
    features = []
    for copy in range(copies):
        records = displaced(table.records, sd_angstrom, seed=seed, copy=copy)
        described = featurize(records, descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
        is_described = np.array([problem is None for problem in described.problems])[:, None]
        features.append(np.where(is_described, described.features, table.features))
    return replace(source_set, displaced=tuple(features), displacement_angstrom=sd_angstrom)


def _files(table: Table) -> tuple[str, ...]:
    return tuple(sorted({record.file for record in table.records})[:MAX_FILE_NAMES])


def _elements(table: Table) -> tuple[str, ...]:
    return tuple(sorted(set().union(*table.elements)))

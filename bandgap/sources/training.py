"""The jobs that make source models: train a network on labelled structures, or several networks on several sets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors import MBTRConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.sources.added_extras import add_to_heads
from bandgap.sources.domain import save_domain
from bandgap.sources.held_back import rows_to_learn, test_rmse_eV
from bandgap.sources.joint import SourceSet, train_joint_sources
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import train_source
from bandgap.sources.overlap import known_of, save_known
from bandgap.sources.sets import KIND, open_sources, save_sources
from bandgap.sources.stored import save_source
from bandgap.storage.result_folders import check_result_folder, replaced_result
from bandgap.structures import StructureRecord
from bandgap.structures.displaced import DISPLACEMENT, check_displacement, displaced

FILES_NAMED = 20  # of a source's data files, in its card


def train_source_folder(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    descriptor: MBTRConfig,
    config: SourceConfig,
    out: Path,
    seed: int,
    level_of_theory: str = "",
    licence: str = "",
    about_graph: str = "",
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train a source network on labelled structures, write it to `out` as a whole and return `out`.

    Structures that are refused or have no gap (NaN) are left out; raises InputError when nothing is left, and when
    there are fewer than the config's split asks for; and before anything is computed where `out` cannot be replaced
    (`storage.result_folders`). Features of a large set stand on disk, to the same result.
    """
    check_result_folder(Path(out), kind="source")
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
        about_graph=about_graph,
        seed=seed,
        device=device,
        progress=progress,
    )
    if test is not None:
        card = replace(source.card, n_test=len(test), test_rmse_eV=test_rmse_eV(source, test))
        source = replace(source, card=card)
    with replaced_result(Path(out), kind="source") as folder:
        save_source(folder, source, references=table.records)
        save_known(folder, known_of(table.records))
        save_domain(folder, [table], descriptor)
    return Path(out)


def train_sources_run(
    sets: Mapping[str, LabelledSet],
    *,
    descriptor: MBTRConfig,
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
    """Train `members` networks with one output for each set, write them to `out` and return `out`.

    Every output gets the extras that the config asks for, from the rows of its set. Every network sees the structures
    also with their coordinates changed by normal noise of its own, of standard deviation `displacement_angstrom`; 0 is
    for structures as they are alone. Structures that are refused or have no gap are left out; raises InputError when
    nothing is left of a set, and before anything is computed where `out` cannot be replaced
    (`storage.result_folders`); ConfigError when the displacement is not from 0 to 0.3.
    """
    check_result_folder(Path(out), kind=KIND)
    check_displacement(displacement_angstrom)
    work: dict[str, Any] = {"descriptor": descriptor, "cache": cache, "n_jobs": n_jobs}
    tables = {
        name: learnable(s.records, s.gaps_eV, progress=progress, **work) for name, s in sets.items()
    }
    own = [
        SourceSet(
            name,
            t.features,
            t.gaps_eV,
            _files(t),
            _elements(t),
            sets[name].level_of_theory,
            sets[name].licence,
        )
        for name, t in tables.items()
    ]
    if displacement_angstrom:
        note = progress_of("displaced copies", progress)
        work |= {"copies": members, "seed": seed, "progress": note}
        own = [_with_displaced(s, tables[s.name], displacement_angstrom, **work) for s in own]
    models = train_joint_sources(
        own,
        descriptor=descriptor,
        config=config,
        training=training,
        members=members,
        powers=powers,
        seed=seed,
        device=device,
        progress=progress,
    )
    references = {name: table.records for name, table in tables.items()}
    with replaced_result(Path(out), kind=KIND) as folder:
        save_sources(folder, models, references=references, training=training)
        save_known(
            folder, known_of([record for table in tables.values() for record in table.records])
        )
        save_domain(folder, list(tables.values()), descriptor)
    add_to_heads(open_sources(out), tables, device=device, progress=progress)
    return Path(out)


def _with_displaced(
    source_set: SourceSet,
    table: Table,
    sd_angstrom: float,
    *,
    descriptor: MBTRConfig,
    copies: int,
    seed: int,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> SourceSet:
    """Return the set with the features of displaced copies; a structure whose copy has none keeps those that it had."""
    features = []
    for copy in range(copies):
        records = displaced(table.records, sd_angstrom, seed=seed, copy=copy)
        found = featurize(records, descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
        described = np.array([problem is None for problem in found.problems])[:, None]
        features.append(np.where(described, found.features, table.features))
    return replace(source_set, displaced=tuple(features), displacement_angstrom=sd_angstrom)


def _files(table: Table) -> tuple[str, ...]:
    return tuple(sorted({record.file for record in table.records})[:FILES_NAMED])


def _elements(table: Table) -> tuple[str, ...]:
    return tuple(sorted(set().union(*table.elements)))

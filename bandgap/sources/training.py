"""The jobs that make source models: train a network on labelled structures, or several networks on several sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import MBTRConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress, progress_of
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.networks.row_blocks import IN_MEMORY_BYTES
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources.domain import DOMAIN, save_domain
from bandgap.sources.held_back import test_rmse_eV, without_test_rows
from bandgap.sources.joint import SourceSet, train_joint_sources, with_head_extras
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.one_set import train_source, with_extras
from bandgap.sources.overlap import KNOWN, known_of, save_known
from bandgap.sources.parts import used_features, used_rows
from bandgap.sources.sets import StoredSources, open_sources, save_sources
from bandgap.sources.stored import load_source, save_source
from bandgap.structures import StructureRecord
from bandgap.structures.displaced import DISPLACEMENT, check_displacement, displaced

FILES_NAMED = 20  # of a source's data files, in its card


def train_source_run(
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
    """Train a source network on labelled structures, write it to `out` and return `out`.

    Structures that are refused or have no gap (NaN) are left out; raises InputError when nothing is left, and when
    there are fewer than the config's split asks for. Features of a large set stand on disk, to the same result.
    """
    table, test = _rows(
        records, gaps_eV, descriptor, config.split, seed=seed, cache=cache, n_jobs=n_jobs, progress=progress
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
    save_source(Path(out), source, references=table.records)
    save_known(Path(out), known_of(table.records))
    save_domain(Path(out), [table], descriptor)
    return Path(out)


def add_extras_run(
    folder: Path,
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    *,
    variational: tuple[VariationalConfig, ...] = (),
    snapshots: SnapshotConfig | None = None,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Add the extras of a source to its folder, computed from its own training structures at fixed weights.

    What its settings asked for at an earlier time is made again. The keys by which an overlap with a target is found,
    and the directions by which a target is judged, are written where they are missing. Raises InputError when the
    structures are not those of the training.
    """
    if open_sources(folder).sizes:
        raise InputError(f"{folder} is a source of several sets. Give its sets by name.")
    source = _asking(load_source(folder), variational, snapshots)
    split, seed = source.config.split, source.card.seed
    table, _ = _rows(
        records, gaps_eV, source.descriptor, split, seed=seed, cache=cache, n_jobs=n_jobs, progress=progress
    )
    made = with_extras(source, table.features, table.gaps_eV, device=device, progress=progress)
    save_source(Path(folder), made, references=table.records)
    if not (Path(folder) / KNOWN).is_file():
        save_known(Path(folder), known_of(table.records))
    if not (Path(folder) / DOMAIN).is_file():
        save_domain(Path(folder), [table], source.descriptor)
    return Path(folder)


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Structures of one origin with their gaps (n,) in eV, NaN where there is none."""

    records: Sequence[StructureRecord]
    gaps_eV: NDArray[np.floating[Any]]
    level_of_theory: str = ""
    licence: str = ""


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
    nothing is left of a set, ConfigError when the displacement is not from 0 to 0.3.
    """
    check_displacement(displacement_angstrom)
    work: dict[str, Any] = {"descriptor": descriptor, "cache": cache, "n_jobs": n_jobs}
    tables = {name: learnable(s.records, s.gaps_eV, progress=progress, **work) for name, s in sets.items()}
    own = [
        SourceSet(name, t.features, t.gaps_eV, _files(t), _elements(t), sets[name].level_of_theory, sets[name].licence)
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
    folder = Path(out)
    references = {name: table.records for name, table in tables.items()}
    save_sources(folder, models, references=references, training=training)
    save_known(folder, known_of([record for table in tables.values() for record in table.records]))
    save_domain(folder, list(tables.values()), descriptor)
    _add_to_heads(open_sources(folder), tables, device=device, progress=progress)
    return folder


def add_head_extras_run(
    folder: Path,
    sets: Mapping[str, LabelledSet],
    *,
    variational: tuple[VariationalConfig, ...] = (),
    snapshots: SnapshotConfig | None = None,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Add the extras of the outputs of these sets to every network of a source of several sets, at fixed weights.

    As `add_extras_run`; other outputs stay as they are. Raises ConfigError for a set that the source does not have, and
    InputError when the structures of a set are not those of the training or the source is one without outputs by name.
    """
    stored = open_sources(folder)
    if not stored.sizes:
        raise InputError(f"{folder} is a source of one set. Give its structures and gaps without the name of a set.")
    for name in sets:
        stored.head(name)
    models = stored.load(next(iter(sets)), verify=False, extras=False)
    descriptor = next(iter(models[0].values())).descriptor
    tables = {
        name: learnable(s.records, s.gaps_eV, descriptor=descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
        for name, s in sets.items()
    }
    _add_to_heads(stored, tables, variational=variational, snapshots=snapshots, device=device, progress=progress)
    return Path(folder)


def _add_to_heads(
    stored: StoredSources,
    tables: Mapping[str, Table],
    *,
    variational: tuple[VariationalConfig, ...] = (),
    snapshots: SnapshotConfig | None = None,
    device: str,
    progress: Progress,
) -> None:
    """Write the extras of the outputs of these sets; one source model is in memory at a time."""
    for name, table in tables.items():
        head, rows = stored.head(name), {}
        for number, folders in enumerate(stored.members):
            source = _asking(load_source(folders[name], verify=False), variational, snapshots)
            power = source.standardiser.power
            if power not in rows:
                used = used_features(source.params)
                rows[power] = used_rows(source.standardiser, table.features, table.gaps_eV, used=used)
            made = with_head_extras(source, *rows[power], head=head, member=number, device=device, progress=progress)
            save_source(folders[name], made, references=table.records)


def _rows(
    records: Sequence[StructureRecord],
    gaps_eV: NDArray[np.floating[Any]],
    descriptor: MBTRConfig,
    split: tuple[int, int] | None,
    *,
    seed: int,
    cache: DescriptorCache | None,
    n_jobs: int,
    progress: Progress,
) -> tuple[Table, Table | None]:
    """Return the rows that a network is trained on, and those that its split leaves to be tested by."""
    table = learnable(
        records,
        gaps_eV,
        descriptor=descriptor,
        mapped_from_bytes=IN_MEMORY_BYTES,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    return without_test_rows(table, split, seed=seed)


def _asking(
    source: SourceModel, variational: tuple[VariationalConfig, ...], snapshots: SnapshotConfig | None
) -> SourceModel:
    """Return the source whose config asks for these parts, and for those that it asked for before."""
    known = source.config
    asked = replace(known, variational=variational or known.variational, snapshots=snapshots or known.snapshots)
    return replace(source, config=asked)


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

"""The jobs that make source models: train a network on labelled molecules, or several networks on several sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.artifacts import load_source, save_source
from bandgap.cache import DescriptorCache
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import MBTRConfig
from bandgap.joint_source import SourceSet, train_joint_sources
from bandgap.joint_training import JointTrainingConfig
from bandgap.overlap import KNOWN, known_of, save_known
from bandgap.progress import Progress, no_progress
from bandgap.source import SourceConfig, train_source, with_extras
from bandgap.source_sets import save_sources
from bandgap.structures import StructureRecord
from bandgap.swag import SnapshotConfig
from bandgap.variational import VariationalConfig

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
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train a source network on labelled molecules, write it to `out` and return `out`.

    Structures that are refused or have no gap (NaN) are left out; raises InputError when nothing is left.
    """
    table = learnable(records, gaps_eV, descriptor=descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    source = train_source(
        table.features,
        table.gaps_eV,
        descriptor=descriptor,
        config=config,
        data=_files(table),
        elements=_elements(table),
        level_of_theory=level_of_theory,
        licence=licence,
        seed=seed,
        device=device,
        progress=progress,
    )
    save_source(Path(out), source, references=table.records)
    save_known(Path(out), known_of(table.records))
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

    What its settings asked for at an earlier time is made again. The keys by which an overlap with a target is found
    are written where they are missing. Raises InputError when the structures are not those of the training.
    """
    source = load_source(folder)
    config = replace(
        source.config,
        variational=variational or source.config.variational,
        snapshots=snapshots or source.config.snapshots,
    )
    table = learnable(records, gaps_eV, descriptor=source.descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
    made = with_extras(replace(source, config=config), table.features, table.gaps_eV, device=device, progress=progress)
    save_source(Path(folder), made, references=table.records)
    if not (Path(folder) / KNOWN).is_file():
        save_known(Path(folder), known_of(table.records))
    return Path(folder)


@dataclass(frozen=True, eq=False)
class LabelledSet:
    """Molecules of one origin with their gaps (n,) in eV, NaN where there is none."""

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
    out: Path,
    seed: int,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Train `members` networks with one output for each set, write them to `out` and return `out`.

    Structures that are refused or have no gap are left out; raises InputError when nothing is left of a set.
    """
    tables = {
        name: learnable(s.records, s.gaps_eV, descriptor=descriptor, cache=cache, n_jobs=n_jobs, progress=progress)
        for name, s in sets.items()
    }
    models = train_joint_sources(
        [
            SourceSet(
                name,
                table.features,
                table.gaps_eV,
                data=_files(table),
                elements=_elements(table),
                level_of_theory=sets[name].level_of_theory,
                licence=sets[name].licence,
            )
            for name, table in tables.items()
        ],
        descriptor=descriptor,
        config=config,
        training=training,
        members=members,
        seed=seed,
        device=device,
        progress=progress,
    )
    folder = Path(out)
    save_sources(folder, models, references={name: table.records for name, table in tables.items()})
    save_known(folder, known_of([record for table in tables.values() for record in table.records]))
    return folder


def _files(table: Table) -> tuple[str, ...]:
    return tuple(sorted({record.file for record in table.records})[:FILES_NAMED])


def _elements(table: Table) -> tuple[str, ...]:
    return tuple(sorted(set().union(*table.elements)))

"""Parts beyond the point estimate that a stored source gets afterwards, from its own structures at fixed weights."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.foundation.replacement import replaced_folder
from bandgap.networks.swag import SnapshotConfig
from bandgap.networks.variational import VariationalConfig
from bandgap.sources.domain import DOMAIN, save_domain
from bandgap.sources.held_back import rows_to_learn
from bandgap.sources.joint import with_head_extras
from bandgap.sources.model import SourceModel
from bandgap.sources.one_set import with_extras
from bandgap.sources.overlap import KNOWN, known_of, save_known
from bandgap.sources.parts import used_features, used_rows
from bandgap.sources.sets import StoredSources, open_sources
from bandgap.sources.stored import load_source, save_source
from bandgap.structures import StructureRecord


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
    table, _ = rows_to_learn(
        records,
        gaps_eV,
        source.descriptor,
        split,
        seed=seed,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    made = with_extras(source, table.features, table.gaps_eV, device=device, progress=progress)
    with replaced_folder(Path(folder), copy=True) as changed:
        save_source(changed, made, references=table.records)
        if not (changed / KNOWN).is_file():
            save_known(changed, known_of(table.records))
        if not (changed / DOMAIN).is_file():
            save_domain(changed, [table], source.descriptor)
    return Path(folder)


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
        raise InputError(
            f"{folder} is a source of one set. Give its structures and gaps without the name of a set."
        )
    for name in sets:
        stored.head(name)
    models = stored.load(next(iter(sets)), verify=False, extras=False)
    descriptor = next(iter(models[0].values())).descriptor
    tables = {
        name: learnable(
            s.records,
            s.gaps_eV,
            descriptor=descriptor,
            cache=cache,
            n_jobs=n_jobs,
            progress=progress,
        )
        for name, s in sets.items()
    }
    add_to_heads(
        stored,
        tables,
        variational=variational,
        snapshots=snapshots,
        device=device,
        progress=progress,
    )
    return Path(folder)


def add_to_heads(
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
                rows[power] = used_rows(
                    source.standardiser, table.features, table.gaps_eV, used=used
                )
            made = with_head_extras(
                source, *rows[power], head=head, member=number, device=device, progress=progress
            )
            with replaced_folder(folders[name], copy=True) as changed:
                save_source(changed, made, references=table.records)


def _asking(
    source: SourceModel,
    variational: tuple[VariationalConfig, ...],
    snapshots: SnapshotConfig | None,
) -> SourceModel:
    """Return the source whose config asks for these parts, and for those that it asked for before."""
    known = source.config
    asked = replace(
        known, variational=variational or known.variational, snapshots=snapshots or known.snapshots
    )
    return replace(source, config=asked)

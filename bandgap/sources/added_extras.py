"""Add extras to a stored source afterwards, from its training structures and without training."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from bandgap.datasets.table import LabelledSet, Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, no_progress
from bandgap.foundation.replacement import replaced_folder
from bandgap.sources.extras import used_features, used_rows
from bandgap.sources.held_back import rows_to_learn
from bandgap.sources.joint import with_head_extras
from bandgap.sources.model import SourceConfig, SourceModel
from bandgap.sources.near_copies import has_distances
from bandgap.sources.one_set import with_extras
from bandgap.sources.overlap import keys_of, save_keys
from bandgap.sources.sets import StoredSources, open_sources
from bandgap.sources.stored import load_source, save_source
from bandgap.storage.manifests import read_manifest
from bandgap.structures.near_copies import StoredDistances


def add_extras_run(
    folder: Path,
    sets: Mapping[str, LabelledSet],
    *,
    extras: SourceConfig = SourceConfig(),
    device: str = "auto",
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Add the extras of a source to its folder; its weights are not changed.

    Extras that its settings already ask for are recomputed. In a source of several sets, every
    network gets those of the outputs of these sets; other outputs are not changed. In a source of
    one set, the keys and distances that show an overlap with a target are written if they are
    missing.

    Parameters
    ----------
    folder
        Folder of the source.
    sets
        Its training structures and their gaps, in the same order, by the name of the set: "" for a
        source of one set.
    extras
        Settings whose variational fits and snapshots are computed in addition.
    device, cache, n_jobs, progress
        Where and how they are computed.

    Raises
    ------
    InputError
        If the structures are not those of the training, and for names in a source of one set.
    ConfigError
        For a set that the source does not have.
    """
    path = Path(folder)
    stored = open_sources(path)
    if stored.sizes:
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
            extras=extras,
            device=device,
            progress=progress,
        )
        return path
    if set(sets) != {""}:
        raise InputError(
            f"{folder} is a source of one set. "
            "Give its structures and gaps without the name of a set."
        )
    source = _with_requested_extras(load_source(path), extras)
    table, _ = rows_to_learn(
        sets[""].records,
        sets[""].gaps_eV,
        source.descriptor,
        source.config.split,
        seed=source.card.seed,
        cache=cache,
        n_jobs=n_jobs,
        progress=progress,
    )
    source = with_extras(source, table.features, table.gaps_eV, device=device, progress=progress)
    manifest = read_manifest(path, kind="source")
    entries: dict[str, Any] = {
        name: manifest[name] for name in ("tested", "warnings") if name in manifest
    }
    with replaced_folder(path, copy=True) as changed:
        save_source(changed, source, references=table.records, entries=entries)
        if not has_distances(changed):
            save_keys(
                changed, keys_of(table.records), StoredDistances.of(table.near_copies).arrays()
            )
    return path


def add_to_heads(
    stored: StoredSources,
    tables: Mapping[str, Table],
    *,
    extras: SourceConfig = SourceConfig(),
    device: str,
    progress: Progress,
) -> None:
    """Write the extras of the outputs of these sets, with one source model in memory at a time."""
    for name, table in tables.items():
        head = stored.head(name)
        rows: dict[float, tuple[Tensor, Tensor]] = {}
        for member, folders in enumerate(stored.members):
            source = load_source(folders[name], verify=False)
            source = _with_requested_extras(source, extras)
            power = source.standardiser.power
            if power not in rows:
                used = used_features(source.params)
                rows[power] = used_rows(
                    source.standardiser, table.features, table.gaps_eV, used=used
                )
            source = with_head_extras(
                source, *rows[power], head=head, member=member, device=device, progress=progress
            )
            with replaced_folder(folders[name], copy=True) as changed:
                save_source(changed, source, references=table.records)


def _with_requested_extras(source: SourceModel, extras: SourceConfig) -> SourceModel:
    """Return the source whose config asks for these extras in addition to its own."""
    config = replace(
        source.config,
        variational=extras.variational or source.config.variational,
        snapshots=extras.snapshots or source.config.snapshots,
    )
    return replace(source, config=config)

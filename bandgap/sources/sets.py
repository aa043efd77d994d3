"""Stored sources of several networks and outputs: a folder for each source model, and a manifest.

A folder of kind "sources" lists its members (networks), each with a source folder for every output.
A plain source folder is a source of one network with one output. A shipped model of gaps is one of
several networks (`sources.run_networks`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bandgap.foundation.config import from_dict, to_dict
from bandgap.foundation.errors import ArtifactError, ConfigError
from bandgap.networks.joint_training import JointTrainingConfig
from bandgap.sources.joint import Head
from bandgap.sources.model import SourceModel
from bandgap.sources.run_networks import KIND as RUN
from bandgap.sources.run_networks import networks_of_run
from bandgap.sources.stored import load_source, save_source
from bandgap.storage.manifests import (
    MANIFEST,
    SCHEMA,
    manifest_kind,
    read_manifest,
    versions,
    write_manifest,
)
from bandgap.structures import StructureRecord

KIND = "sources"


@dataclass(frozen=True)
class StoredSources:
    """The source models of a stored source, not yet loaded.

    Parameters
    ----------
    folder
        The folder of the source.
    members
        For each network, the folder of every output by name.
    sizes
        Numbers of rows of the sets, by name; empty for a plain source.
    training
        Settings of the joint training.
    is_run
        Whether it is a shipped model, whose folder has all networks.
    """

    folder: Path
    members: tuple[Mapping[str, Path], ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    training: JointTrainingConfig = field(default_factory=JointTrainingConfig)
    is_run: bool = False

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self.members[0])

    @property
    def has_several_heads(self) -> bool:
        """Whether there is more than one output."""
        return len(self.heads) > 1

    def head(self, name: str) -> Head:
        """Return what identifies the split of an output's rows; raise ConfigError if none."""
        self._check(name)
        share = self.training.validation_share
        return Head(name, self.heads.index(name), tuple(self.sizes[n] for n in self.heads), share)

    def load(
        self, head: str | None = None, *, verify: bool = True, extras: bool = True
    ) -> list[dict[str, SourceModel]]:
        """Return the source models of every network by output.

        Parameters
        ----------
        head
            Name of the only output to load; raises ConfigError if there is none of this name.
        verify
            Whether to recompute the reference predictions.
        extras
            Whether to load the extras.
        """
        if head is not None:
            self._check(head)
        if self.is_run:
            return networks_of_run(self.folder)
        names = self.heads if head is None else (head,)
        return [
            {name: load_source(member[name], verify=verify, extras=extras) for name in names}
            for member in self.members
        ]

    def _check(self, head: str) -> None:
        if head not in self.heads:
            raise ConfigError(
                f"source set {head!r} does not exist in this source. "
                f"Accepted: {', '.join(self.heads)}."
            )


def open_sources(folder: Path | str) -> StoredSources:
    """Return the source models of a folder; raise ArtifactError if it is no source or damaged."""
    path = Path(folder)
    if manifest_kind(path) == RUN:
        return StoredSources(path, ({"": path},), is_run=True)
    if manifest_kind(path) != KIND:
        read_manifest(path, kind="source")
        return StoredSources(path, ({"": path},))
    manifest = read_manifest(path, kind=KIND)
    try:
        members = tuple(
            {str(k): path / str(v) for k, v in member.items()} for member in manifest["members"]
        )
        sizes = {str(k): int(card["n_structures"]) for k, card in manifest["cards"].items()}
        training = from_dict(JointTrainingConfig, manifest.get("training", {}))
    except (KeyError, TypeError, AttributeError, ConfigError) as error:
        raise ArtifactError(
            f"{path / MANIFEST}: the list of members is damaged. Make the folder again."
        ) from error
    if not members or any(set(member) != set(members[0]) or not member for member in members):
        raise ArtifactError(
            f"{path / MANIFEST}: members have other outputs than the first. Make the folder again."
        )
    return StoredSources(path, members, sizes, training)


def save_sources(
    folder: Path,
    members: Sequence[Mapping[str, SourceModel]],
    *,
    references: Mapping[str, Sequence[StructureRecord]],
    training: JointTrainingConfig,
    entries: Mapping[str, Any] | None = None,
) -> None:
    """Write every source model of every network, and the manifest with further `entries`.

    `references` are training structures of each output, of which up to five are stored.
    """
    folders: list[dict[str, str]] = []
    for number, models in enumerate(members, start=1):
        folders.append({name: f"member-{number}/{k}" for k, name in enumerate(models, start=1)})
        for name, model in models.items():
            save_source(folder / folders[-1][name], model, references=references[name])
    cards = [model.card for model in members[0].values()]
    errors = {
        name: [float(models[name].card.validation_rmse_eV) for models in members]
        for name in members[0]
    }
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "members": folders,
        "cards": {name: to_dict(card) for name, card in zip(members[0], cards, strict=True)},
        "training": to_dict(training),
        "metrics": {
            f"validation_rmse_{name}_eV": sum(values) / len(values)
            for name, values in errors.items()
        },
        "versions": versions(),
    }
    write_manifest(folder, manifest | dict(entries or {}))

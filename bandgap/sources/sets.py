"""Stored sources of several outputs and networks: a folder for each of their source models, and one manifest.

A folder of kind "sources" lists its members, each with a source folder for every output; a plain source folder is a
source of one network with one output. Nothing but what a transfer starts from is read with its self-check.
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
    """Where the source models are: for each member, the folder of every output by name; and how they were trained.

    `sizes` are the numbers of rows of the sets, by name; a plain source has none.
    """

    folder: Path
    members: tuple[Mapping[str, Path], ...]
    sizes: Mapping[str, int] = field(default_factory=dict)
    training: JointTrainingConfig = field(default_factory=JointTrainingConfig)

    @property
    def heads(self) -> tuple[str, ...]:
        """Names of the outputs."""
        return tuple(self.members[0])

    @property
    def several(self) -> bool:
        """Whether there is more than one output."""
        return len(self.heads) > 1

    def head(self, name: str) -> Head:
        """Return what the extras of one output need; raises ConfigError where there is no output of this name."""
        self._check(name)
        share = self.training.validation_share
        return Head(name, self.heads.index(name), tuple(self.sizes[n] for n in self.heads), share)

    def load(
        self, head: str | None = None, *, verify: bool = True, extras: bool = True
    ) -> list[dict[str, SourceModel]]:
        """Return the source models of every member by output, or of one output; self-checks and extras or not.

        Raises ConfigError where there is no output of this name.
        """
        if head is not None:
            self._check(head)
        wanted = self.heads if head is None else (head,)
        return [
            {name: load_source(member[name], verify=verify, extras=extras) for name in wanted}
            for member in self.members
        ]

    def _check(self, head: str) -> None:
        if head not in self.heads:
            raise ConfigError(
                f"source set {head!r} does not exist in this source. Accepted: {', '.join(self.heads)}."
            )


def open_sources(folder: Path | str) -> StoredSources:
    """Return where the source models of a stored source are; raises ArtifactError when it is none or is damaged."""
    path = Path(folder)
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
) -> None:
    """Write every source model of every member; `references` are up to five training structures of each output."""
    entries: list[dict[str, str]] = []
    for number, models in enumerate(members, start=1):
        entries.append(
            {name: f"member-{number}/{position}" for position, name in enumerate(models, start=1)}
        )
        for name, model in models.items():
            save_source(folder / entries[-1][name], model, references=references[name])
    cards = [model.card for model in members[0].values()]
    errors = {
        name: [float(models[name].card.validation_rmse_eV) for models in members]
        for name in members[0]
    }
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": KIND,
        "members": entries,
        "cards": {name: to_dict(card) for name, card in zip(members[0], cards, strict=True)},
        "training": to_dict(training),
        "metrics": {
            f"validation_rmse_{name}_eV": sum(values) / len(values)
            for name, values in errors.items()
        },
        "versions": versions(),
    }
    write_manifest(folder, manifest)

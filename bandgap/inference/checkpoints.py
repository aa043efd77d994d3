"""Files from which a run of chains goes on at any iteration: named tensors and a few words, as safetensors.

Nothing is unpickled. A file is written beside its old version and then takes its place, so that an interruption leaves
one or the other.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import ArtifactError, ConfigError

SCHEMA = "5"
CHECKPOINT = "checkpoint"  # folder of an unfinished run, in its own
CHECKPOINT_EVERY = 100  # iterations


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept and how often: every `every` iterations, when it is cancelled, and at its end.

    The file holds all draws so far.
    """

    path: Path
    every: int = CHECKPOINT_EVERY

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(
                f"checkpoint: every = {self.every}. Accepted: a number of iterations from 1."
            )

    def of_part(self, number: int) -> "Checkpoint":
        """Return where one part of the run is kept, such as a group of chains (from 0): a file beside the others.

        >>> Checkpoint(Path("chains.safetensors")).of_part(1).path.name
        'chains-2.safetensors'
        """
        return Checkpoint(self.path.with_stem(f"{self.path.stem}-{number + 1}"), self.every)


class ForeignCheckpointError(ArtifactError):
    """A checkpoint from which this run cannot go on: damaged, of another version, or of another run."""


def write(path: Path, arrays: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and `facts`, plain values that JSON can hold."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    metadata = {"schema": SCHEMA, "facts": json.dumps(dict(facts), sort_keys=True)}
    try:
        save_file(_apart(arrays), beside, metadata=metadata)
        beside.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            beside.unlink()


def read(
    path: Path, *, expected: Mapping[str, Any], device: torch.device
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, on `device`, and the facts; the facts named in `expected` must have these values.

    Raises ForeignCheckpointError on a file that is damaged, of another version, or of another run.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # a copy: what safetensors returns is the file itself, mapped into memory
            arrays = {name: file.get_tensor(name).clone().to(device) for name in file.keys()}  # noqa: SIM118
        facts = _facts(metadata)
    except DAMAGE as error:
        raise ForeignCheckpointError(
            f"{path}: not a checkpoint, or damaged ({error}). Delete it to start anew."
        ) from error
    if metadata.get("schema") != SCHEMA:
        raise ForeignCheckpointError(
            f"{path}: a checkpoint of version {metadata.get('schema', 'unknown')}; this program reads version "
            f"{SCHEMA}. Delete it to start anew."
        )
    for name, value in expected.items():
        if facts.get(name) != value:
            raise ForeignCheckpointError(
                f"{path}: belongs to another run: {name} is {facts.get(name)!r} there and {value!r} here. Give another "
                "file, or delete this one to start anew."
            )
    return arrays, facts


def facts_of(path: Path) -> dict[str, Any]:
    """Return the facts of a file of this version, none where there is no such file."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        facts = _facts(metadata)
    except DAMAGE:
        return {}
    return facts if metadata.get("schema") == SCHEMA else {}


def _facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    found = parse_json(metadata.get("facts", "{}"), what="facts")
    if not isinstance(found, dict):
        raise TypeError(f"facts are a {type(found).__name__}")
    return found


def under(prefix: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def content_of(*parts: Any) -> str:
    """Return 16 hexadecimal digits of SHA-256 over the fields of dataclasses: tensors and arrays by their bits."""
    digest = hashlib.sha256()
    for piece in _pieces(parts):
        digest.update(piece)
    return digest.hexdigest()[:16]


def _pieces(value: Any) -> Iterator[bytes]:
    if isinstance(value, Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().numpy().tobytes()
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif dataclasses.is_dataclass(value):
        yield type(value).__name__.encode()
        for field in dataclasses.fields(value):
            yield field.name.encode()
            yield from _pieces(getattr(value, field.name))
    elif isinstance(value, (list, tuple)):
        for entry in value:
            yield from _pieces(entry)
    else:
        yield repr(value).encode()


def _apart(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, no two of them in the same memory, as safetensors wants them."""
    result, places = {}, set()
    for name, tensor in arrays.items():
        here = tensor.cpu().contiguous()
        place = here.untyped_storage().data_ptr()
        result[name] = here.clone() if place in places else here
        places.add(place)
    return result

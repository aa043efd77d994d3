"""Checkpoints: files from which a run of chains resumes at any iteration.

A file contains named tensors and a few facts, as safetensors, and nothing is unpickled. A new file
is written under another name and then replaces the old one, so that an interruption leaves one or
the other.
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

from bandgap.foundation.config import Count, Settings
from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import ArtifactError

SCHEMA = "1"
CHECKPOINT = "checkpoint"  # name of the folder of checkpoints in the folder of an unfinished run
CHECKPOINT_EVERY = 100  # iterations


@dataclass(frozen=True)
class Checkpoint(Settings):
    """File of a run: written every `every` iterations, when the run is cancelled, and at its end.

    It contains all draws so far. Raises ConfigError for `every` below 1.
    """

    path: Path
    every: Count = CHECKPOINT_EVERY

    def of_part(self, number: int) -> "Checkpoint":
        """Return the file of one part of the run, such as a group of chains (from 0).

        >>> Checkpoint(Path("chains.safetensors")).of_part(1).path.name
        'chains-2.safetensors'
        """
        return Checkpoint(self.path.with_stem(f"{self.path.stem}-{number + 1}"), self.every)


class ForeignCheckpointError(ArtifactError):
    """A checkpoint from which this run cannot resume: damaged, or of another version or run."""


def write(path: Path, arrays: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and `facts`, values that JSON can represent."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    metadata = {"schema": SCHEMA, "facts": json.dumps(dict(facts), sort_keys=True)}
    try:
        save_file(_without_shared_memory(arrays), temporary, metadata=metadata)
        temporary.replace(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def read(
    path: Path, *, expected: Mapping[str, Any], device: torch.device
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, on `device`, and the facts.

    Raises ForeignCheckpointError on a file that is damaged, of another version, or of another run,
    which is one whose facts differ from `expected`.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            # copies, because safetensors returns the file itself, mapped into memory
            arrays = {name: file.get_tensor(name).clone().to(device) for name in names}
        facts = _facts(metadata)
    except DAMAGE as error:
        raise ForeignCheckpointError(
            f"{path}: not a checkpoint, or damaged ({error}). Delete it to restart."
        ) from error
    if metadata.get("schema") != SCHEMA:
        raise ForeignCheckpointError(
            f"{path}: a checkpoint of version {metadata.get('schema', 'unknown')}; this program "
            f"reads version {SCHEMA}. Delete it to restart."
        )
    for name, value in expected.items():
        if facts.get(name) != value:
            raise ForeignCheckpointError(
                f"{path}: belongs to another run: {name} is {facts.get(name)!r} there and "
                f"{value!r} here. Give another file, or delete this one to restart."
            )
    return arrays, facts


def facts_of(path: Path) -> dict[str, Any]:
    """Return the facts of a file of this version, {} if there is no such file."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
        facts = _facts(metadata)
    except DAMAGE:
        return {}
    return facts if metadata.get("schema") == SCHEMA else {}


def _facts(metadata: Mapping[str, str]) -> dict[str, Any]:
    facts = parse_json(metadata.get("facts", "{}"), what="facts")
    if not isinstance(facts, dict):
        raise TypeError(f"facts are a {type(facts).__name__}")
    return facts


def under(prefix: str, arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names begin with the prefix, without it."""
    return {
        name.removeprefix(prefix): value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def content_of(*parts: Any) -> str:
    """Return 16 hexadecimal digits of SHA-256 over the fields of dataclasses.

    Tensors and arrays enter by their bits.
    """
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


def _without_shared_memory(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, no two in the same memory, as safetensors requires."""
    result = {}
    addresses = set()
    for name, tensor in arrays.items():
        on_cpu = tensor.cpu().contiguous()
        address = on_cpu.untyped_storage().data_ptr()
        result[name] = on_cpu.clone() if address in addresses else on_cpu
        addresses.add(address)
    return result

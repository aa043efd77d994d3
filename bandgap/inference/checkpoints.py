"""Files from which a run of chains goes on at any iteration: named tensors and a few words, as safetensors.

Nothing is unpickled. A file is written beside its old version and then takes its place, so that an interruption leaves
one or the other.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from bandgap.errors import ArtifactError, ConfigError

SCHEMA = "1"


@dataclass(frozen=True)
class Checkpoint:
    """Where a run is kept and how often: every `every` iterations, when it is cancelled, and at its end.

    The file holds all draws so far.
    """

    path: Path
    every: int = 100

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ConfigError(f"checkpoint: every = {self.every}. Accepted: a number of iterations from 1.")


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


def read(path: Path, *, expected: Mapping[str, Any], device: torch.device) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors, on `device`, and the facts; the facts named in `expected` must have these values.

    Raises ArtifactError on a file that is damaged, of another version, or of another run.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # a copy: what safetensors returns is the file itself, mapped into memory
            arrays = {name: file.get_tensor(name).clone().to(device) for name in file.keys()}  # noqa: SIM118
        facts: dict[str, Any] = json.loads(metadata.get("facts", "{}"))
    except (SafetensorError, ValueError) as error:
        raise ArtifactError(f"{path}: not a checkpoint, or damaged ({error}). Delete it to start anew.") from error
    if metadata.get("schema") != SCHEMA:
        raise ArtifactError(
            f"{path}: a checkpoint of version {metadata.get('schema', 'unknown')}; this program reads version "
            f"{SCHEMA}. Delete it to start anew."
        )
    for name, value in expected.items():
        if facts.get(name) != value:
            raise ArtifactError(
                f"{path}: belongs to another run: {name} is {facts.get(name)!r} there and {value!r} here. Give another "
                "file, or delete this one to start anew."
            )
    return arrays, facts


def _apart(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors on the CPU, no two of them in the same memory, as safetensors wants them."""
    result, places = {}, set()
    for name, tensor in arrays.items():
        here = tensor.cpu().contiguous()
        place = here.untyped_storage().data_ptr()
        result[name] = here.clone() if place in places else here
        places.add(place)
    return result

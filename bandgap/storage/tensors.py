"""Torch's tensors on disk: the weights of sources, some in bfloat16, which NumPy has not."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.replacement import write_whole
from bandgap.storage.arrays import check_shapes, damaged_file


def save_tensors(arrays: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors, whole or not at all.

    Tensors that were loaded are a view of their file: it is replaced, never written over, so that
    they stay what they are.
    """
    write_whole(path, save({name: value.contiguous() for name, value in arrays.items()}))


def load_tensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Return all tensors of a file; raises ArtifactError when one of `shapes` is missing or of
    another shape.
    """
    try:
        arrays: dict[str, torch.Tensor] = load_file(path)
    except DAMAGE as error:
        raise damaged_file(path, str(error)) from error
    check_shapes(path, {name: tuple(value.shape) for name, value in arrays.items()}, shapes)
    return arrays

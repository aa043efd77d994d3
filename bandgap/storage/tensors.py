"""Tensors on disk: safetensors files, read with their shapes checked."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from safetensors.torch import load_file, save

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError

# Largest size of unpacked tensors, in bytes of the stored ones; small files may be unpacked more.
_MAX_GROWTH = 200
_FREE_BYTES = 1_000_000


def save_tensors(arrays: Mapping[str, torch.Tensor], path: Path) -> None:
    """Write tensors, whole or not at all, with the file mode of any other file.

    safetensors' own writer lets only the owner read them. Tensors that were loaded are a view of
    their file: it is replaced, never written over, so that they stay what they are.
    """
    partial = path.with_name(path.name + ".part")
    partial.write_bytes(save({name: value.contiguous() for name, value in arrays.items()}))
    partial.replace(path)


def load_tensors(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    """Return all tensors of a file; raises ArtifactError when one of `shapes` is missing or of
    another shape.
    """
    try:
        arrays: dict[str, torch.Tensor] = load_file(path)
    except DAMAGE as error:
        raise ArtifactError(
            f"{path} cannot be read ({error}). The folder is damaged; make it again."
        ) from error
    check_shapes(path, {name: tuple(value.shape) for name, value in arrays.items()}, shapes)
    return arrays


def check_shapes(
    path: Path, stored: Mapping[str, tuple[int, ...]], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Raise ArtifactError naming the first of `shapes` that the tensors `stored` do not have."""
    for name, shape in shapes.items():
        stored_shape = stored.get(name, "nothing")
        if stored_shape != shape:
            raise ArtifactError(
                f"{path}: tensor {name} has shape {stored_shape}, {shape} is expected. The folder "
                "is damaged."
            )


def check_growth(stored: Mapping[str, torch.Tensor], sizes: Iterable[int]) -> None:
    """Raise ValueError where tensors of these `sizes` in bytes are too large for the stored ones.

    To be called before they are made: a few stored bytes may describe any size.
    """
    n_stored = sum(value.nbytes for value in stored.values())
    n_unpacked = sum(sizes)
    if n_unpacked > _FREE_BYTES + _MAX_GROWTH * n_stored:
        raise ValueError(
            f"{n_stored:,} stored bytes describe {n_unpacked:,}, more than {_MAX_GROWTH} times as "
            "many"
        )

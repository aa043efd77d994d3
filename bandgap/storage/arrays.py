"""NumPy arrays on disk: safetensors files, read with their shapes checked. Loads no torch."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file, save

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.replacement import write_whole

Arrays = dict[str, NDArray[Any]]

# Largest size of unpacked arrays, in bytes of the stored ones; small files may be unpacked more.
_MAX_GROWTH = 200
_FREE_BYTES = 1_000_000


def save_arrays(arrays: Mapping[str, NDArray[Any]], path: Path) -> None:
    """Write arrays, whole or not at all.

    safetensors' own writer lets only the owner read the file.
    """
    write_whole(path, save({name: np.asarray(a, order="C") for name, a in arrays.items()}))


def load_arrays(path: Path) -> Arrays:
    """Return all arrays of a file; raise ArtifactError if it is missing or damaged."""
    try:
        arrays: Arrays = load_file(path)
    except DAMAGE as error:
        raise damaged_file(path, str(error)) from error
    return arrays


def damaged_file(path: Path, reason: str) -> ArtifactError:
    """Return the error on a file that cannot be read."""
    return ArtifactError(f"{path} cannot be read ({reason}). The folder is damaged; make it again.")


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


def check_growth(stored: Mapping[str, Any], sizes: Iterable[int]) -> None:
    """Raise ValueError where arrays of these `sizes` in bytes are too large for the stored ones.

    To be called before they are made: a few stored bytes may describe any size.
    """
    n_stored = sum(value.nbytes for value in stored.values())
    n_unpacked = sum(sizes)
    if n_unpacked > _FREE_BYTES + _MAX_GROWTH * n_stored:
        raise ValueError(
            f"{n_stored:,} stored bytes describe {n_unpacked:,}, more than {_MAX_GROWTH} times as "
            "many"
        )

"""Arrays of features: in memory, or as float32 in a file without a name that is mapped into it and ends with it.

A mapped file takes memory only while there is some to spare, as the system can always read its pages again.
"""

import mmap
import os
import tempfile
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import BudgetError

_ROWS: Final = 4096  # moved at once


def mapped_array(n: int, n_features: int, *, folder: Path | None = None) -> NDArray[np.float32]:
    """Return an array (n, n_features) of NaN in a file in `folder` (default: where temporary files are).

    Raises BudgetError where the disk has no room for it.
    """
    size = 4 * n * n_features
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(
                    file.fileno(), 0, size
                )  # else a full disk would end the process while it writes
            else:
                file.truncate(size)
        except OSError as error:
            raise BudgetError(
                f"{n:,} structures x {n_features:,} features need {size / 1e9:.2f} GB on the disk of "
                f"{folder or tempfile.gettempdir()} ({error.strerror}). Free some, or name another folder by TMPDIR."
            ) from error
        array: NDArray[np.float32] = np.memmap(
            file, dtype=np.float32, mode="r+", shape=(n, n_features)
        )
    for start in range(0, n, _ROWS):
        array[start : start + _ROWS] = np.nan
    _release(array)
    return array


def chosen_rows(features: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the features (n, p) of ascending rows; of a mapped array by moving them up in it, else as a copy."""
    if rows.size == features.shape[0]:
        return features
    if not isinstance(features, np.memmap):
        return features[rows]
    for start in range(0, rows.size, _ROWS):
        block = rows[start : start + _ROWS]
        features[start : start + block.size] = features[
            block
        ]  # the right side is a copy, and rows only move up
    _release(features)
    return features[: rows.size]


def _release(array: NDArray[np.float32]) -> None:
    """Let go of the memory of a mapped array, whose numbers stay in its file; pages come back as they are read."""
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)

"""Arrays of features, in memory or as float32 in an unnamed temporary file that is mapped into it.

A mapped file takes only spare memory, because the system can always read its pages again.
"""

import mmap
import os
import tempfile
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import BudgetError

_CHUNK_ROWS: Final = 4096


def mapped_array(n: int, n_features: int) -> NDArray[np.float32]:
    """Return an array of NaN in a temporary file, which is removed with the array.

    Parameters
    ----------
    n, n_features
        Shape of the array.

    Raises
    ------
    BudgetError
        If the disk has not enough space.
    """
    size = 4 * n * n_features
    with tempfile.TemporaryFile() as file:
        try:
            if hasattr(os, "posix_fallocate"):
                # Without allocated space, a full disk would end the process while it writes.
                os.posix_fallocate(file.fileno(), 0, size)
            else:
                file.truncate(size)
        except OSError as error:
            raise BudgetError(
                f"{n:,} structures x {n_features:,} features need {size / 1e9:.2f} GB on the disk "
                f"of {tempfile.gettempdir()} ({error.strerror}). "
                "Free some, or name another folder by TMPDIR."
            ) from error
        array: NDArray[np.float32] = np.memmap(
            file, dtype=np.float32, mode="r+", shape=(n, n_features)
        )
    for start in range(0, n, _CHUNK_ROWS):
        array[start : start + _CHUNK_ROWS] = np.nan
    _release_memory(array)
    return array


def take_rows(features: NDArray[np.float32], rows: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return these rows of the features (n, p); `rows` are ascending.

    In a mapped array the rows are moved to its beginning, which overwrites it. Otherwise the
    result is a copy, or `features` itself if it is all of its rows.
    """
    if rows.size == features.shape[0]:
        return features
    if not isinstance(features, np.memmap):
        return features[rows]
    for start in range(0, rows.size, _CHUNK_ROWS):
        chunk = rows[start : start + _CHUNK_ROWS]
        # The right side is a copy, and rows only move towards the beginning.
        features[start : start + chunk.size] = features[chunk]
    _release_memory(features)
    return features[: rows.size]


def _release_memory(array: NDArray[np.float32]) -> None:
    """Release the memory of a mapped array; its pages are read from the file again when used."""
    if isinstance(array.base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        array.base.madvise(mmap.MADV_DONTNEED)

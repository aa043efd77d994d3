"""Rows in blocks of a fixed size, so that results are bitwise independent of the other rows.

Linear-algebra libraries sum a product in an order that depends on the shapes of its factors, and
numpy adds a single column in another order than several. If every block has the same number of
rows, a multiple of all tile sizes, each row is summed in the same order, wherever it is in a block.
The last block is filled with copies of its last row. No rows give one block of zeros, so that the
results have the right shapes.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[Any]

ROWS: Final = 32


def fixed_blocks(*arrays: Rows) -> Iterator[tuple[int, tuple[Rows, ...]]]:
    """Yield the number of rows in a block, and the filled block (ROWS, ...) of each array.

    The arrays have the shapes (n, ...).
    """
    n = len(arrays[0])
    for start in range(0, max(n, 1), ROWS):
        n_rows = min(ROWS, n - start)
        indices = np.arange(start, start + ROWS).clip(max=max(n - 1, 0))
        yield n_rows, tuple(_block(array, indices) for array in arrays)


def _block(array: Rows, indices: NDArray[np.int64]) -> Rows:
    """Return the rows of an array; zeros if it has no rows."""
    if len(array) == 0:
        return np.zeros((ROWS, *array.shape[1:]), dtype=array.dtype)
    return array[indices]


def by_fixed_block(
    evaluate: Callable[..., tuple[Floats, ...]], *arrays: Rows
) -> tuple[Floats, ...]:
    """Return the results (..., n) of `evaluate` for arrays (n, ...), computed in fixed blocks."""
    results = [
        tuple(values[..., :n_rows] for values in evaluate(*blocks))
        for n_rows, blocks in fixed_blocks(*arrays)
    ]
    return tuple(np.concatenate(values, axis=-1) for values in zip(*results, strict=True))

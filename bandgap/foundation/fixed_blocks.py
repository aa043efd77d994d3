"""Rows in blocks of one size, so that what a row gets does not depend, in no bit, on the rows beside it.

Libraries of linear algebra sum a product in an order that depends on the shapes of its factors, and numpy adds a single
column in another order than one of several. Where every block has the same number of rows, a multiple of all their
tiles, each row is summed in one order, wherever in a block it stands. The last block is filled with copies of its last
row. No rows are one block all the same, so that shapes come out.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Rows = NDArray[Any]

ROWS: Final = 32


def fixed_blocks(*arrays: Rows) -> Iterator[tuple[int, tuple[Rows, ...]]]:
    """Yield how many rows of a block are its own, and the block (ROWS, ...) of each array (n, ...)."""
    n = len(arrays[0])
    for start in range(0, max(n, 1), ROWS):
        own = min(ROWS, n - start)
        places = np.arange(start, start + ROWS).clip(max=max(n - 1, 0))
        yield (
            own,
            tuple(
                a[places] if n else np.zeros((ROWS, *a.shape[1:]), dtype=a.dtype) for a in arrays
            ),
        )


def by_fixed_block(
    evaluate: Callable[..., tuple[Floats, ...]], *arrays: Rows
) -> tuple[Floats, ...]:
    """Return what `evaluate` gives of rows, (..., n) each, for arrays (n, ...), of which it is given blocks."""
    found = [
        tuple(part[..., :own] for part in evaluate(*blocks))
        for own, blocks in fixed_blocks(*arrays)
    ]
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*found, strict=True))

"""Draws as runs of earlier versions stored them: entries that no draw changes, once."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(name: str, value: NDArray[np.float32]) -> dict[str, NDArray[Any]]:
    """Return an array (chain, draw, ...) in four parts."""
    bits = np.ascontiguousarray(value).view(np.int32)  # -0 and 0, and two NaN, are told apart
    varies = (bits != bits[:, :1]).any(1).ravel()
    flat = value.swapaxes(1, 0).reshape(value.shape[1], -1)
    return {
        f"packed.shape.{name}": np.array(value.shape),
        f"packed.varies.{name}": np.packbits(varies),
        f"packed.once.{name}": flat[0, ~varies],
        f"packed.moving.{name}": np.ascontiguousarray(flat[:, varies]),
    }

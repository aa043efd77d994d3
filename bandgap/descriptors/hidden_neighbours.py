"""What part of an atom's neighbours other neighbours hide (see `neighbours`), in compiled loops."""

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import compiled


@compiled
def visible_parts(
    starts: NDArray[np.intp], vectors: NDArray[np.float64], parts: NDArray[np.float64]
) -> None:
    """Multiply `parts` (pair,) by the part of each neighbour that no other one of its atom hides.

    The neighbours of an atom are the rows of `vectors` (pair, 3) from one of `starts` to the next.
    The neighbour at u hides 1 - s(2 (u u - u v) / (v v)) of the one at v, where s rises from 0 to
    1. The argument of s is 0 on the sphere, and 1 in an equilateral triangle.
    """
    for atom in range(starts.size - 1):
        for p in range(starts[atom], starts[atom + 1]):
            x, y, z = vectors[p]
            scale = 2.0 / (x * x + y * y + z * z)
            for q in range(starts[atom], starts[atom + 1]):
                a, b, c = vectors[q]
                t = scale * (a * (a - x) + b * (b - y) + c * (c - z))
                if q == p or t >= 1.0:
                    continue
                if t <= 0.0:
                    parts[p] = 0.0
                    break
                parts[p] *= t * t * (3.0 - 2.0 * t)

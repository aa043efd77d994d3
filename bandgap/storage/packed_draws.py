"""Draws of runs of earlier versions, stored without what all draws of a chain share.

A tensor (chain, draw, ...) of which a tenth or more did not vary from draw to draw was stored as
four: its shape, one bit for every entry of a chain that says whether it varies, those that do not
(once), and the others (draw, entry). Until the next release.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.storage.arrays import Arrays, check_growth

SHAPE = "packed.shape."
VARIES = "packed.varies."
ONCE = "packed.once."
MOVING = "packed.moving."


def unpacked(arrays: Mapping[str, NDArray[Any]]) -> Arrays:
    """Return the arrays, those that were stored in parts as they were before, bit for bit.

    Raises KeyError or ValueError on damaged parts, and where they become too large.
    """
    arrays_by_name = dict(arrays)
    shapes = {name: value.tolist() for name, value in arrays.items() if name.startswith(SHAPE)}
    plain_shapes = [[max(int(size), 0) for size in shape] for shape in shapes.values()]
    sizes_of_tensors = [4 * math.prod(shape) for shape in plain_shapes]
    sizes_of_masks = [math.prod(shape[:1] + shape[2:]) for shape in plain_shapes]
    check_growth(arrays, sizes_of_tensors + sizes_of_masks)
    for label, (chains, draws, *sizes) in shapes.items():
        name = label.removeprefix(SHAPE)
        del arrays_by_name[label]
        count = chains * math.prod(sizes)
        varies = np.unpackbits(arrays_by_name.pop(VARIES + name), count=count).astype(bool)
        once = arrays_by_name.pop(ONCE + name)
        moving = arrays_by_name.pop(MOVING + name)
        if once.shape != (int((~varies).sum()),) or moving.shape != (draws, int(varies.sum())):
            raise ValueError(f"tensor {name} does not fit its parts")
        flat = np.empty((draws, count), once.dtype)
        flat[:, ~varies] = once
        flat[:, varies] = moving
        draws_by_chain = flat.reshape(draws, chains, *sizes).swapaxes(0, 1)
        arrays_by_name[name] = np.ascontiguousarray(draws_by_chain)
    return arrays_by_name

"""Draws on disk without what all draws of a chain share, such as pruned weights: fewer bytes, the
same bits.

A tensor (chain, draw, ...) of which a tenth or more does not vary from draw to draw becomes four:
its shape, one bit for every entry of a chain that says whether it varies, those that do not (once),
and the others (draw, entry).
"""

import math
from collections.abc import Iterable, Mapping

import numpy as np
import torch
from torch import Tensor

from bandgap.storage.tensors import check_growth

LEAST_SHARE = 0.1  # of the entries, below which a tensor stays as it is
MARK = "packed."
SHAPE = f"{MARK}shape."
VARIES = f"{MARK}varies."
ONCE = f"{MARK}once."
MOVING = f"{MARK}moving."


def packed(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors, those of draws that share enough in four parts (`unpacked` undoes it, bit
    for bit).

    All stay as they are where `unpacked` would refuse to make so much out of the parts.
    """
    tensors: dict[str, Tensor] = {}
    for name, value in arrays.items():
        tensors |= _parts(name, value) or {name: value}
    try:
        check_growth(tensors, _unpacked_bytes(tensors))
    except ValueError:
        return dict(arrays)
    return tensors


def unpacked(arrays: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Undo `packed`; tensors that were never packed are left alone.

    Raises KeyError or ValueError on damaged parts, and where they become too large.
    """
    check_growth(arrays, _unpacked_bytes(arrays))
    tensors_by_name = dict(arrays)
    for label in [name for name in arrays if name.startswith(SHAPE)]:
        name = label.removeprefix(SHAPE)
        chains, draws, *sizes = tensors_by_name.pop(label).tolist()
        count = chains * math.prod(sizes)
        bits = np.unpackbits(tensors_by_name.pop(VARIES + name).numpy(), count=count)
        varies = torch.from_numpy(bits.astype(bool))
        once = tensors_by_name.pop(ONCE + name)
        moving = tensors_by_name.pop(MOVING + name)
        if once.shape != (int((~varies).sum()),) or moving.shape != (draws, int(varies.sum())):
            raise ValueError(f"tensor {name} does not fit its parts")
        flat = once.new_empty((draws, count))
        flat[:, ~varies] = once
        flat[:, varies] = moving
        tensors_by_name[name] = flat.reshape(draws, chains, *sizes).movedim(0, 1).contiguous()
    return tensors_by_name


def unpacked_shapes(arrays: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the tensors that `unpacked` makes, by name."""
    return {
        name.removeprefix(SHAPE): tuple(value.tolist() if name.startswith(SHAPE) else value.shape)
        for name, value in arrays.items()
    }


def _unpacked_bytes(arrays: Mapping[str, Tensor]) -> Iterable[int]:
    """Yield the bytes of every tensor that was packed, and of its mask."""
    for name, value in arrays.items():
        if name.startswith(SHAPE):
            shape = [max(int(size), 0) for size in value]
            yield 4 * math.prod(shape)
            yield math.prod(shape[:1] + shape[2:])


def _parts(name: str, value: Tensor) -> dict[str, Tensor] | None:
    if value.ndim < 3 or value.shape[1] < 2 or value.dtype != torch.float32:
        return None
    bits = value.contiguous().view(torch.int32)  # -0 and 0, and two NaN, are told apart
    varies = (bits != bits[:, :1]).any(1).flatten()
    if float((~varies).float().mean()) < LEAST_SHARE:
        return None
    flat = value.movedim(1, 0).flatten(1)
    return {
        SHAPE + name: torch.tensor(value.shape, dtype=torch.int64),
        VARIES + name: torch.from_numpy(np.packbits(varies.numpy())),
        ONCE + name: flat[0, ~varies],
        MOVING + name: flat[:, varies],
    }

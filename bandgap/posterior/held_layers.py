"""Layers of a posterior's draws, made once and kept while there is room, as each takes a random matrix to make.

Kept are the weights of features that structures have had so far: a tenth to a half of all. Where structures come with
others, all layers are made anew; what a structure gets does not change by that.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.draw_kernels import DrawnLayers

MOST_BYTES = 300_000_000  # of the first layers of a posterior; larger ones are never made as a whole
ROOM_BYTES = 600_000_000  # of those that are kept in a process

Layers = Callable[[int, int], DrawnLayers]


@dataclass
class _Kept:
    n_bytes: int
    blocks: NDArray[np.bool_]  # (block,): those whose weights are there
    layers: dict[tuple[int, int], DrawnLayers] = field(default_factory=dict)


_KEPT: MutableMapping[object, _Kept] = weakref.WeakKeyDictionary()
_HERE = threading.local()  # whether this thread only looks at a few structures


@contextlib.contextmanager
def in_passing() -> Iterator[None]:
    """Make and keep no layers within this block, for a few structures whose last digits do not matter.

    They may have other features than the structures that are predicted afterwards, for which all would be made anew.
    """
    before, _HERE.passing = is_passing(), True
    try:
        yield
    finally:
        _HERE.passing = before


def is_passing() -> bool:
    """Return whether this thread is within a block of `in_passing`."""
    return bool(getattr(_HERE, "passing", False))


def held(
    owner: object,
    make: Callable[[int, int, NDArray[np.bool_]], DrawnLayers],
    *,
    blocks: NDArray[np.bool_],
    n_bytes: int,
) -> tuple[Layers, NDArray[np.bool_]]:
    """Return the layers of `owner` as a function of chain and draw, and the blocks (block,) whose weights these have.

    `make` is given chain, draw and the blocks; of those, all that are asked for are there. Layers are kept where all
    layers of all blocks, `n_bytes`, find room.
    """
    kept = _KEPT.get(owner)
    if kept is None and sum(other.n_bytes for other in _KEPT.values()) + n_bytes <= ROOM_BYTES:
        kept = _KEPT[owner] = _Kept(n_bytes, blocks)
    if kept is None:
        return lambda chain, draw: make(chain, draw, blocks), blocks
    if (blocks & ~kept.blocks).any():
        kept.blocks = kept.blocks | blocks
        kept.layers.clear()
    layers, there = kept.layers, kept.blocks

    def layer(chain: int, draw: int) -> DrawnLayers:
        if (chain, draw) not in layers:
            layers[chain, draw] = make(chain, draw, there)
        return layers[chain, draw]

    return layer, there

"""Layers of a posterior's draws, made once and kept while there is room, as each takes a random matrix to make.

Kept are the weights of features that structures have had so far: a tenth to a half of all. Where structures come with
others, all layers are made anew; what a structure gets does not change by that. Layers of draws for which there is no
room are made whenever they are asked for, and not kept: they take time, not memory, and give the same.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.draw_kernels import DrawnLayers

# Fours of features that are made where one of them is there, so that the next structures have theirs already: the grid
# of a pair of elements in the presets, or about half of it where all draws with the whole find no room.
WIDELY, NARROWLY = 9, 4

Layers = Callable[[int, int], DrawnLayers]


@dataclass
class Room:
    """Bytes of layers that a process keeps; `ahead`: of all features from the start, where these find room."""

    n_bytes: int = 256_000_000
    ahead: bool = False


@dataclass
class _Kept:
    blocks: NDArray[np.bool_]  # (block,): those whose weights are there
    n_bytes: int = 0
    layers: dict[tuple[int, int], DrawnLayers] = field(default_factory=dict)


ROOM = Room()
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
    present: Callable[[int], NDArray[np.bool_]],
    n_bytes: int,
) -> tuple[Layers, NDArray[np.bool_]]:
    """Return the layers of `owner` as a function of chain and draw, and the blocks (block,) whose weights these have.

    `make` is given chain, draw and the blocks; of those, all that rows have are there: `present(1)`, or with so many
    together those beside them too. `n_bytes` are about those of all layers with all blocks.
    """
    kept, own = _KEPT.get(owner), present(1)
    if kept is None:
        whole = ROOM.ahead and n_bytes <= ROOM.n_bytes - _used()
        kept = _KEPT[owner] = _Kept(np.full_like(own, whole))
    if (own & ~kept.blocks).any():
        kept.n_bytes = 0
        kept.layers.clear()
        wide = kept.blocks | present(WIDELY)
        fits = wide.mean() * n_bytes <= ROOM.n_bytes - _used()
        kept.blocks = wide if fits else kept.blocks | present(NARROWLY)
    there, room = kept.blocks, ROOM.n_bytes - _used()

    def layer(chain: int, draw: int) -> DrawnLayers:
        nonlocal room
        found = kept.layers.get((chain, draw))
        if found is None:
            found = make(chain, draw, there)
            if found.n_bytes <= room:
                room -= found.n_bytes
                kept.n_bytes += found.n_bytes
                kept.layers[chain, draw] = found
        return found

    return layer, there


def make_room(n_bytes: int) -> None:
    """Keep layers of all features from now on, up to so many bytes: for a process that answers single structures."""
    ROOM.n_bytes, ROOM.ahead = n_bytes, True


def _used() -> int:
    return sum(kept.n_bytes for kept in _KEPT.values())

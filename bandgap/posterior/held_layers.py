"""Layers of a posterior's draws, made once and kept while there is room, as each takes a random matrix to make."""

import weakref
from collections.abc import Callable, MutableMapping

from bandgap.posterior.draw_kernels import DrawnLayers

MOST_BYTES = 300_000_000  # of the first layers of a posterior; larger ones are never made as a whole
ROOM_BYTES = 600_000_000  # of those that are kept in a process

Layers = Callable[[int, int], DrawnLayers]

_KEPT: MutableMapping[object, dict[tuple[int, int], DrawnLayers]] = weakref.WeakKeyDictionary()
_BYTES: MutableMapping[object, int] = weakref.WeakKeyDictionary()


def held(owner: object, make: Layers, *, n_bytes: int) -> Layers:
    """Return `make` of chain and draw, whose results are kept with `owner` where all of them, `n_bytes`, find room."""
    if owner not in _KEPT and sum(_BYTES.values()) + n_bytes <= ROOM_BYTES:
        _KEPT[owner], _BYTES[owner] = {}, n_bytes
    kept = _KEPT.get(owner)
    if kept is None:
        return make

    def layers(chain: int, draw: int) -> DrawnLayers:
        if (chain, draw) not in kept:
            kept[chain, draw] = make(chain, draw)
        return kept[chain, draw]

    return layers

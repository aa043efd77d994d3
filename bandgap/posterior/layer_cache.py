"""A cache of the layers of a posterior's draws, as each draw takes a random matrix to compute.

The cache contains only the weights of features that structures have had so far: a tenth to a half
of all. If structures have further features, all layers are recomputed. Layers of draws for which
there is no memory are recomputed whenever they are used. Neither changes a prediction.
"""

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from bandgap.posterior.draw_kernels import DrawnLayers  # imports numba

# If a feature is used, all features of its group are stored, so that the next structures find
# theirs. A wide group is the grid of a pair of elements in the presets. Narrow groups are used
# where all draws with wide groups do not fit into memory.
WIDE_GROUP = 36
NARROW_GROUP = 16

Mask = NDArray[np.bool_]
Layers = Callable[[int, int], "DrawnLayers"]


@dataclass
class Limits:
    """Memory of the cache of this process, and whether layers get all features from the start."""

    n_bytes: int = 256_000_000
    all_features: bool = False


@dataclass
class _CachedLayers:
    is_stored: Mask  # (p,): the features whose weights the layers have
    n_bytes: int = 0
    layers: "dict[tuple[int, int], DrawnLayers]" = field(default_factory=dict)


LIMITS = Limits()
_CACHE: MutableMapping[object, _CachedLayers] = weakref.WeakKeyDictionary()
_THREAD = threading.local()


@contextlib.contextmanager
def without_layer_cache() -> Iterator[None]:
    """Evaluate networks without the cache in this block, in this thread, for a few structures.

    Their features may differ from those of the structures that are predicted afterwards, for which
    all layers would be recomputed. Predictions differ by rounding.
    """
    before = layer_cache_is_off()
    _THREAD.is_off = True
    try:
        yield
    finally:
        _THREAD.is_off = before


def layer_cache_is_off() -> bool:
    """Return whether this thread is in a block of `without_layer_cache`."""
    return bool(getattr(_THREAD, "is_off", False))


def cached_layers(
    owner: object,
    compute: Callable[[int, int, Mask], "DrawnLayers"],
    *,
    is_used: Mask,
    n_bytes: int,
) -> tuple[Layers, Mask]:
    """Return the layers of all draws of a posterior, from the cache where they are in it.

    Parameters
    ----------
    owner
        The posterior. Its layers leave the cache when it is deleted.
    compute
        Computes the layers of a chain and draw with the weights of some features, a mask (p,).
    is_used
        The features that the structures have, (p,).
    n_bytes
        About the memory of the layers of all draws with all features.

    Returns
    -------
    layers
        Function of chain and draw.
    is_stored
        The features whose weights the layers have, (p,): at least those in use.
    """
    cache = _CACHE.get(owner)
    if cache is None:
        all_fit = LIMITS.all_features and n_bytes <= LIMITS.n_bytes - _used_bytes()
        cache = _CACHE[owner] = _CachedLayers(np.full_like(is_used, all_fit))
    if (is_used & ~cache.is_stored).any():
        cache.n_bytes = 0
        cache.layers.clear()
        wide = cache.is_stored | by_group(is_used, WIDE_GROUP)
        wide_fits = wide.mean() * n_bytes <= LIMITS.n_bytes - _used_bytes()
        narrow = cache.is_stored | by_group(is_used, NARROW_GROUP)
        cache.is_stored = wide if wide_fits else narrow
    is_stored = cache.is_stored
    free_bytes = LIMITS.n_bytes - _used_bytes()

    def layers_of(chain: int, draw: int) -> "DrawnLayers":
        nonlocal free_bytes
        layers = cache.layers.get((chain, draw))
        if layers is None:
            layers = compute(chain, draw, is_stored)
            if layers.n_bytes <= free_bytes:
                free_bytes -= layers.n_bytes
                cache.n_bytes += layers.n_bytes
                cache.layers[chain, draw] = layers
        return layers

    return layers_of, is_stored


def by_group(is_used: Mask, size: int) -> Mask:
    """Return the mask (p,) extended to whole groups of `size` neighbouring features.

    >>> by_group(np.array([False, True, False, False, False]), 2)
    array([ True,  True, False, False, False])
    """
    used_groups = np.zeros(-(-is_used.size // size), dtype=bool)
    used_groups[np.flatnonzero(is_used) // size] = True
    return np.repeat(used_groups, size)[: is_used.size]


def reserve_layer_cache(n_bytes: int) -> None:
    """Cache layers with all features from now on, up to so many bytes.

    For a process that predicts single structures.
    """
    LIMITS.n_bytes = n_bytes
    LIMITS.all_features = True


def _used_bytes() -> int:
    return sum(cache.n_bytes for cache in _CACHE.values())

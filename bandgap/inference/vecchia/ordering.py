"""In which order sites come, and which earlier ones each is given: max-min order, nearest earlier neighbours.

Guinness (2018): first the site nearest to the mean location, then always the one farthest from all that were chosen.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bandgap.foundation.errors import InputError
from bandgap.inference.vecchia.site_kernels import max_min

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Order = Literal["auto", "max-min", "random"]

MAX_MIN_ROWS = 20_000  # above it a quadratic order takes longer than it is worth
TREE_DIMENSIONS = 5  # above it a tree visits every leaf
BRUTE_ROWS = 512  # rows at once in brute force


def site_order(points: Floats, order: Order = "auto", *, seed: int = 0) -> Ints:
    """Return places (n,) of points (n, q) in their order; auto is max-min to 20,000 points, random above.

    Ties go to the lowest place. Raises InputError on points that are not finite.
    """
    if points.ndim != 2 or not np.isfinite(points).all():
        raise InputError(f"coordinates of shape {points.shape}: a finite table (n, q) is expected.")
    n = len(points)
    if order == "random" or (order == "auto" and n > MAX_MIN_ROWS):
        return np.random.default_rng([seed, n]).permutation(n)
    first = int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())
    return np.asarray(max_min(np.ascontiguousarray(points), first), dtype=np.int64)


def earlier_neighbours(points: Floats, m: int) -> Ints:
    """Return places (n, m) of the nearest earlier points of each, -1 where there are fewer; points stand in order.

    Ties go to the earliest place. By a tree over growing prefixes to five dimensions, by brute force above.
    """
    n = len(points)
    if m < 1:
        raise InputError(f"{m} neighbours. Give at least 1.")
    if points.shape[1] <= TREE_DIMENSIONS and n > 2 * BRUTE_ROWS:
        return _by_tree(points, min(m, n - 1))
    found = np.full((n, min(m, max(n - 1, 1))), -1, dtype=np.int64)
    for start in range(0, n, BRUTE_ROWS):
        stop = min(start + BRUTE_ROWS, n)
        distances = cdist(points[start:stop], points[:stop])
        for row in range(start, stop):
            _fill(found[row], distances[row - start, :row])
    return found


def nearest(points: Floats, new: Floats, m: int) -> Ints:
    """Return places (n_new, min(m, n)) of the points nearest to each new one, in ascending order of place."""
    m = min(m, len(points))
    if points.shape[1] <= TREE_DIMENSIONS:
        _, found = cKDTree(points).query(new, k=np.arange(1, m + 1))
        return np.sort(found, axis=1).astype(np.int64)
    blocks = [
        np.sort(
            np.argpartition(cdist(new[i : i + BRUTE_ROWS], points), m - 1, axis=1)[:, :m], axis=1
        )
        for i in range(0, len(new), BRUTE_ROWS)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, m), dtype=np.int64)


def _by_tree(points: Floats, m: int) -> Ints:
    """Search a tree of all points before a doubling border, and the few behind it by brute force."""
    n, found = len(points), np.full((len(points), m), -1, dtype=np.int64)
    start, stop = 0, min(2 * BRUTE_ROWS, n)
    while start < n:
        tree = cKDTree(points[:start]) if start else None
        for low in range(start, stop, BRUTE_ROWS):
            high = min(low + BRUTE_ROWS, stop)
            rows = np.arange(low, high)
            far, place = np.empty((len(rows), 0)), np.empty((len(rows), 0), dtype=np.int64)
            if tree is not None:
                far, place = map(
                    np.asarray, tree.query(points[rows], k=np.arange(1, min(m, start) + 1))
                )
            near = cdist(points[rows], points[start:high])
            for i, row in enumerate(rows):
                both = np.concatenate([far[i], near[i, : row - start]])
                places = np.concatenate([place[i], np.arange(start, row)])
                ahead = np.lexsort((places, both))[:m]
                found[row, : len(ahead)] = places[ahead]
        start, stop = stop, min(stop + max(stop // 4, BRUTE_ROWS), n)
    return found


def _fill(into: Ints, distances: Floats) -> None:
    """Write the places of the smallest distances, the nearest first."""
    m = min(into.size, distances.size)
    if m < distances.size:
        limit = np.partition(distances, m - 1)[m - 1]
        candidates = np.flatnonzero(distances <= limit)
    else:
        candidates = np.arange(distances.size)
    order = np.argsort(distances[candidates], kind="stable")
    into[:m] = candidates[order[:m]]

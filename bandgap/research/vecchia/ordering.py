"""The order of sites and their neighbours: max-min order and nearest earlier neighbours.

In max-min order the first site is the one nearest to the mean location. Every next site is the one
farthest from all sites before it (Guinness 2018).
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia.kernels import max_min

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Order = Literal["auto", "max-min", "random"]

MAX_MIN_ROWS = 20_000  # max-min order takes quadratic time
TREE_DIMENSIONS = 5  # in more dimensions a tree visits every leaf
BRUTE_ROWS = 512  # rows in a block of the brute-force search


def site_order(points: Floats, order: Order = "auto", *, seed: int = 0) -> Ints:
    """Return the places (n,) of points (n, q) in their order.

    "auto" is max-min for up to 20,000 points, else random. Ties go to the lowest place. Raises
    InputError if points are not finite.
    """
    if points.ndim != 2 or not np.isfinite(points).all():
        raise InputError(f"coordinates of shape {points.shape}: a finite table (n, q) is expected.")
    n = len(points)
    if order == "random" or (order == "auto" and n > MAX_MIN_ROWS):
        return np.random.default_rng([seed, n]).permutation(n)
    first = int(((points - points.mean(axis=0)) ** 2).sum(axis=1).argmin())
    return np.asarray(max_min(np.ascontiguousarray(points), first), dtype=np.int64)


def earlier_neighbours(points: Floats, m: int) -> Ints:
    """Return the places (n, m) of the nearest earlier points of each point, -1 if there are fewer.

    Points are in order. Ties go to the earliest place. In up to five dimensions the search uses
    trees of growing prefixes, else brute force.
    """
    n = len(points)
    if m < 1:
        raise InputError(f"{m} neighbours. Give at least 1.")
    if points.shape[1] <= TREE_DIMENSIONS and n > 2 * BRUTE_ROWS:
        return _by_tree(points, min(m, n - 1))
    neighbours = np.full((n, min(m, max(n - 1, 1))), -1, dtype=np.int64)
    for start in range(0, n, BRUTE_ROWS):
        stop = min(start + BRUTE_ROWS, n)
        distances = cdist(points[start:stop], points[:stop])
        for row in range(start, stop):
            _fill(neighbours[row], distances[row - start, :row])
    return neighbours


def nearest(points: Floats, new: Floats, m: int) -> Ints:
    """Return the places (n_new, min(m, n)) of the points nearest to each new one, ascending."""
    m = min(m, len(points))
    if points.shape[1] <= TREE_DIMENSIONS:
        _, places = cKDTree(points).query(new, k=np.arange(1, m + 1))
        return np.sort(places, axis=1).astype(np.int64)
    blocks = [
        np.sort(
            np.argpartition(cdist(new[i : i + BRUTE_ROWS], points), m - 1, axis=1)[:, :m], axis=1
        )
        for i in range(0, len(new), BRUTE_ROWS)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, m), dtype=np.int64)


def _by_tree(points: Floats, m: int) -> Ints:
    """Search a tree of the points before a growing border, and those after it by brute force."""
    n = len(points)
    neighbours = np.full((len(points), m), -1, dtype=np.int64)
    start = 0
    stop = min(2 * BRUTE_ROWS, n)
    while start < n:
        tree = cKDTree(points[:start]) if start else None
        for low in range(start, stop, BRUTE_ROWS):
            high = min(low + BRUTE_ROWS, stop)
            rows = np.arange(low, high)
            tree_distances = np.empty((len(rows), 0))
            tree_places = np.empty((len(rows), 0), dtype=np.int64)
            if tree is not None:
                tree_distances, tree_places = map(
                    np.asarray, tree.query(points[rows], k=np.arange(1, min(m, start) + 1))
                )
            distances = cdist(points[rows], points[start:high])
            for i, row in enumerate(rows):
                candidates = np.concatenate([tree_distances[i], distances[i, : row - start]])
                places = np.concatenate([tree_places[i], np.arange(start, row)])
                nearest_first = np.lexsort((places, candidates))[:m]
                neighbours[row, : len(nearest_first)] = places[nearest_first]
        start = stop
        stop = min(stop + max(stop // 4, BRUTE_ROWS), n)
    return neighbours


def _fill(row: Ints, distances: Floats) -> None:
    """Write the places of the smallest distances to `row`, the nearest first."""
    m = min(row.size, distances.size)
    if m < distances.size:
        limit = np.partition(distances, m - 1)[m - 1]
        candidates = np.flatnonzero(distances <= limit)
    else:
        candidates = np.arange(distances.size)
    order = np.argsort(distances[candidates], kind="stable")
    row[:m] = candidates[order[:m]]

"""A map of structures: two coordinates for each, close where the descriptors are alike.

The coordinates are the first two principal components of the directions of the descriptors (their
vectors divided by their length, as for the applicability domain). The axes are computed from at
most `MAX_SAMPLE` structures, so that memory does not grow with the data set.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import DescriptorConfig, featurize
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.tensor_files import LongTensor, write_tensors
from bandgap.structures.records import StructureRecord
from bandgap.structures.spool import Spool

MAX_SAMPLE = 1_000
N_COMPONENTS = 30  # in which neighbours are searched
N_NEIGHBOURS = 3
_CHUNK = 256

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StructureMap:
    """Coordinates and neighbours of structures.

    Attributes
    ----------
    coordinates
        The first two principal components (n, 2), NaN for structures without a descriptor.
    shares
        Shares (2,) of the variance that they explain.
    neighbours
        Rows (n, `N_NEIGHBOURS`) of the structures that are most alike in the first components, the
        nearest first; -1 where there is none.
    """

    coordinates: NDArray[np.float32]
    shares: Floats
    neighbours: NDArray[np.int32]


def structure_map(
    records: Spool | Sequence[StructureRecord],
    descriptor: DescriptorConfig,
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> StructureMap:
    """Return the map of structures by a descriptor.

    Electron levels are left out, which take seconds a structure. The same structures give the same
    map. Raises InputError where fewer than three structures have a descriptor.
    """
    plain = replace(descriptor, levels="none")
    n = len(records)
    is_in_sample = np.zeros(n, dtype=bool)
    is_in_sample[np.random.default_rng(0).permutation(n)[:MAX_SAMPLE]] = True
    sample = [record for record, is_in in zip(records, is_in_sample, strict=True) if is_in]
    parts = [
        _directions(part, plain, cache) for part in _noted(iter(sample), len(sample), progress)
    ]
    directions = np.concatenate(parts) if parts else np.empty((0, 0))
    directions = directions[np.isfinite(directions).all(axis=1)]
    if len(directions) < 3:
        raise InputError(
            f"map: {len(directions)} of {n:,} structures have a descriptor. A map needs at least "
            "three."
        )
    centre, axes, shares = principal_axes(directions, n_components=N_COMPONENTS)
    components = np.concatenate(
        [
            (_directions(part, plain, cache) - centre) @ axes.T
            for part in _noted(iter(records), n, progress)
        ]
    )
    coordinates = components[:, :2].astype(np.float32)
    if coordinates.shape[1] < 2:  # all directions are on a line
        coordinates = np.pad(coordinates, ((0, 0), (0, 1)))
        shares = np.append(shares, 0.0)
    coordinates[~np.isfinite(coordinates).all(axis=1)] = np.nan
    return StructureMap(coordinates, shares[:2], nearest_rows(components, k=N_NEIGHBOURS))


def principal_axes(rows: Floats, *, n_components: int) -> tuple[Floats, Floats, Floats]:
    """Return the centre (p,), principal axes (k, p) and their shares of the variance (k,).

    k is `n_components` or the rank if that is less. The entry of each axis with the largest
    magnitude is positive, so that the result is unique.
    """
    centre = rows.mean(axis=0)
    centred = rows - centre
    gram = centred @ centred.T
    values, vectors = np.linalg.eigh(gram)
    order = np.argsort(values)[::-1][:n_components]
    leading_values = values[order]
    is_real = leading_values > 1e-10 * max(float(values[-1]), 1e-30)
    is_real[0] = True
    axes = vectors[:, order[is_real]].T @ centred
    length = np.linalg.norm(axes, axis=1, keepdims=True)
    axes /= np.where(length == 0.0, 1.0, length)
    largest = np.abs(axes).argmax(axis=1)
    axes *= np.where(axes[np.arange(len(axes)), largest] < 0, -1.0, 1.0)[:, None]
    total = max(float(np.trace(gram)), 1e-30)
    return centre, axes, leading_values[is_real].clip(0.0) / total


def nearest_rows(points: Floats, *, k: int) -> NDArray[np.int32]:
    """Return the rows (n, k) of the nearest other points, -1 where there is none.

    Points that are not finite have no neighbours and are none.
    """
    from scipy.spatial import cKDTree

    result = np.full((len(points), k), -1, dtype=np.int32)
    rows = np.flatnonzero(np.isfinite(points).all(axis=1))
    if rows.size < 2:
        return result
    n_near = min(k + 1, rows.size)
    _, positions = cKDTree(points[rows]).query(points[rows], k=n_near)
    for row, near in zip(rows, rows[positions], strict=True):
        neighbours = near[near != row][:k]
        result[row, : neighbours.size] = neighbours
    return result


def save_map(path: Path, structures: StructureMap) -> None:
    """Write a map as safetensors, completely or not at all."""
    tensors = {
        "coordinates": LongTensor.of(structures.coordinates),
        "neighbours": LongTensor.of(structures.neighbours),
    }
    write_tensors(path, tensors, metadata={"shares": json.dumps(structures.shares.tolist())})


def _noted(
    records: Iterator[StructureRecord], total: int, progress: Progress
) -> Iterator[list[StructureRecord]]:
    """Yield records in chunks and report how many are done."""
    done = 0
    while part := list(islice(records, _CHUNK)):
        progress(Update("placing the structures", done, total))
        yield part
        done += len(part)


def _directions(
    records: Sequence[StructureRecord], descriptor: DescriptorConfig, cache: DescriptorCache | None
) -> Floats:
    """Return the unit vectors (n, p) of descriptors, NaN for structures without one."""
    features = featurize(list(records), descriptor, cache=cache).features.astype(np.float64)
    length = np.linalg.norm(features, axis=1, keepdims=True)
    return np.asarray(features / np.where(length == 0.0, 1.0, length), dtype=np.float64)

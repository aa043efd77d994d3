"""Sites of an asymmetric unit, checked for disorder and copied over the cell by symmetry operators."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.neighbours import MAX_CLOSE_PAIRS, close_pairs
from bandgap.structures.operators import Operations, check_operations
from bandgap.structures.records import Limits
from bandgap.structures.unit_cells import UnitCell

MERGE_ANGSTROM = 0.2  # images of one atom closer than this are one atom on a special position; rounding gives 0.01
REPEAT_ANGSTROM = 0.05  # two listed atoms closer than this are one atom listed twice; disorder is 0.1 and more
OCCUPANCY_SLACK = 0.005  # a refined occupancy of 0.997(4) is one
_LARGEST_FRACTION = 1e4
ADVICE = "Disordered structures are not supported; export one ordered component."
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Site:
    """One atom of the asymmetric unit; fractional coordinates, occupancy 1 where every such atom is there."""

    name: str
    symbol: str
    fractional: tuple[float, float, float]
    occupancy: float = 1.0
    disorder_group: str = ""
    disorder_assembly: str = ""

    def with_share(self, share: float, *, operations: Operations, cell: NDArray[np.float64]) -> "Site":
        """Set the occupancy from SHELX's site occupation factor, 1/2 for a full atom on a mirror plane."""
        if abs(share - 1) <= OCCUPANCY_SLACK or len(operations) == 1 or not np.isfinite(self.fractional).all():
            return replace(self, occupancy=share)
        (images,) = _images(np.array([self.fractional]), operations)
        return replace(self, occupancy=share * _coinciding(images, cell))


def from_sites(
    sites: list[Site],
    *,
    cell: UnitCell,
    operations: Operations,
    operators_origin: str,
    place: str,
    limits: Limits,
) -> Draft:
    """Return the draft of all atoms of the cell; `place` is where they come from, such as "block shelx".

    `operators_origin` says where the operators come from, as in `check_operations`. Raises Unreadable on operators that
    are no symmetry of the cell, on disorder, on a coordinate that is not finite, and over the limit of atoms.
    """
    if len(sites) > limits.max_atoms:
        raise Unreadable(f"the structure has {len(sites):,} atoms before symmetry; the limit is {limits.max_atoms:,}")
    where = f" ({place})" if place else ""
    check_operations(operations, cell, origin=operators_origin)
    _refuse_occupancies(sites, where)
    vectors = cell.vectors
    draft = Draft(pbc=(True, True, True), cell=vectors)
    _refuse_groups(sites, where, draft=draft)
    if not sites:
        return draft
    fractional = np.array([site.fractional for site in sites], dtype=float)
    if not np.isfinite(fractional).all():
        atom = sites[int(np.argmin(np.isfinite(fractional).all(axis=1)))]
        raise Unreadable(f"the position of atom {atom.name}{where} is not a finite number")
    largest = np.abs(fractional).max()
    if largest > _LARGEST_FRACTION:
        raise Unreadable(f"a fractional coordinate of {largest:.3g}{where} is out of all proportion")
    positions, sources = expand(fractional, cell=vectors, operations=operations, limits=limits)
    symbols = [sites[source].symbol for source in sources]
    if len(operations) > 1:
        keep = drop_repeated(positions, cell=vectors, elements=symbols)
        if not keep.all():
            draft.warn(
                f"atoms listed again by symmetry were taken once ({np.count_nonzero(~keep)} of {len(keep)} left out)"
            )
        positions, sources = positions[keep], sources[keep]
    draft.symbols = [sites[source].symbol for source in sources]
    draft.names = [sites[source].name for source in sources]
    draft.positions = positions @ vectors
    return draft


def expand(
    fractional: Floats, *, cell: Floats, operations: Operations, limits: Limits
) -> tuple[Floats, NDArray[np.intp]]:
    """Copy atoms (n, 3) over the cell; return fractional positions (m, 3) and the source atom of each (m,).

    Images of one atom closer than MERGE_ANGSTROM become their mean. P 1 returns the atoms as they are. Raises
    Unreadable over the limit of atoms, before the work of merging.
    """
    if len(operations) <= 1:
        return fractional, np.arange(len(fractional))
    images = _images(fractional, operations)
    shares = [_coinciding(points, cell) for points in images]
    count = sum(len(operations) // share for share in shares)
    if count > limits.max_atoms:
        raise Unreadable(f"the structure has {count:,} atoms in its cell; the limit is {limits.max_atoms:,}")
    parts = [points if share == 1 else _merged(points, cell) for points, share in zip(images, shares, strict=True)]
    return np.concatenate(parts), np.repeat(np.arange(len(parts)), [len(part) for part in parts])


def drop_repeated(fractional: Floats, *, cell: Floats, elements: list[str]) -> NDArray[np.bool_]:
    """Return which atoms (n,) to keep when a file lists a whole cell and its operators too: each position once."""
    keep = np.ones(len(fractional), dtype=bool)
    first, second, _ = close_pairs(
        fractional @ cell,
        cell=cell,
        pbc=(True, True, True),
        cutoff_angstrom=REPEAT_ANGSTROM,
        max_pairs=MAX_CLOSE_PAIRS,
    )
    for i, j in sorted(zip(first.tolist(), second.tolist(), strict=True)):
        if i != j and keep[i] and elements[i] == elements[j]:
            keep[j] = False
    return keep


def _refuse_occupancies(sites: list[Site], where: str) -> None:
    for site in sites:
        if not abs(site.occupancy - 1) <= OCCUPANCY_SLACK:
            raise Unreadable(f"atom {site.name} has occupancy {site.occupancy:.4g}{where}. {ADVICE}")


def _refuse_groups(sites: list[Site], where: str, *, draft: Draft) -> None:
    """Refuse alternatives that are listed side by side; one group alone, fully occupied, is an ordered component."""
    marked = [site for site in sites if site.disorder_group]
    seen: dict[str, str] = {}
    for site in marked:
        first = seen.setdefault(site.disorder_assembly, site.disorder_group)
        if site.disorder_group.startswith("-") or site.disorder_group != first:
            raise Unreadable(f"atom {site.name} is in disorder group {site.disorder_group}{where}. {ADVICE}")
    if marked:
        group = f"disorder group {marked[0].disorder_group}"
        draft.warn(f"atom {marked[0].name} is in {group}{where}, which has no alternative in the file; read as ordered")


def _images(fractional: Floats, operations: Operations) -> Floats:
    """Return the images (n, operation, 3) of atoms (n, 3), in the cell."""
    images: Floats = np.einsum("kij,nj->nki", operations[:, :, :3], fractional) + operations[:, :, 3]
    return images - np.floor(images)


def _coinciding(points: Floats, cell: Floats) -> int:
    """Return how many images (k, 3) of one atom are where the first is; operators form a group, so each has as many."""
    return int(np.count_nonzero(_distances(points, points[0], cell=cell) < MERGE_ANGSTROM))


def _merged(points: Floats, cell: Floats) -> Floats:
    """Return images (k, 3) of one atom with the mean of those that coincide."""
    merged = []
    left = points
    while len(left):
        near = _distances(left, left[0], cell=cell) < MERGE_ANGSTROM
        group = left[near]
        merged.append((group - np.round(group - left[0])).mean(axis=0))
        left = left[~near]
    return np.array(merged)


def _distances(points: Floats, origin: Floats, *, cell: Floats) -> Floats:
    difference = points - origin
    distances: Floats = np.linalg.norm((difference - np.round(difference)) @ cell, axis=1)
    return distances

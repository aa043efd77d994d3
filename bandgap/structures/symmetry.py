"""Cells from six parameters, symmetry operators, and sites checked for disorder and copied over the cell."""

import math
from dataclasses import dataclass, replace

import gemmi
import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.neighbours import LARGEST_ANGSTROM, check_volume, close_pairs
from bandgap.structures.records import Limits

MERGE_ANGSTROM = 0.2  # images of one atom closer than this are one atom on a special position; rounding gives 0.01
REPEAT_ANGSTROM = 0.05  # two listed atoms closer than this are one atom listed twice; disorder is 0.1 and more
_MAX_OPERATIONS = 2_000  # the largest space groups have 192
OCCUPANCY_SLACK = 0.005  # a refined occupancy of 0.997(4) is one
_LARGEST_FRACTION = 1e4
ADVICE = "Disordered structures are not supported; export one ordered component."
Operations = NDArray[np.float64]  # (operation, 3, 4): rotation and translation in fractions of the cell
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


def cell_vectors(lengths: list[float], angles: list[float]) -> Floats:
    """Return cell vectors as rows (3, 3), Angstrom, a along x and b in the xy plane; angles in degrees.

    Raises Unreadable when no such cell exists.
    """
    if not all(math.isfinite(v) for v in (*lengths, *angles)):
        raise Unreadable("the unit cell holds a value that is not a finite number")
    if any(length <= 0 for length in lengths):
        raise Unreadable(f"the unit cell has a length of {min(lengths):g} A. Lengths must be above zero")
    if max(lengths) > LARGEST_ANGSTROM:
        raise Unreadable(
            f"the unit cell has a length of {max(lengths):.3g} A, out of all proportion; is the unit right?"
        )
    cos_alpha, cos_beta, cos_gamma = (0.0 if a == 90 else math.cos(math.radians(a)) for a in angles)
    squared = 1 - cos_alpha**2 - cos_beta**2 - cos_gamma**2 + 2 * cos_alpha * cos_beta * cos_gamma
    if not all(0 < angle < 180 for angle in angles) or squared <= 1e-8:
        raise Unreadable(f"no unit cell has the angles {', '.join(f'{a:g}' for a in angles)}: its volume would be zero")
    a, b, c = lengths
    sin_gamma = math.sqrt(1 - cos_gamma**2)
    y = (cos_alpha - cos_beta * cos_gamma) / sin_gamma
    last = [c * cos_beta, c * y, c * math.sqrt(squared) / sin_gamma]
    cell = np.array([[a, 0.0, 0.0], [b * cos_gamma, b * sin_gamma, 0.0], last])
    check_volume(cell)
    return cell


def parse_operations(triplets: list[str]) -> Operations:
    """Return operators such as "-x, y+1/2, -z" as matrices, each once. Raises Unreadable on one that is none."""
    if len(triplets) > _MAX_OPERATIONS:
        raise Unreadable(f"the file lists {len(triplets):,} symmetry operators; no space group has that many")
    operations: dict[str, gemmi.Op] = {}
    for triplet in triplets:
        try:
            operation = gemmi.Op(triplet).wrap()
        except (RuntimeError, ValueError):
            raise Unreadable(f"the symmetry operator {triplet[:40]!r} is not understood") from None
        operations[operation.triplet()] = operation
    return _matrices(list(operations.values()))


def operations_from_symbol(symbol: str) -> Operations | None:
    """Return the operators of a Hermann-Mauguin symbol, written as in P 21/c, P2(1)/c or P2_1/c; None if unknown."""
    plain = symbol.translate(str.maketrans("", "", "()_")).strip()
    group = gemmi.find_spacegroup_by_name(plain) if plain else None
    return None if group is None else _matrices(list(group.operations()))


def operations_from_hall(symbol: str) -> Operations | None:
    """Return the operators of a Hall symbol such as -P 2ybc; None if it is not understood."""
    try:
        return _matrices(list(gemmi.symops_from_hall(symbol)))
    except (RuntimeError, ValueError):
        return None


def from_sites(
    sites: list[Site], *, cell: NDArray[np.float64], operations: Operations, place: str, limits: Limits
) -> Draft:
    """Return the draft of all atoms of the cell; `place` is where they come from, such as "block shelx".

    Raises Unreadable on disorder, on a coordinate that is not finite, and over the limit of atoms.
    """
    if len(sites) > limits.max_atoms:
        raise Unreadable(f"the structure has {len(sites):,} atoms before symmetry; the limit is {limits.max_atoms:,}")
    where = f" ({place})" if place else ""
    _refuse_occupancies(sites, where)
    draft = Draft(pbc=(True, True, True), cell=cell)
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
    positions, sources = expand(fractional, cell=cell, operations=operations, limits=limits)
    symbols = [sites[source].symbol for source in sources]
    if len(operations) > 1:
        keep = drop_repeated(positions, cell=cell, elements=symbols)
        if not keep.all():
            draft.warn(
                f"atoms listed again by symmetry were taken once ({np.count_nonzero(~keep)} of {len(keep)} left out)"
            )
        positions, sources = positions[keep], sources[keep]
    draft.symbols = [sites[source].symbol for source in sources]
    draft.names = [sites[source].name for source in sources]
    draft.positions = positions @ cell
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
        fractional @ cell, cell=cell, pbc=(True, True, True), cutoff_angstrom=REPEAT_ANGSTROM
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


def _matrices(operations: list[gemmi.Op]) -> Operations:
    return np.array([np.array(op.float_seitz(), dtype=float)[:3] for op in operations])


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

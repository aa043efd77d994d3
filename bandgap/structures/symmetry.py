"""Check the sites of an asymmetric unit for disorder and fill the cell by symmetry operators."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import listed, quoted
from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.elements import chemical_element
from bandgap.structures.neighbours import (
    MAX_CLOSE_PAIRS,
    REPEAT_ANGSTROM,
    close_pairs,
    repeated_atoms,
)
from bandgap.structures.operators import Operations, check_operations
from bandgap.structures.records import Limits
from bandgap.structures.unit_cells import UnitCell

# Images of one atom closer than this are one atom on a special position; rounding of coordinates
# separates them by about 0.01 A.
MERGE_ANGSTROM = 0.2
OCCUPANCY_SLACK = 0.005  # a refined occupancy of 0.997(4) counts as 1
_LARGEST_FRACTION = 1e4
_SHOWN_NAMES = 5  # number of atoms that a warning names
ADVICE = (
    "Disordered structures are not supported; export one ordered component, or see the guide "
    "'Disordered crystals'."
)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Site:
    """One atom of the asymmetric unit, with fractional coordinates and occupancy."""

    name: str
    symbol: str
    fractional: tuple[float, float, float]
    occupancy: float = 1.0
    disorder_group: str = ""
    disorder_assembly: str = ""

    def with_site_factor(
        self, factor: float, *, operations: Operations, cell: NDArray[np.float64]
    ) -> "Site":
        """Return the site with the occupancy that a SHELX site occupation factor gives.

        The factor is the occupancy divided by the multiplicity of the site symmetry: 1/2 for a
        fully occupied site on a mirror plane.
        """
        if abs(factor - 1) <= OCCUPANCY_SLACK or len(operations) == 1:
            return replace(self, occupancy=factor)
        (images,) = _images(np.array([self.fractional]), operations)
        return replace(self, occupancy=factor * _n_coinciding(images, cell))


def from_sites(
    sites: list[Site],
    *,
    cell: UnitCell,
    operations: Operations,
    operators_origin: str,
    place: str,
    limits: Limits,
) -> Draft:
    """Return the draft of all atoms of the cell.

    Parameters
    ----------
    sites
        Atoms of the asymmetric unit.
    cell, operations
        Unit cell, and symmetry operators (operation, 3, 4).
    operators_origin
        Where the operators come from, for the error message of `check_operations`.
    place
        Where the sites come from, such as "block shelx", for error messages.
    limits
        Largest number of atoms, before and after symmetry.

    Raises
    ------
    Unreadable
        If an operator is not a symmetry of the cell, if sites are disordered, if a coordinate is
        not finite or too large, or if there are more atoms than the limit.
    """
    if len(sites) > limits.max_atoms:
        raise Unreadable(
            f"the structure has {len(sites):,} atoms before symmetry; the limit is"
            f" {limits.max_atoms:,}"
        )
    where = f" ({place})" if place else ""
    check_operations(operations, cell, origin=operators_origin)
    sites = _merged_species(sites)
    vectors = cell.vectors
    draft = Draft(pbc=(True, True, True), cell=vectors)
    refuse_disorder(sites, where, draft=draft)
    if not sites:
        return draft
    fractional = np.array([site.fractional for site in sites], dtype=float)
    if not np.isfinite(fractional).all():
        atom = sites[int(np.argmin(np.isfinite(fractional).all(axis=1)))]
        raise Unreadable(f"the position of atom {atom.name}{where} is not a finite number")
    largest = np.abs(fractional).max()
    if largest > _LARGEST_FRACTION:
        raise Unreadable(
            f"a fractional coordinate of {largest:.3g}{where} is too large for a structure"
        )
    positions, sources = expand(fractional, cell=vectors, operations=operations, limits=limits)
    symbols = [sites[source].symbol for source in sources]
    if len(operations) > 1:
        keep = drop_repeated(positions, cell=vectors, elements=symbols)
        if not keep.all():
            draft.warn(
                f"atoms listed again by symmetry were taken once ({np.count_nonzero(~keep)} of"
                f" {len(keep)} left out)"
            )
        positions = positions[keep]
        sources = sources[keep]
    draft.symbols = [sites[source].symbol for source in sources]
    draft.names = [sites[source].name for source in sources]
    draft.positions = positions @ vectors
    return draft


def only_element(shares: Sequence[tuple[str, float]], site: str) -> str:
    """Return the symbol of a site by the occupancies of its species.

    Charge states and isotopes of one element are one atom. Raises Unreadable if the site is shared
    by several elements or partly occupied.
    """
    elements = {chemical_element(symbol) or symbol for symbol, _ in shares}
    if len(elements) != 1 or not abs(sum(share for _, share in shares) - 1.0) <= OCCUPANCY_SLACK:
        text = ", ".join(f"{symbol} {share:.4g}" for symbol, share in shares) or "nothing"
        raise Unreadable(f"{site} contains {quoted(text)}. {ADVICE}")
    return shares[0][0]


def masked_solvent(what: str) -> str:
    """Return the warning that solvent was removed, by SQUEEZE or a mask, with what it had."""
    return (
        f"solvent was removed from the data (SQUEEZE or a mask): {what} of it are not in the atoms,"
        " and the structure is predicted without them"
    )


def left_out(names: list[str], kind: str) -> list[str]:
    """Return the warning that these sites of a kind, such as "dummy atoms", were left out."""
    if not names:
        return []
    return [f"{kind} were left out: {listed(names, _SHOWN_NAMES)}"]


def expand(
    fractional: Floats, *, cell: Floats, operations: Operations, limits: Limits
) -> tuple[Floats, NDArray[np.intp]]:
    """Return fractional positions (m, 3) of all atoms of the cell, and the source (m,) of each.

    Images of one atom of `fractional` (n, 3) that are closer than MERGE_ANGSTROM are merged into
    their mean. In P 1 the atoms are returned unchanged. Raises Unreadable if there are more atoms
    than the limit.
    """
    if len(operations) <= 1:
        return fractional, np.arange(len(fractional))
    images = _images(fractional, operations)
    multiplicities = [_n_coinciding(points, cell) for points in images]
    n_atoms = sum(len(operations) // multiplicity for multiplicity in multiplicities)
    if n_atoms > limits.max_atoms:
        raise Unreadable(
            f"the structure has {n_atoms:,} atoms in its cell; the limit is {limits.max_atoms:,}"
        )
    atom_images = [
        points if multiplicity == 1 else _merge_coinciding(points, cell)
        for points, multiplicity in zip(images, multiplicities, strict=True)
    ]
    n_images = [len(points) for points in atom_images]
    return np.concatenate(atom_images), np.repeat(np.arange(len(atom_images)), n_images)


def drop_repeated(fractional: Floats, *, cell: Floats, elements: list[str]) -> NDArray[np.bool_]:
    """Return a mask (n,) of the atoms without those that repeat another one of the same element.

    A file that lists both all atoms of the cell and symmetry operators gives every atom repeatedly.
    """
    first, second, _ = close_pairs(
        fractional @ cell,
        cell=cell,
        pbc=(True, True, True),
        cutoff_angstrom=REPEAT_ANGSTROM,
        max_pairs=MAX_CLOSE_PAIRS,
    )
    return ~repeated_atoms(first, second, elements)


def _merged_species(sites: list[Site]) -> list[Site]:
    """Return the sites with those of one element at one place as one, such as Fe2+ and Fe3+."""
    merged: dict[object, Site] = {}
    for number, site in enumerate(sites):
        place = tuple(round(x % 1, 4) % 1 for x in site.fractional)
        is_partial = 0 < site.occupancy < 1 - OCCUPANCY_SLACK and site.symbol
        key = (chemical_element(site.symbol), place) if is_partial else number
        first = merged.setdefault(key, site)
        if first is not site:
            occupancy = first.occupancy + site.occupancy
            merged[key] = replace(first, occupancy=occupancy, disorder_group="")
    return list(merged.values())


def refuse_disorder(sites: list[Site], where: str, *, draft: Draft) -> None:
    """Raise Unreadable if a site is partly occupied, or if a disorder assembly has several groups.

    One fully occupied group alone is an ordered component; it gives a warning.
    """
    for site in sites:
        if not -OCCUPANCY_SLACK <= site.occupancy <= 1 + OCCUPANCY_SLACK:
            raise Unreadable(
                f"atom {site.name} has occupancy {site.occupancy:.4g}{where}, which is not between"
                " 0 and 1. Is it the multiplicity of the site? Write the occupancy, or none"
            )
        if not abs(site.occupancy - 1) <= OCCUPANCY_SLACK:
            raise Unreadable(
                f"atom {site.name} has occupancy {site.occupancy:.4g}{where}. {ADVICE}"
            )
    grouped_sites = [site for site in sites if site.disorder_group]
    group_of_assembly: dict[str, str] = {}
    for site in grouped_sites:
        first = group_of_assembly.setdefault(site.disorder_assembly, site.disorder_group)
        if site.disorder_group.startswith("-") or site.disorder_group != first:
            raise Unreadable(
                f"atom {site.name} is in disorder group {site.disorder_group}{where}. {ADVICE}"
            )
    if grouped_sites:
        group = f"disorder group {grouped_sites[0].disorder_group}"
        draft.warn(
            f"atom {grouped_sites[0].name} is in {group}{where}, which has no alternative in the"
            " file; read as ordered"
        )


def _images(fractional: Floats, operations: Operations) -> Floats:
    """Return the images (n, operation, 3) of atoms (n, 3), in the cell."""
    images: Floats = (
        np.einsum("kij,nj->nki", operations[:, :, :3], fractional) + operations[:, :, 3]
    )
    return images - np.floor(images)


def _n_coinciding(points: Floats, cell: Floats) -> int:
    """Return how many images (k, 3) of one atom coincide with the first.

    The operators form a group, so that the number is the same for every image.
    """
    return int(np.count_nonzero(_distances(points, points[0], cell=cell) < MERGE_ANGSTROM))


def _merge_coinciding(points: Floats, cell: Floats) -> Floats:
    """Replace the images (k, 3) of one atom that coincide by their mean."""
    merged = []
    remaining = points
    while len(remaining):
        coincides = _distances(remaining, remaining[0], cell=cell) < MERGE_ANGSTROM
        group = remaining[coincides]
        merged.append((group - np.round(group - remaining[0])).mean(axis=0))
        remaining = remaining[~coincides]
    return np.array(merged)


def _distances(points: Floats, origin: Floats, *, cell: Floats) -> Floats:
    difference = points - origin
    distances: Floats = np.linalg.norm((difference - np.round(difference)) @ cell, axis=1)
    return distances

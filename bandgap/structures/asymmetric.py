"""Sites of an asymmetric unit, checked for disorder, to all atoms of the cell; for formats that hold symmetry."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Draft, Unreadable
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Operations, drop_repeated, expand

_OCCUPANCY_SLACK = 0.005  # a refined occupancy of 0.997(4) is one
_LARGEST_FRACTION = 1e4
_ADVICE = "Disordered structures are not supported; export one ordered component."


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
        if abs(share - 1) <= _OCCUPANCY_SLACK or len(operations) == 1 or not np.isfinite(self.fractional).all():
            return replace(self, occupancy=share)
        images, _ = expand(np.array([self.fractional]), cell=cell, operations=operations)
        return replace(self, occupancy=share * len(operations) / len(images))


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
    positions, sources = expand(fractional, cell=cell, operations=operations)
    if len(positions) > limits.max_atoms:
        raise Unreadable(f"the structure has {len(positions):,} atoms in its cell; the limit is {limits.max_atoms:,}")
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


def _refuse_occupancies(sites: list[Site], where: str) -> None:
    for site in sites:
        if not abs(site.occupancy - 1) <= _OCCUPANCY_SLACK:
            raise Unreadable(f"atom {site.name} has occupancy {site.occupancy:.4g}{where}. {_ADVICE}")


def _refuse_groups(sites: list[Site], where: str, *, draft: Draft) -> None:
    """Refuse alternatives that are listed side by side; one group alone, fully occupied, is an ordered component."""
    marked = [site for site in sites if site.disorder_group]
    seen: dict[str, str] = {}
    for site in marked:
        first = seen.setdefault(site.disorder_assembly, site.disorder_group)
        if site.disorder_group.startswith("-") or site.disorder_group != first:
            raise Unreadable(f"atom {site.name} is in disorder group {site.disorder_group}{where}. {_ADVICE}")
    if marked:
        group = f"disorder group {marked[0].disorder_group}"
        draft.warn(f"atom {marked[0].name} is in {group}{where}, which has no alternative in the file; read as ordered")

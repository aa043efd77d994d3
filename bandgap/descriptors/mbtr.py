"""The vector of one structure: the MBTR by DScribe, term by term, and the parts behind it.

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives, J. Chem. Phys. 158,
234802 (2023). Since DScribe 2.0 one object holds one term, so the order of the terms and their normalisation are ours
(see `DescriptorConfig`).
"""

import numpy as np
from ase import Atoms
from ase.geometry import wrap_positions
from numpy.typing import NDArray

from bandgap.descriptors.config import DescriptorConfig, parts_of
from bandgap.descriptors.mbtr_terms import DIRECT, term_of
from bandgap.structures.elements import ELEMENTS
from bandgap.structures.neighbours import heights
from bandgap.structures.zwitterions import neutral_form

# Bumps have height 1. What is smaller than this is the rounding of erf, and standardising would make a feature of it.
NEGLIGIBLE = 1e-8
MAX_NEIGHBOURS = 15_000  # atoms of the cell and around it; DScribe holds a dense matrix of their distances (1.8 GB)


def describe(atoms: Atoms, config: DescriptorConfig) -> NDArray[np.float64]:
    """Return the vector (p,) of one structure; periodic along exactly the axes along which `atoms` is periodic.

    `atoms` stays as it is. A lone atom has a zero k2 and k3. Call `obstacle` first: this raises what DScribe raises,
    and NoFeaturesError where the structure lacks what a part asks for.
    """
    given = neutral_form(atoms) if config.neutral else atoms
    plain = given if _is_plain(given, config) else _plain_copy(given)
    found = [term_of(plain, config, order=order, term=term) for order, term in config.terms]
    parts = [_normalised(part, config, atoms=plain) for part in found]
    if config.roots:
        parts = [np.sqrt(np.maximum(part, 0.0)) for part in parts]
    return np.concatenate(
        [*parts, *(part.describe(plain, value) for part, value in parts_of(config))]
    )


def obstacle(atoms: Atoms, config: DescriptorConfig) -> str | None:
    """Return why `atoms` cannot be described, as one sentence, or None when it can."""
    numbers = sorted(set(atoms.numbers.tolist()))
    present = [ELEMENTS[z - 1] if 0 < z <= len(ELEMENTS) else "X" for z in numbers]
    unseen = [symbol for symbol in present if symbol not in config.elements]
    if unseen:
        accepted = " ".join(config.elements)
        return f"contains {', '.join(unseen)}, which the descriptor was not set up for; accepted: {accepted}."
    if len(atoms) == 0:
        return "has no atoms."
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell.array).all():
        return "has positions or a cell that are not finite numbers."
    return _cell_obstacle(atoms, config)


def _cell_obstacle(atoms: Atoms, config: DescriptorConfig) -> str | None:
    if not atoms.pbc.any():
        return None
    cell = _full_cell(atoms)
    volume = abs(float(np.linalg.det(cell)))
    if volume < 1e-6:
        return "is periodic but its cell has no volume; give three lattice vectors that are not in one plane."
    grown = np.where(atoms.pbc, 1.0 + 2.0 * config.reach_angstrom / heights(cell), 1.0)
    neighbours = len(atoms) * float(np.prod(grown))
    if neighbours > MAX_NEIGHBOURS:
        return (
            f"has about {neighbours:,.0f} atoms within {config.reach_angstrom:g} angstroms of its cell; accepted: "
            f"{MAX_NEIGHBOURS:,}. Check the cell ({volume / len(atoms):.2f} cubic angstroms per atom) or use the "
            "primitive cell."
        )
    return None


def _is_plain(atoms: Atoms, config: DescriptorConfig) -> bool:
    """Return whether all that is asked of `atoms` are numbers and positions."""
    direct = all(order <= DIRECT for order, _ in config.terms)
    return direct and not parts_of(config) and not atoms.pbc.any()


def _plain_copy(atoms: Atoms) -> Atoms:
    """Return numbers, positions, cell and periodicity only, with the atoms of a periodic structure inside the cell.

    DScribe 2.1.2 takes as many images as atoms inside the cell need, and loses neighbours of atoms that lie outside.
    """
    if not atoms.pbc.any():
        return Atoms(numbers=atoms.numbers, positions=atoms.positions)  # type: ignore[no-untyped-call]
    positions = wrap_positions(atoms.positions, _full_cell(atoms), pbc=atoms.pbc)  # type: ignore[no-untyped-call]
    return Atoms(  # type: ignore[no-untyped-call]
        numbers=atoms.numbers, positions=positions, cell=_full_cell(atoms), pbc=atoms.pbc
    )


def _full_cell(atoms: Atoms) -> NDArray[np.float64]:
    """Return the cell (3, 3) with vectors filled in that are missing along open axes, as in a slab without vacuum."""
    missing_along_periodic = (atoms.pbc & ~atoms.cell.any(1)).any()
    return np.asarray(
        (atoms.cell if missing_along_periodic else atoms.cell.complete()).array, dtype=np.float64
    )


def _normalised(
    part: NDArray[np.float64], config: DescriptorConfig, *, atoms: Atoms
) -> NDArray[np.float64]:
    if config.normalisation == "per_atom":
        part = part / len(atoms)
    elif config.normalisation == "per_heavy_atom":
        part = part / (int(np.sum(atoms.numbers > 1)) or len(atoms))
    part = np.where(np.abs(part) < NEGLIGIBLE, 0.0, part)
    if config.normalisation != "l2_per_term":
        return part
    length = float(np.linalg.norm(part))
    return part / length if length > 0 else part

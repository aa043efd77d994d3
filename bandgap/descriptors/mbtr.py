"""The feature vector of one structure: the MBTR terms by DScribe, and the blocks after them.

This package sets the order of the terms and their normalisation (`DescriptorConfig`).

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives,
J. Chem. Phys. 158, 234802 (2023).
"""

import numpy as np
from ase import Atoms
from ase.geometry import wrap_positions
from numpy.typing import NDArray

from bandgap.descriptors.config import DescriptorConfig
from bandgap.descriptors.mbtr_terms import term_of
from bandgap.structures.elements import ELEMENTS
from bandgap.structures.neighbours import heights

# Gaussians have height 1. Smaller values are rounding of erf; without the limit, standardising
# would turn them into features.
NEGLIGIBLE = 1e-8
# Atoms of the cell and around it. DScribe's matrix of their distances is dense and takes 1.8 GB.
MAX_NEIGHBOURS = 15_000
# Share of a structure's atoms that `leaves_out_atoms` leaves out at most.
MAX_UNKNOWN_ATOMS = 0.5


def describe(atoms: Atoms, config: DescriptorConfig) -> NDArray[np.float64]:
    """Return the vector (p,) of one structure, periodic along the axes of `atoms.pbc`.

    `atoms` is not changed. Call `obstacle` first: this function raises what DScribe raises. It
    raises NoFeaturesError if the structure does not have the features of a block.
    """
    described = atoms
    if config.neutral:
        from bandgap.structures.zwitterions import neutral_form

        described = neutral_form(atoms)
    plain = described if _is_plain(described, config) else _plain_copy(described)
    in_terms = _with_species(plain, config) if config.leaves_out_atoms else plain
    terms = [
        _normalised(term_of(in_terms, config, order=order, term=term), config, atoms=plain)
        for order, term in config.terms
    ]
    if config.roots:
        terms = [np.sqrt(np.maximum(term, 0.0)) for term in terms]
    blocks = [block.describe(plain, value) for block, value in config.blocks]
    return np.concatenate([*terms, *blocks])


def obstacle(atoms: Atoms, config: DescriptorConfig) -> str | None:
    """Return why `atoms` cannot be described, as one sentence, or None if they can."""
    numbers = sorted(set(atoms.numbers.tolist()))
    present = [ELEMENTS[z - 1] if 0 < z <= len(ELEMENTS) else "X" for z in numbers]
    lacking = [symbol for symbol in present if symbol not in config.elements]
    if lacking:
        return (
            f"contains {', '.join(lacking)}, which the descriptor was not set up for; "
            f"accepted: {' '.join(config.elements)}."
        )
    if len(atoms) == 0:
        return "has no atoms."
    if config.leaves_out_atoms and (problem := _unknown_atoms_problem(atoms, config)):
        return problem
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell.array).all():
        return "has positions or a cell that are not finite numbers."
    return _cell_obstacle(atoms, config)


def _with_species(atoms: Atoms, config: DescriptorConfig) -> Atoms:
    """Return the atoms of the descriptor's species."""
    rows = [i for i, symbol in enumerate(atoms.symbols) if symbol in config.species]
    return atoms[rows]


def _unknown_atoms_problem(atoms: Atoms, config: DescriptorConfig) -> str:
    """Return why too many atoms would be left out of the terms, or ""."""
    n_unknown = sum(symbol not in config.species for symbol in atoms.symbols)
    if not config.terms or n_unknown <= MAX_UNKNOWN_ATOMS * len(atoms):
        return ""
    unknown = sorted(set(atoms.symbols) - set(config.species))
    return (
        f"contains {', '.join(unknown)}, which the descriptor was not set up for, in {n_unknown} "
        f"of {len(atoms)} atoms; accepted: up to {100 * MAX_UNKNOWN_ATOMS:.0f} % of the atoms."
    )


def _cell_obstacle(atoms: Atoms, config: DescriptorConfig) -> str | None:
    if not atoms.pbc.any():
        return None
    cell = _full_cell(atoms)
    volume = abs(float(np.linalg.det(cell)))
    if volume < 1e-6:
        return (
            "is periodic but its cell has no volume; "
            "give three lattice vectors that are not in one plane."
        )
    growth = np.where(atoms.pbc, 1.0 + 2.0 * config.reach_angstrom / heights(cell), 1.0)
    neighbours = len(atoms) * float(np.prod(growth))
    if neighbours > MAX_NEIGHBOURS:
        return (
            f"has about {neighbours:,.0f} atoms within {config.reach_angstrom:g} angstroms of its "
            f"cell; accepted: {MAX_NEIGHBOURS:,}. Check the cell "
            f"({volume / len(atoms):.2f} cubic angstroms per atom) or use the primitive cell."
        )
    return None


def _is_plain(atoms: Atoms, config: DescriptorConfig) -> bool:
    """Return whether the descriptor reads only numbers and positions of `atoms`."""
    return not config.blocks and not atoms.pbc.any()


def _plain_copy(atoms: Atoms) -> Atoms:
    """Return a copy with numbers, positions, cell and periodicity only.

    The atoms of a periodic structure are moved into the cell. DScribe 2.1.2 builds as many images
    as atoms inside the cell need, so that atoms outside of it would lose neighbours.
    """
    if not atoms.pbc.any():
        return Atoms(  # type: ignore[no-untyped-call]
            numbers=atoms.numbers, positions=atoms.positions
        )
    cell = _full_cell(atoms)
    positions = wrap_positions(  # type: ignore[no-untyped-call]
        atoms.positions, cell, pbc=atoms.pbc
    )
    return Atoms(  # type: ignore[no-untyped-call]
        numbers=atoms.numbers, positions=positions, cell=cell, pbc=atoms.pbc
    )


def _full_cell(atoms: Atoms) -> NDArray[np.float64]:
    """Return the cell (3, 3) with missing vectors along open axes filled in.

    A missing vector along a periodic axis stays zero, so that the cell has no volume.
    """
    is_missing = (atoms.pbc & ~atoms.cell.any(1)).any()
    cell = atoms.cell if is_missing else atoms.cell.complete()
    return np.asarray(cell.array, dtype=np.float64)


def _normalised(
    term: NDArray[np.float64], config: DescriptorConfig, *, atoms: Atoms
) -> NDArray[np.float64]:
    if config.normalisation == "per_atom":
        term = term / len(atoms)
    elif config.normalisation == "per_heavy_atom":
        term = term / (int(np.sum(atoms.numbers > 1)) or len(atoms))
    term = np.where(np.abs(term) < NEGLIGIBLE, 0.0, term)
    if config.normalisation != "l2_per_term":
        return term
    length = float(np.linalg.norm(term))
    return term / length if length > 0 else term

"""The vector of one structure: the MBTR by DScribe, one DScribe object per term, and the parts behind it.

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives, J. Chem. Phys. 158,
234802 (2023). Since DScribe 2.0 one object holds one term, so the order of the terms and their normalisation are ours
(see `DescriptorConfig`).
"""

import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from ase import Atoms
from ase.geometry import wrap_positions
from numpy.typing import NDArray

from bandgap.descriptors.config import DescriptorConfig, Term, parts_of
from bandgap.structures.elements import ELEMENTS
from bandgap.structures.neighbours import heights
from bandgap.structures.zwitterions import neutral_form

if TYPE_CHECKING:
    from dscribe.descriptors import MBTR

# Bumps have height 1. What is smaller than this is the rounding of erf, and standardising would make a feature of it.
NEGLIGIBLE = 1e-8
MAX_NEIGHBOURS = 15_000  # atoms of the cell and around it; DScribe holds a dense matrix of their distances (1.8 GB)


def describe(atoms: Atoms, config: DescriptorConfig) -> NDArray[np.float64]:
    """Return the vector (p,) of one structure; periodic along exactly the axes along which `atoms` is periodic.

    `atoms` stays as it is. A lone atom has a zero k2 and k3. Call `obstacle` first: this raises what DScribe raises,
    and NoFeaturesError where the structure lacks what a part asks for.
    """
    plain = _plain_copy(neutral_form(atoms) if config.neutral else atoms)
    periodic = bool(plain.pbc.any())
    parts = []
    with warnings.catch_warnings():
        # dscribe 2.1.2 calls Atoms.get_calculator, deprecated in ase 3.26 (SINGROUP/dscribe#160).
        warnings.filterwarnings("ignore", message="Please use atoms.calc", category=FutureWarning)
        for _, term in config.terms:
            part = np.asarray(_engine(config.species, term, periodic).create_single(plain), dtype=np.float64)
            parts.append(_normalised(part, config, atoms=plain))
    if config.roots:
        parts = [np.sqrt(np.maximum(part, 0.0)) for part in parts]
    return np.concatenate([*parts, *(part.describe(plain, value) for part, value in parts_of(config))])


def obstacle(atoms: Atoms, config: DescriptorConfig) -> str | None:
    """Return why `atoms` cannot be described, as one sentence, or None when it can."""
    present = [ELEMENTS[z - 1] if 0 < z <= len(ELEMENTS) else "X" for z in np.unique(atoms.numbers)]
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
    return np.asarray((atoms.cell if missing_along_periodic else atoms.cell.complete()).array, dtype=np.float64)


def _normalised(part: NDArray[np.float64], config: DescriptorConfig, *, atoms: Atoms) -> NDArray[np.float64]:
    if config.normalisation == "per_atom":
        part = part / len(atoms)
    elif config.normalisation == "per_heavy_atom":
        part = part / (int(np.sum(atoms.numbers > 1)) or len(atoms))
    part = np.where(np.abs(part) < NEGLIGIBLE, 0.0, part)
    length = float(np.linalg.norm(part))
    return part / length if config.normalisation == "l2_per_term" and length > 0 else part


@lru_cache(maxsize=16)
def _engine(species: tuple[str, ...], term: Term, periodic: bool) -> "MBTR":
    from dscribe.descriptors import MBTR  # takes seconds to load: only where a term is computed

    return MBTR(
        species=list(species),
        geometry={"function": term.function},
        grid={"min": term.minimum, "max": term.maximum, "n": term.n, "sigma": term.sigma},
        weighting=_weighting(term),
        normalize_gaussians=False,  # bumps of height 1 in every term, whatever its unit
        normalization="none",
        periodic=periodic,
        sparse=False,
        dtype="float64",
    )


def _weighting(term: Term) -> dict[str, Any] | None:
    if term.weighting == "none":
        return None
    values: dict[str, Any] = {"function": term.weighting, "r_cut": term.cutoff_angstrom}
    return values | ({"threshold": term.threshold} if term.weighting == "exp" else {})

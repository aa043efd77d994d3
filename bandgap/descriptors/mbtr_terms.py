"""One term of the MBTR of one structure, by DScribe's compiled loops.

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives, J. Chem. Phys. 158,
234802 (2023). The first two terms are asked of these loops directly (`dscribe.ext`), in their arguments' own types:
DScribe 2.1.2's Python classes in front of them copy every structure three times, make matrices of all distances, and
load scikit-learn. The numbers are those of its classes to the last digit, which a test holds. The other terms are left
to the classes.
"""

import math
import warnings
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from ase import Atoms
from dscribe.ext import MBTRWrapper
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.descriptors.config import DescriptorConfig, Term
from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    from dscribe.descriptors import MBTR

Floats = NDArray[np.float64]

DIRECT = 2  # terms up to this order need only numbers and positions of a molecule, and no class of DScribe
COMPOSITIONS = 4096  # whose first term is kept


def term_of(atoms: Atoms, config: DescriptorConfig, *, order: int, term: Term) -> Floats:
    """Return a term (feature,) of a structure, bumps of height 1, not normalised; it may not be written to.

    A periodic structure has a cell, and its atoms in this. Raises what DScribe raises.
    """
    if order > DIRECT:
        return class_term(atoms, config.species, term)
    bump = 1.0 / (term.sigma * math.sqrt(2.0 * math.pi))  # the height of a bump of area 1
    if order == 1:
        return _first(config.species, term, bump, tuple(sorted(atoms.numbers.tolist())))
    found = np.zeros(len(config.species) * (len(config.species) + 1) // 2 * term.n)
    _add_second(found, atoms, config.species, term)
    found /= bump
    return found


def class_term(atoms: Atoms, species: tuple[str, ...], term: Term) -> Floats:
    """Return the same by DScribe's class."""
    with warnings.catch_warnings():
        # dscribe 2.1.2 calls Atoms.get_calculator, deprecated in ase 3.26 (SINGROUP/dscribe#160).
        warnings.filterwarnings("ignore", message="Please use atoms.calc", category=FutureWarning)
        found = _engine(species, term, bool(atoms.pbc.any())).create_single(atoms)
    return np.asarray(found, dtype=np.float64)


@lru_cache(maxsize=COMPOSITIONS)
def _first(species: tuple[str, ...], term: Term, bump: float, numbers: tuple[int, ...]) -> Floats:
    """Return k1, which atoms' places and their order do not matter to."""
    found = np.zeros(len(species) * term.n)
    wrapper = MBTRWrapper(_places(species), len(numbers), [])
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    wrapper.get_k1(found, list(numbers), term.function.encode(), b"unity", {}, *grid)
    found /= bump
    found.flags.writeable = False
    return found


def _add_second(found: Floats, atoms: Atoms, species: tuple[str, ...], term: Term) -> None:
    """Add k2 to `found`: of pairs i < j of which i is in the cell, as DScribe's loops pass over all others."""
    assert term.cutoff_angstrom is not None  # `Term` holds none of this weighting without it
    n = len(atoms)
    numbers, positions, images = _surroundings(atoms, term.cutoff_angstrom)
    tree = cKDTree(positions)
    pairs = tree.sparse_distance_matrix(tree, term.cutoff_angstrom, output_type="ndarray")
    pairs = pairs[(pairs["i"] < pairs["j"]) & (pairs["i"] < n)]
    neighbours: list[list[int]] = [[] for _ in range(len(numbers))]
    distances = np.zeros((n, len(numbers)))
    distances[pairs["i"], pairs["j"]] = pairs["v"]
    for i, j in zip(pairs["i"].tolist(), pairs["j"].tolist(), strict=True):
        neighbours[i].append(j)
    parameters: dict[bytes, float] = {}
    if term.weighting == "exp":
        assert term.threshold is not None  # as above
        parameters = {
            b"scale": -math.log(term.threshold) / term.cutoff_angstrom,
            b"threshold": term.threshold,
        }
    wrapper = MBTRWrapper(_places(species), n, images.tolist())
    of_atoms = (numbers.tolist(), positions.tolist(), distances.tolist(), neighbours)
    how = (term.function.encode(), term.weighting.encode(), parameters)
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    wrapper.get_k2(found, np.zeros((0, 0, 0)), True, False, *of_atoms, *how, *grid)


def _surroundings(
    atoms: Atoms, cutoff: float
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Return numbers and positions of the atoms and of all images within the cutoff, and the cell (3,) of each."""
    if not atoms.pbc.any():
        return atoms.numbers, atoms.positions, np.zeros((len(atoms), 3), dtype=np.int64)
    from dscribe.utils.geometry import get_extended_system

    wide, images = get_extended_system(atoms, cutoff, atoms.positions, return_cell_indices=True)
    return wide.numbers, wide.positions, cast("NDArray[np.int64]", images)


@lru_cache(maxsize=16)
def _places(species: tuple[str, ...]) -> dict[int, int]:
    """Return the place of every element, by atomic number, in their order."""
    return {
        z: place for place, z in enumerate(sorted(ELEMENTS.index(symbol) + 1 for symbol in species))
    }


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

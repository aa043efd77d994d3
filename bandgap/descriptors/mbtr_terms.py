"""One term of the MBTR of one structure, by DScribe's compiled loops.

The terms k1 and k2 call these loops directly (`dscribe.ext`) with arguments of their types. The
Python classes of DScribe 2.1.2 copy every structure three times, compute matrices of all distances
and load scikit-learn. A test checks that the results are bitwise equal. The term k3 uses the
classes.

Reference: J. Laakso et al., Updates to the DScribe library: New descriptors and derivatives,
J. Chem. Phys. 158, 234802 (2023).
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

# Terms up to this order need only numbers and positions of a molecule, and no class of DScribe.
DIRECT = 2
# Number of compositions whose k1 is cached.
COMPOSITIONS = 4096


def term_of(atoms: Atoms, config: DescriptorConfig, *, order: int, term: Term) -> Floats:
    """Return a term (feature,) of a structure, with Gaussians of height 1, not normalised.

    The result may be read-only. A periodic structure must have a cell with its atoms inside.
    Raises what DScribe raises.
    """
    if order > DIRECT:
        return class_term(atoms, config.species, term)
    # The height of a Gaussian of area 1, which the loops add up.
    height = 1.0 / (term.sigma * math.sqrt(2.0 * math.pi))
    if order == 1:
        return _k1(config.species, term, height, tuple(sorted(atoms.numbers.tolist())))
    values = np.zeros(len(config.species) * (len(config.species) + 1) // 2 * term.n)
    _add_k2(values, atoms, config.species, term)
    values /= height
    return values


def class_term(atoms: Atoms, species: tuple[str, ...], term: Term) -> Floats:
    """Return a term (feature,) of a structure by DScribe's class."""
    with warnings.catch_warnings():
        # dscribe 2.1.2 calls Atoms.get_calculator, deprecated in ase 3.26 (SINGROUP/dscribe#160).
        warnings.filterwarnings("ignore", message="Please use atoms.calc", category=FutureWarning)
        values = _class(species, term, bool(atoms.pbc.any())).create_single(atoms)
    return np.asarray(values, dtype=np.float64)


@lru_cache(maxsize=COMPOSITIONS)
def _k1(species: tuple[str, ...], term: Term, height: float, numbers: tuple[int, ...]) -> Floats:
    """Return k1, which depends only on the sorted atomic numbers."""
    values = np.zeros(len(species) * term.n)
    wrapper = MBTRWrapper(_index_of_element(species), len(numbers), [])
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    wrapper.get_k1(values, list(numbers), term.function.encode(), b"unity", {}, *grid)
    values /= height
    values.flags.writeable = False
    return values


def _add_k2(values: Floats, atoms: Atoms, species: tuple[str, ...], term: Term) -> None:
    """Add k2 to `values`: pairs i < j with i in the cell, since the loops skip all other pairs."""
    assert term.cutoff_angstrom is not None  # checked by `Term` for every weighting of k2
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
        assert term.threshold is not None  # checked by `Term`
        parameters = {
            b"scale": -math.log(term.threshold) / term.cutoff_angstrom,
            b"threshold": term.threshold,
        }
    wrapper = MBTRWrapper(_index_of_element(species), n, images.tolist())
    structure = (numbers.tolist(), positions.tolist(), distances.tolist(), neighbours)
    functions = (term.function.encode(), term.weighting.encode(), parameters)
    grid = (term.minimum, term.maximum, term.sigma, term.n)
    wrapper.get_k2(values, np.zeros((0, 0, 0)), True, False, *structure, *functions, *grid)


def _surroundings(
    atoms: Atoms, cutoff_angstrom: float
) -> tuple[NDArray[np.int64], Floats, NDArray[np.int64]]:
    """Return numbers, positions and cell indices (3,) of the atoms and of images within the cutoff.

    The atoms of the cell come first.
    """
    if not atoms.pbc.any():
        return atoms.numbers, atoms.positions, np.zeros((len(atoms), 3), dtype=np.int64)
    from dscribe.utils.geometry import get_extended_system

    extended, images = get_extended_system(
        atoms, cutoff_angstrom, atoms.positions, return_cell_indices=True
    )
    return extended.numbers, extended.positions, cast("NDArray[np.int64]", images)


@lru_cache(maxsize=16)
def _index_of_element(species: tuple[str, ...]) -> dict[int, int]:
    """Return the index of every element in the sorted species, by atomic number."""
    numbers = sorted(ELEMENTS.index(symbol) + 1 for symbol in species)
    return {z: index for index, z in enumerate(numbers)}


@lru_cache(maxsize=16)
def _class(species: tuple[str, ...], term: Term, periodic: bool) -> "MBTR":
    from dscribe.descriptors import MBTR  # takes seconds to load

    return MBTR(
        species=list(species),
        geometry={"function": term.function},
        grid={"min": term.minimum, "max": term.maximum, "n": term.n, "sigma": term.sigma},
        weighting=_weighting(term),
        normalize_gaussians=False,  # height 1 in every term, whatever its unit
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

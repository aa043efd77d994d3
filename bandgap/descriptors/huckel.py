"""Frontier levels of molecules by Hückel's method, from their bonds alone and in milliseconds.

Each atom of a double, triple or aromatic bond has a pi orbital, and so has each atom with a lone
pair, such as an amine's nitrogen or a halogen. In units of beta the matrix is

    H_ii = h_X + shift of the charge,     H_ij = k_X k_Y for bonded atoms

with the parameters h and k of F. A. Van-Catledge, J. Org. Chem. 45, 4801 (1980), which depend on
the element and on the number of electrons that the atom gives. k is tabulated for bonds to carbon;
that of two other atoms is the product. Br, I, As, Se and Te are not in his table; theirs follow
the trends of their groups. Levels are alpha + x beta (E. Hückel, Z. Phys. 70, 204 (1931)).

A molecule has also sigma orbitals, whose frontier levels are taken as `SIGMA` beta around alpha.
"""

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

ALPHA_EV: Final = -6.6
BETA_EV: Final = -2.7
SIGMA: Final = 1.5
# h and k of atoms by number of electrons that they give, and by element.
PARAMETERS: Final = {
    0: {5: (-0.45, 0.73)},
    1: {
        5: (-0.45, 0.73),
        6: (0.0, 1.0),
        7: (0.51, 1.02),
        8: (0.97, 1.06),
        14: (0.0, 0.75),
        15: (0.19, 0.77),
        16: (0.46, 0.81),
        33: (0.19, 0.7),
        34: (0.46, 0.75),
        52: (0.4, 0.6),
    },
    2: {
        6: (-0.3, 0.9),
        7: (1.37, 0.89),
        8: (2.09, 0.66),
        9: (2.71, 0.52),
        15: (0.75, 0.76),
        16: (1.11, 0.69),
        17: (1.48, 0.62),
        33: (0.75, 0.7),
        34: (1.1, 0.6),
        35: (1.5, 0.5),
        52: (1.0, 0.5),
        53: (1.4, 0.4),
    },
}
OTHER: Final = (0.5, 0.7)  # of an element that is in neither table
# Added to h for each positive charge, and for each negative one of a lone pair.
POSITIVE_SHIFT: Final = 1.0
NEGATIVE_SHIFT: Final = -0.7
_B, _C, _N, _O, _P, _S, _AS, _SE, _TE = 5, 6, 7, 8, 15, 16, 33, 34, 52
_LONE_PAIR_NEIGHBOURS: Final = {_N: 3, _P: 3, _AS: 3, _O: 2, _S: 2, _SE: 2, _TE: 2}


def huckel_levels_eV(atoms: "Atoms") -> Floats:
    """Return the smallest gap, highest HOMO and lowest LUMO (3,) of the molecules in eV.

    Raises NoBondsError if there is no molecule or the bonds of one cannot be perceived, and
    ConfigError if RDKit is not installed.
    """
    from bandgap.descriptors.bond_orders import molecules_of

    levels = np.array([frontier_levels_eV(molecule) for molecule, _ in molecules_of(atoms)])
    homo, lumo = levels.T
    return np.array([float((lumo - homo).min()), float(homo.max()), float(lumo.min())])


def frontier_levels_eV(molecule: Any) -> tuple[float, float]:
    """Return HOMO and LUMO in eV of an RDKit molecule."""
    electrons = pi_electrons(molecule)
    homo, lumo = SIGMA, -SIGMA  # in units of beta, which is negative
    if electrons:
        levels = np.linalg.eigvalsh(_matrix(molecule, electrons))[::-1]
        n_occupied = sum(electrons.values()) // 2
        homo = min([homo, *levels[:n_occupied]])
        lumo = max([lumo, *levels[n_occupied:]])
    return ALPHA_EV + BETA_EV * homo, ALPHA_EV + BETA_EV * lumo


def pi_electrons(molecule: Any) -> dict[int, int]:
    """Return by index the atoms of an RDKit molecule with a pi orbital, and their electrons.

    Examples
    --------
    >>> from rdkit.Chem import MolFromSmiles
    >>> pi_electrons(MolFromSmiles("c1cc[nH]c1"))
    {0: 1, 1: 1, 2: 1, 3: 2, 4: 1}
    """
    electrons: dict[int, int] = {}
    for atom in molecule.GetAtoms():
        if any(bond.GetBondTypeAsDouble() > 1.0 for bond in atom.GetBonds()):
            number = atom.GetAtomicNum()
            if number in (_P, _S, _AS, _SE) and atom.GetTotalDegree() >= 4:
                continue  # sulfone or phosphate, whose double bonds are single ones of charges
            electrons[atom.GetIdx()] = _of_unsaturated(atom)
    unsaturated = set(electrons)
    for atom in molecule.GetAtoms():
        if atom.GetIdx() in unsaturated:
            continue
        if _has_lone_pair(atom):
            electrons[atom.GetIdx()] = 2
        elif _has_empty_orbital(atom) and any(
            neighbour.GetIdx() in unsaturated for neighbour in atom.GetNeighbors()
        ):
            electrons[atom.GetIdx()] = 0
    return electrons


def _of_unsaturated(atom: Any) -> int:
    """Return the number of electrons of an atom with a double, triple or aromatic bond."""
    number = atom.GetAtomicNum()
    degree = atom.GetTotalDegree()
    charge = atom.GetFormalCharge()
    if number == _C:
        return 1 - int(charge)
    if number == _B:
        return 0 if degree == 3 else 1
    gives_pair = atom.GetIsAromatic() and charge == 0
    if number == _N:
        return 2 if gives_pair and degree == 3 else 1
    if number in (_O, _S, _SE, _TE):
        return 2 if gives_pair and degree == 2 else 1
    return 1


def _has_lone_pair(atom: Any) -> bool:
    number = atom.GetAtomicNum()
    if number in (9, 17, 35, 53):
        return True
    has_few_neighbours = atom.GetTotalDegree() <= _LONE_PAIR_NEIGHBOURS.get(number, -1)
    return bool(has_few_neighbours) and int(atom.GetFormalCharge()) <= 0


def _has_empty_orbital(atom: Any) -> bool:
    """Return whether an atom is boron with three neighbours."""
    return bool(atom.GetAtomicNum() == _B and atom.GetTotalDegree() == 3)


def _matrix(molecule: Any, electrons: dict[int, int]) -> Floats:
    """Return Hückel's matrix (n, n) of the atoms of `electrons`, in units of beta."""
    row_of = {atom: row for row, atom in enumerate(electrons)}
    matrix = np.zeros((len(row_of), len(row_of)))
    factors = np.empty(len(row_of))
    for index, row in row_of.items():
        atom = molecule.GetAtomWithIdx(index)
        h, factors[row] = PARAMETERS.get(electrons[index], {}).get(atom.GetAtomicNum(), OTHER)
        charge = atom.GetFormalCharge()
        shift = POSITIVE_SHIFT * charge
        if electrons[index] == 2:
            shift = NEGATIVE_SHIFT * max(-charge, 0)
        matrix[row, row] = h + shift
    for bond in molecule.GetBonds():
        i, j = (row_of.get(end) for end in (bond.GetBeginAtomIdx(), bond.GetEndAtomIdx()))
        if i is not None and j is not None:
            matrix[i, j] = matrix[j, i] = factors[i] * factors[j]
    return matrix

"""Frontier levels of molecules by Hückel's method, from their bonds alone and in milliseconds.

Each atom of a double, triple or aromatic bond has a pi orbital, and so has each atom with a lone
pair, such as an amine's nitrogen or a halogen. In units of beta the matrix is

    H_ii = h_X + shift of the charge,     H_ij = k_X k_Y for bonded atoms

with the parameters h and k of F. A. Van-Catledge, J. Org. Chem. 45, 4801 (1980), which depend on
the element and on the number of electrons that the atom gives. k is tabulated for bonds to carbon;
that of two other atoms is the product. Br, I, As, Se and Te are not in his table; theirs follow
the trends of their groups. Levels are alpha + x beta (E. Hückel, Z. Phys. 70, 204 (1931)).

A molecule has also sigma orbitals, whose frontier levels are taken as `SIGMA` beta around alpha.
A double bond to sulfur or phosphorus with four neighbours, as in a sulfone, counts as a single bond
between charges. Charges are those with which all electrons are in pairs, so that a radical has the
levels of its ion.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

# Raise it when the levels change: cached descriptors with them are then ignored.
FORMAT: Final = 2

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
_HALOGENS: Final = (9, 17, 35, 53)
# Largest number of neighbours with which an atom keeps a lone pair.
_LONE_PAIR_NEIGHBOURS: Final = {
    **{_N: 3, _P: 3, _AS: 3, _O: 2, _S: 2, _SE: 2, _TE: 2},
    **dict.fromkeys(_HALOGENS, 1),
}


def huckel_levels_eV(atoms: "Atoms") -> Floats:
    """Return the smallest gap, highest HOMO and lowest LUMO (3,) of the molecules in eV.

    Raises NoBondsError if there is no molecule or the bonds of one cannot be perceived.
    """
    from bandgap.descriptors.bond_orders import molecules_of

    levels = np.array([frontier_levels_eV(molecule) for molecule, _ in molecules_of(atoms)])
    homo, lumo = levels.T
    return np.array([float((lumo - homo).min()), float(homo.max()), float(lumo.min())])


def frontier_levels_eV(molecule: Any) -> tuple[float, float]:
    """Return HOMO and LUMO in eV of an RDKit molecule."""
    orbitals = pi_orbitals(molecule)
    homo, lumo = SIGMA, -SIGMA  # in units of beta, which is negative
    if orbitals:
        levels = np.linalg.eigvalsh(_matrix(molecule, orbitals))[::-1]
        n_occupied = sum(orbital.electrons for orbital in orbitals) // 2
        homo = min([homo, *levels[:n_occupied]])
        lumo = max([lumo, *levels[n_occupied:]])
    return ALPHA_EV + BETA_EV * homo, ALPHA_EV + BETA_EV * lumo


@dataclass(frozen=True)
class PiOrbital:
    """A pi orbital.

    Parameters
    ----------
    atom
        Index of its atom.
    electrons
        Number of electrons that the atom gives.
    partner
        Index of the only atom that it couples with, of an atom with two double bonds; otherwise
        None.
    """

    atom: int
    electrons: int
    partner: int | None = None


def pi_orbitals(molecule: Any) -> list[PiOrbital]:
    """Return the pi orbitals of an RDKit molecule.

    An atom with two double bonds, such as the carbon atom of carbon dioxide, has an orbital for
    each of them, because the two are perpendicular. Any other atom has at most one.

    Examples
    --------
    >>> from rdkit.Chem import MolFromSmiles
    >>> [orbital.electrons for orbital in pi_orbitals(MolFromSmiles("c1cc[nH]c1"))]
    [1, 1, 1, 2, 1]
    """
    atoms = list(molecule.GetAtoms())
    in_bonds = {
        atom.GetIdx() for atom in atoms if _multiple_bonds(atom) and not _is_hypervalent(atom)
    }
    orbitals: list[PiOrbital] = []
    for atom in atoms:
        index = atom.GetIdx()
        is_conjugated = any(neighbour.GetIdx() in in_bonds for neighbour in atom.GetNeighbors())
        if index in in_bonds and len(_double_bonds(atom)) >= 2:
            orbitals += [
                PiOrbital(index, 1, partner=bond.GetOtherAtomIdx(index))
                for bond in _double_bonds(atom)
            ]
        elif index in in_bonds:
            orbitals.append(PiOrbital(index, _of_unsaturated(atom)))
        elif _is_hypervalent(atom):
            continue
        elif _has_lone_pair(atom):
            orbitals.append(PiOrbital(index, 2))
        elif is_conjugated and _has_empty_orbital(atom):
            orbitals.append(PiOrbital(index, 0))
    return orbitals


def _multiple_bonds(atom: Any) -> list[Any]:
    """Return the double, triple and aromatic bonds of an atom."""
    return [bond for bond in atom.GetBonds() if bond.GetBondTypeAsDouble() > 1.0]


def _double_bonds(atom: Any) -> list[Any]:
    return [bond for bond in atom.GetBonds() if bond.GetBondTypeAsDouble() == 2.0]


def _is_hypervalent(atom: Any) -> bool:
    """Return whether an atom has no pi orbital in spite of double bonds, as in a sulfone.

    Those double bonds are single bonds between charges: S(2+) and O(-).
    """
    return bool(
        atom.GetAtomicNum() in (_P, _S, _AS, _SE)
        and atom.GetTotalDegree() >= 4
        and _double_bonds(atom)
    )


def _of_unsaturated(atom: Any) -> int:
    """Return the number of electrons of an atom with a double, triple or aromatic bond."""
    partners = [bond.GetOtherAtom(atom) for bond in _multiple_bonds(atom)]
    if all(_is_hypervalent(partner) for partner in partners):
        return 2  # The other end of such a bond is a negative charge: a lone pair.
    number = atom.GetAtomicNum()
    degree = atom.GetTotalDegree()
    charge = atom.GetFormalCharge()
    if number == _C:
        # At the end of a triple bond, as in carbon monoxide, the charge is in a sigma orbital.
        return 1 if degree == 1 else 1 - int(charge)
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
    if number == _C:
        return bool(atom.GetFormalCharge() < 0)
    has_few_neighbours = atom.GetTotalDegree() <= _LONE_PAIR_NEIGHBOURS.get(number, -1)
    return bool(has_few_neighbours) and int(atom.GetFormalCharge()) <= 0


def _has_empty_orbital(atom: Any) -> bool:
    """Return whether an atom with three neighbours is boron, or carbon with a positive charge."""
    number = atom.GetAtomicNum()
    is_cation = number == _C and atom.GetFormalCharge() > 0
    return bool((number == _B or is_cation) and atom.GetTotalDegree() == 3)


def _matrix(molecule: Any, orbitals: list[PiOrbital]) -> Floats:
    """Return Hückel's matrix (n, n) of the orbitals, in units of beta."""
    matrix = np.zeros((len(orbitals), len(orbitals)))
    factors = np.empty(len(orbitals))
    for row, orbital in enumerate(orbitals):
        atom = molecule.GetAtomWithIdx(orbital.atom)
        parameters = PARAMETERS.get(orbital.electrons, {})
        h, factors[row] = parameters.get(atom.GetAtomicNum(), OTHER)
        charge = atom.GetFormalCharge()
        shift = POSITIVE_SHIFT * charge
        if orbital.electrons == 2:
            shift = NEGATIVE_SHIFT * max(-charge, 0)
        matrix[row, row] = h + shift
    for i, one in enumerate(orbitals):
        for j, other in enumerate(orbitals[:i]):
            is_bonded = molecule.GetBondBetweenAtoms(one.atom, other.atom) is not None
            is_parallel = one.partner in (None, other.atom) and other.partner in (None, one.atom)
            if is_bonded and is_parallel:
                matrix[i, j] = matrix[j, i] = factors[i] * factors[j]
    return matrix

"""Find the molecules of a crystal, those inside a framework too, and their charges.

Bonds are found by distance. Bonds to metals are not counted, so that the organic ions of a hybrid
perovskite and the linkers of a metal-organic framework are molecules too. A group of atoms that is
bonded to its own periodic images is a network, not a molecule.

Structure files do not contain charges. The charge of a molecule is counted from its atoms by their
numbers of neighbours, as in `structures.zwitterions`.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from ase import Atoms
from ase.data import atomic_numbers, covalent_radii
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.structures.bonds import BOND
from bandgap.structures.neighbours import close_vectors_of

# fmt: off
NON_METALS: Final = (
    "H", "He", "B", "C", "N", "O", "F", "Ne", "Si", "P", "S", "Cl", "Ar", "Ge", "As", "Se", "Br",
    "Kr", "Te", "I", "Xe",
)
# fmt: on
H, C, N, O, P, S = 1, 6, 7, 8, 15, 16  # noqa: E741 - element symbols
AS, SE, TE = 33, 34, 52
# Elements that are counted as another one of their group.
_COUNTED_AS: Final = {AS: P, SE: S}
# Charge of an atom with this many terminal atoms of O or S: acids without their protons.
ACID_CHARGES: Final = {
    (C, 2): -1,
    (C, 3): -2,
    (N, 3): -1,
    (S, 3): -1,
    (S, 4): -2,
    (P, 2): -1,
    (P, 3): -2,
    (P, 4): -3,
}
# Two positions of one atom that differ by more are those of two images.
_IMAGE_ANGSTROM: Final = 0.1

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Fragment:
    """A molecule of a crystal, not cut by the cell.

    Attributes
    ----------
    numbers
        Atomic numbers (n,).
    positions
        Positions (n, 3) in angstrom.
    """

    numbers: NDArray[np.int64]
    positions: Floats


def fragments(atoms: Atoms) -> list[Fragment]:
    """Return the molecules with carbon of a structure, or those without if none has carbon.

    Single atoms and networks of bonds are left out.
    """
    numbers = np.asarray(atoms.numbers)
    is_metal = ~np.isin(numbers, [atomic_numbers[symbol] for symbol in NON_METALS])
    molecules = [
        Fragment(numbers[members], positions)
        for members, positions in _groups(atoms, is_metal)
        if len(members) > 1
    ]
    with_carbon = [molecule for molecule in molecules if C in molecule.numbers]
    return with_carbon or molecules


def formal_charge(molecule: Fragment) -> int:
    """Return the charge of a molecule in e, with which its number of electrons is even.

    Counted are ammonium, phosphonium and arsonium (+1), oxonium and sulfonium (+1), guanidinium,
    amidinium and imidazolium (+1), and acids that lack protons (`ACID_CHARGES`). If the number
    of electrons is then odd, a molecule with a nitrogen atom of three neighbours has one electron
    less, such as pyridinium, and any other molecule has one more, such as thiocyanate.
    """
    numbers = molecule.numbers.tolist()
    neighbours = _neighbours(molecule)
    charge = sum(_atom_charge(atom, numbers, neighbours) for atom in range(len(numbers)))
    if (sum(numbers) - charge) % 2 == 0:
        return charge
    lacks_electron = any(
        number == N and len(around) == 3 for number, around in zip(numbers, neighbours, strict=True)
    )
    return charge + 1 if lacks_electron else charge - 1


def _atom_charge(atom: int, numbers: list[int], neighbours: list[list[int]]) -> int:
    """Return the charge of a group that is centred on this atom, 0 if it is no such group."""
    around = neighbours[atom]
    number = _COUNTED_AS.get(numbers[atom], numbers[atom])
    n_terminal = sum(numbers[k] in (O, S) and len(neighbours[k]) == 1 for k in around)
    if number in (N, P) and len(around) == 4:
        return 1 if n_terminal == 0 else ACID_CHARGES.get((number, n_terminal), 0)
    if number == C and len(around) == 3:
        amines = [k for k in around if numbers[k] == N and len(neighbours[k]) == 3]
        remaining = [k for k in around if k not in amines]
        is_saturated = all(numbers[k] == H or len(neighbours[k]) == 4 for k in remaining)
        if len(amines) == 3 or (len(amines) == 2 and is_saturated):
            return 1
    if number in (O, S, TE) and len(around) == 3 and all(numbers[k] in (H, C) for k in around):
        return 1
    if number == C and len(around) == 2:  # carbon dioxide, not a carboxylate
        return 0
    return ACID_CHARGES.get((number, n_terminal), 0)


def _neighbours(molecule: Fragment) -> list[list[int]]:
    radii = BOND * covalent_radii[molecule.numbers]
    distances = cdist(molecule.positions, molecule.positions)
    bonded = distances < radii[:, None] + radii
    np.fill_diagonal(bonded, False)
    return [np.flatnonzero(row).tolist() for row in bonded]


def _groups(atoms: Atoms, is_metal: NDArray[np.bool_]) -> list[tuple[NDArray[np.int64], Floats]]:
    """Return atoms (n,) and positions (n, 3) of each finite group of bonded atoms."""
    neighbours = _bonds(atoms, is_metal)
    positions = np.asarray(atoms.positions, dtype=np.float64)
    placed: dict[int, Floats] = {}
    groups = []
    for first in np.flatnonzero(~is_metal).tolist():
        if first in placed:
            continue
        placed[first] = positions[first]
        members = [first]
        is_finite = True
        for atom in members:  # grows while it is visited
            for neighbour, vector in neighbours[atom]:
                position = placed[atom] + vector
                if neighbour not in placed:
                    placed[neighbour] = position
                    members.append(neighbour)
                elif np.abs(placed[neighbour] - position).max() > _IMAGE_ANGSTROM:
                    is_finite = False
        if is_finite:
            members.sort()
            groups.append((np.array(members), np.array([placed[atom] for atom in members])))
    return groups


def _bonds(atoms: Atoms, is_metal: NDArray[np.bool_]) -> list[list[tuple[int, Floats]]]:
    """Return for every atom its bonded atoms and the vectors to them; metals have no bonds."""
    radii = BOND * covalent_radii[np.asarray(atoms.numbers)]
    largest = float(radii[~is_metal].max(initial=0.0))
    neighbours: list[list[tuple[int, Floats]]] = [[] for _ in range(len(atoms))]
    i, j, vectors = close_vectors_of(atoms, 2.0 * max(largest, 0.1))
    lengths = np.linalg.norm(vectors, axis=1)
    bonded = (lengths < radii[i] + radii[j]) & ~is_metal[i] & ~is_metal[j]
    for a, b, vector in zip(i[bonded].tolist(), j[bonded].tolist(), vectors[bonded], strict=True):
        neighbours[a].append((b, vector))
        neighbours[b].append((a, -vector))
    return neighbours

"""Compute the neutral form of zwitterions and salts: protons move from nitrogen back to the acid.

Data sets of molecules in the gas phase contain almost no ions, but amino acids and similar
molecules crystallise as zwitterions. The descriptor of a charged geometry is far from the training
data of a source network, the descriptor of the neutral tautomer is not. The field of the crystal
stabilises the charges, so that its gap is close to the gap of the neutral form.

Bonds are found by distance, and atoms are classified by their number of bonds. These groups have a
proton to give:

- ammonium: N with four neighbours,
- guanidinium: C with three N, which have three neighbours each,
- amidinium or imidazolium: C with three neighbours, of which two are such N, and the third is
  hydrogen or a carbon with four neighbours.

These groups are acids that lack a proton, where a terminal atom has one neighbour:

- C with three neighbours, of which two are terminal O or S,
- S with four neighbours, of which three are terminal O,
- P with four neighbours, of which two are terminal O.
"""

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.structures.bonds import bonds

H, C, N, O, P, S = 1, 6, 7, 8, 15, 16  # noqa: E741 - element symbols
HYDROGEN_BOND = 2.2  # angstrom; a closer proton moves along its hydrogen bond
LENGTH = {O: 0.97, S: 1.34}  # angstrom, of the bond to hydrogen
ANGLE = {O: 106.0, S: 95.0}  # degrees, at the atom that takes the hydrogen

Neighbours = list[list[int]]
Vector = NDArray[np.float64]


def neutral_form(atoms: Atoms) -> Atoms:
    """Return the neutral form of a structure, or `atoms` itself if no proton can move.

    Protons move one at a time, the one closest to an acid first. A proton is placed along its
    hydrogen bond. Without a hydrogen bond it is placed in the plane of the acid, on the side of the
    other oxygen.
    """
    numbers = np.asarray(atoms.numbers)
    if not (np.isin(numbers, (O, S)).any() and (numbers == N).any() and (numbers == H).any()):
        return atoms
    neutral = atoms
    for _ in range(len(atoms)):  # each step neutralises one acid
        neighbours = _neighbours(neutral)
        pairs = [
            (h, acid, o)
            for h in _protons(numbers, neighbours)
            for acid, o in _acids(numbers, neighbours)
        ]
        if not pairs:
            break
        if neutral is atoms:
            neutral = atoms.copy()  # type: ignore[no-untyped-call]
        lengths = [float(np.linalg.norm(_vector(neutral, o, h))) for h, _, o in pairs]
        h, acid, o = pairs[int(np.argmin(lengths))]
        neutral.positions[h] = neutral.positions[o] + _to_hydrogen(
            neutral, h, acid, o, neighbours=neighbours
        )
    return neutral


def _neighbours(atoms: Atoms) -> Neighbours:
    neighbours: Neighbours = [[] for _ in range(len(atoms))]
    for i, j in zip(*bonds(atoms), strict=True):
        neighbours[i].append(int(j))
        neighbours[j].append(int(i))
    return neighbours


def _protons(numbers: NDArray[np.int64], neighbours: Neighbours) -> list[int]:
    """Return the hydrogen atoms that a positive nitrogen atom can give."""

    def has_three_neighbours(n: int) -> bool:
        return bool(numbers[n] == N) and len(neighbours[n]) == 3

    donors = {n for n in np.flatnonzero(numbers == N).tolist() if len(neighbours[n]) == 4}
    for c in np.flatnonzero(numbers == C).tolist():
        nitrogens = [n for n in neighbours[c] if has_three_neighbours(n)]
        other_neighbours = [k for k in neighbours[c] if not has_three_neighbours(k)]
        saturated = all(
            numbers[k] == H or (numbers[k] == C and len(neighbours[k]) == 4)
            for k in other_neighbours
        )
        if len(neighbours[c]) == 3 and len(nitrogens) >= 2 and saturated:
            donors.update(nitrogens)
    return sorted(
        {h for n in donors for h in neighbours[n] if numbers[h] == H and len(neighbours[h]) == 1}
    )


def _acids(numbers: NDArray[np.int64], neighbours: Neighbours) -> list[tuple[int, int]]:
    """Return pairs of atoms of acids that lack a proton.

    A pair is the central atom of the acid, and a terminal atom that can take a proton.
    """
    acids = []
    for centre, n_neighbours, n_terminal, elements in (
        (C, 3, 2, (O, S)),
        (S, 4, 3, (O,)),
        (P, 4, 2, (O,)),
    ):
        for k in np.flatnonzero(numbers == centre).tolist():
            terminal = [
                o for o in neighbours[k] if numbers[o] in elements and len(neighbours[o]) == 1
            ]
            if len(neighbours[k]) == n_neighbours and len(terminal) >= n_terminal:
                acids += [(k, o) for o in terminal]
    return acids


def _to_hydrogen(atoms: Atoms, h: int, acid: int, o: int, *, neighbours: Neighbours) -> Vector:
    """Return the vector, angstrom, from the acid's atom `o` to the new position of hydrogen `h`."""
    numbers = np.asarray(atoms.numbers)
    element = int(numbers[o])
    to_proton = _vector(atoms, o, h)
    if np.linalg.norm(to_proton) < HYDROGEN_BOND:
        return LENGTH[element] * _unit(to_proton)
    inwards = _unit(_vector(atoms, o, acid))
    twin = next(
        k for k in neighbours[acid] if k != o and numbers[k] in LENGTH and len(neighbours[k]) == 1
    )
    aside = _vector(atoms, acid, twin)
    aside = _unit(aside - (aside @ inwards) * inwards)
    angle = np.deg2rad(ANGLE[element])
    vector: Vector = LENGTH[element] * (np.cos(angle) * inwards + np.sin(angle) * aside)
    return vector


def _vector(atoms: Atoms, i: int, j: int) -> Vector:
    """Return the vector, angstrom, from atom i to the nearest image of atom j."""
    vector = atoms.get_distance(i, j, mic=True, vector=True)  # type: ignore[no-untyped-call]
    return np.asarray(vector, dtype=np.float64)


def _unit(vector: Vector) -> Vector:
    result: Vector = vector / np.linalg.norm(vector)
    return result

"""Zwitterions and salts in their neutral form: protons moved from nitrogen back to the acid that lost them.

Data sets of molecules in the gas phase hold next to no ions, while amino acids and their like crystallise as
zwitterions. A descriptor of the charged geometry lies far from all that a source network has seen; that of the neutral
tautomer does not, and the gap of the crystal, whose field stabilises the charges, is close to it.

Bonds are found by distance. An atom N has a proton to give in an ammonium group (four neighbours), in guanidinium (a
carbon with three N of three neighbours each), and in amidinium or imidazolium (a carbon with three neighbours: two such
N, and hydrogen or a carbon with four neighbours). An acid without its proton is a C with three neighbours, two of them
O or S without any other neighbour; an S with four neighbours, three of them such O; a P with four neighbours, two of
them such O.
"""

import numpy as np
from ase import Atoms
from numpy.typing import NDArray

from bandgap.structures.bonds import bonds

H, C, N, O, P, S = 1, 6, 7, 8, 15, 16  # noqa: E741 - symbols of elements
HYDROGEN_BOND = 2.2  # angstrom: a proton this close to its acid moves along that line
LENGTH = {O: 0.97, S: 1.34}  # angstrom, to hydrogen
ANGLE = {O: 106.0, S: 95.0}  # degrees, of the acid's hydrogen

Neighbours = list[list[int]]
Vector = NDArray[np.float64]


def neutral_form(atoms: Atoms) -> Atoms:
    """Return the neutral form of a structure: `atoms` itself where no acid lacks a proton that a base has too many.

    One proton at a time moves, the one nearest to an acid first. It is placed along its hydrogen bond, or, where there
    is none, in the plane of the acid on the side of its other oxygen.
    """
    numbers = np.asarray(atoms.numbers)
    if not (np.isin(numbers, (O, S)).any() and (numbers == N).any() and (numbers == H).any()):
        return atoms
    moved = atoms
    for _ in range(len(atoms)):  # every turn takes one acid away
        near = _neighbours(moved)
        pairs = [(h, acid, o) for h in _protons(numbers, near) for acid, o in _acids(numbers, near)]
        if not pairs:
            break
        if moved is atoms:
            moved = atoms.copy()  # type: ignore[no-untyped-call]
        lengths = [float(np.linalg.norm(_vector(moved, o, h))) for h, _, o in pairs]
        h, acid, o = pairs[int(np.argmin(lengths))]
        moved.positions[h] = moved.positions[o] + _to_hydrogen(moved, h, acid, o, near=near)
    return moved


def _neighbours(atoms: Atoms) -> Neighbours:
    near: Neighbours = [[] for _ in range(len(atoms))]
    for i, j in zip(*bonds(atoms), strict=True):
        near[i].append(int(j))
        near[j].append(int(i))
    return near


def _protons(numbers: NDArray[np.int64], near: Neighbours) -> list[int]:
    """Return the hydrogen atoms that a positive nitrogen can give."""

    def full(n: int) -> bool:
        return bool(numbers[n] == N) and len(near[n]) == 3

    givers = {n for n in np.flatnonzero(numbers == N).tolist() if len(near[n]) == 4}
    for c in np.flatnonzero(numbers == C).tolist():
        nitrogens = [n for n in near[c] if full(n)]
        others = [k for k in near[c] if not full(k)]
        saturated = all(numbers[k] == H or (numbers[k] == C and len(near[k]) == 4) for k in others)
        if len(near[c]) == 3 and len(nitrogens) >= 2 and saturated:
            givers.update(nitrogens)
    return sorted({h for n in givers for h in near[n] if numbers[h] == H and len(near[h]) == 1})


def _acids(numbers: NDArray[np.int64], near: Neighbours) -> list[tuple[int, int]]:
    """Return the central atom of every acid that lacks a proton, with each of its atoms that can take one."""
    acids = []
    for centre, ends, needed, elements in ((C, 3, 2, (O, S)), (S, 4, 3, (O,)), (P, 4, 2, (O,))):
        for k in np.flatnonzero(numbers == centre).tolist():
            terminal = [o for o in near[k] if numbers[o] in elements and len(near[o]) == 1]
            if len(near[k]) == ends and len(terminal) >= needed:
                acids += [(k, o) for o in terminal]
    return acids


def _to_hydrogen(atoms: Atoms, h: int, acid: int, o: int, *, near: Neighbours) -> Vector:
    """Return the vector from the acid's atom `o` to the place where it takes hydrogen `h`, in angstroms."""
    numbers = np.asarray(atoms.numbers)
    element = int(numbers[o])
    along = _vector(atoms, o, h)
    if np.linalg.norm(along) < HYDROGEN_BOND:
        return LENGTH[element] * _unit(along)
    inwards = _unit(_vector(atoms, o, acid))
    twin = next(k for k in near[acid] if k != o and numbers[k] in LENGTH and len(near[k]) == 1)
    aside = _vector(atoms, acid, twin)
    aside = _unit(aside - (aside @ inwards) * inwards)
    angle = np.deg2rad(ANGLE[element])
    there: Vector = LENGTH[element] * (np.cos(angle) * inwards + np.sin(angle) * aside)
    return there


def _vector(atoms: Atoms, i: int, j: int) -> Vector:
    """Return the vector from atom i to the nearest image of atom j, in angstroms."""
    result: Vector = np.asarray(atoms.get_distance(i, j, mic=True, vector=True))  # type: ignore[no-untyped-call]
    return result


def _unit(vector: Vector) -> Vector:
    result: Vector = vector / np.linalg.norm(vector)
    return result

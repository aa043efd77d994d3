"""Lattice energy of a rigid molecule and its symmetry images, and its derivatives.

The potential is Lennard-Jones with OPLS-AA radii and depths (Jorgensen, Maxwell, Tirado-Rives, J.
Am. Chem. Soc. 118, 11225 (1996); geometric means) plus a screened Coulomb sum over given charges.

In the standard settings of the five space groups used here, each operator is a diagonal matrix D in
Cartesian coordinates for any cell. The image of p is D p + t L with t fractional and L the rows of
the cell, so that derivatives with respect to orientation, centre and cell are short.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import erfc

from bandgap.structures.neighbours import heights
from data.making.contacts import VDW_RADII, Floats

# Operators (diagonal, translation) of the general position.
_E: Final = ((1, 1, 1), (0.0, 0.0, 0.0))
_INVERSE: Final = ((-1, -1, -1), (0.0, 0.0, 0.0))
Operator = tuple[tuple[int, int, int], tuple[float, float, float]]
SPACE_GROUPS: Final[dict[str, tuple[Operator, ...]]] = {
    "P1": (_E,),
    "P-1": (_E, _INVERSE),
    "P21": (_E, ((-1, 1, -1), (0.0, 0.5, 0.0))),
    "P21/c": (_E, _INVERSE, ((-1, 1, -1), (0.0, 0.5, 0.5)), ((1, -1, 1), (0.0, 0.5, 0.5))),
    "P212121": (
        _E,
        ((-1, -1, 1), (0.5, 0.0, 0.5)),
        ((-1, 1, -1), (0.0, 0.5, 0.5)),
        ((1, -1, -1), (0.5, 0.5, 0.0)),
    ),
}
# Entries (row, column) of L that are free; all others are zero.
_TRICLINIC: Final = ((0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2))
_MONOCLINIC: Final = ((0, 0), (1, 1), (2, 0), (2, 2))
FREE_ENTRIES: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "P1": _TRICLINIC,
    "P-1": _TRICLINIC,
    "P21": _MONOCLINIC,
    "P21/c": _MONOCLINIC,
    "P212121": ((0, 0), (1, 1), (2, 2)),
}
# By atomic number, in Angstrom and in kcal/mol.
_SIGMA: Final = {1: 2.42, 6: 3.55, 7: 3.25, 8: 2.96, 9: 2.94, 16: 3.55, 17: 3.40}
_EPSILON: Final = {1: 0.030, 6: 0.070, 7: 0.170, 8: 0.210, 9: 0.061, 16: 0.250, 17: 0.300}
_COULOMB: Final = 332.0637  # kcal/mol Angstrom / e^2
_SCREENING: Final = 0.25  # 1/Angstrom, the a of the damping erfc(a r)
# The potential is switched to zero over _SWITCH_ANGSTROM, and is zero within _SKIN_ANGSTROM of the
# limit of the list of pairs.
_SKIN_ANGSTROM: Final = 0.5
_SWITCH_ANGSTROM: Final = 1.5
# A stiff wall at this share of the sum of van-der-Waals radii keeps contacts above 0.80.
_FLOOR: Final = 0.83
_WALL: Final = 400.0  # kcal/mol/Angstrom^2


@dataclass(frozen=True, eq=False)
class RigidMolecule:
    """Centred positions (n, 3) in Angstrom, and parameters of the pair potentials per atom."""

    shape: Floats
    sigma: Floats
    epsilon: Floats
    charges: Floats
    radii: Floats


@dataclass(frozen=True, eq=False)
class Placement:
    """Quaternion (4,) of any length, fractional centre (3,), lower triangular cell (3, 3).

    The rows of the cell are lattice vectors.
    """

    quaternion: Floats
    centre: Floats
    cell: Floats


@dataclass(frozen=True, eq=False)
class Pairs:
    """Atom pairs (i, image of j) of the central molecule and its images, and their parameters.

    An operator and its inverse give the same distances, so only one of the two is listed. `weight`
    is the factor of a pair in the energy per molecule.
    """

    i: NDArray[np.int64]
    j: NDArray[np.int64]
    diagonal: Floats  # (pair, 3)
    shift: Floats  # (pair, 3) fractional
    weight: Floats
    sigma6: Floats
    depth: Floats
    charge: Floats
    radii: Floats  # sum of the two van-der-Waals radii
    reach: float  # largest distance of the list, Angstrom


# Returns energies and dE/dr of pairs at given distances.
Potential = Callable[[Pairs, Floats], tuple[Floats, Floats]]


def rigid_molecule(numbers: NDArray[np.int64], shape: Floats, charges: Floats) -> RigidMolecule:
    """Return a molecule with the parameters of its elements."""

    def table(values: dict[int, float]) -> Floats:
        return np.array([values[int(z)] for z in numbers])

    return RigidMolecule(shape, table(_SIGMA), table(_EPSILON), charges, table(VDW_RADII))


def lattice_energy(
    molecule: RigidMolecule, placement: Placement, pairs: Pairs, potential: Potential
) -> tuple[float, Floats, Floats, Floats]:
    """Return the energy per molecule in kcal/mol and its derivatives.

    Derivatives are with respect to quaternion, fractional centre and cell.
    """
    turn, d_turn = rotation(placement.quaternion)
    positions = molecule.shape @ turn.T + placement.centre @ placement.cell
    separation = (
        positions[pairs.i] - pairs.diagonal * positions[pairs.j] - pairs.shift @ placement.cell
    )
    distance = np.sqrt(np.einsum("px,px->p", separation, separation))
    energies, slopes = potential(pairs, distance)
    force = (pairs.weight * slopes / distance)[:, None] * separation
    n = len(positions)
    d_positions = _scatter(pairs.i, force, n) - _scatter(pairs.j, pairs.diagonal * force, n)
    d_centre = d_positions.sum(axis=0)
    d_cell = np.outer(placement.centre, d_centre) - pairs.shift.T @ force
    d_quaternion = np.einsum("ab,kab->k", d_positions.T @ molecule.shape, d_turn)
    return float(pairs.weight @ energies), d_quaternion, placement.cell @ d_centre, d_cell


def soft_repulsion(pairs: Pairs, distance: Floats) -> tuple[Floats, Floats]:
    """Return a harmonic repulsion below 0.97 of the van-der-Waals sum, for poor starts."""
    overlap = np.maximum(0.0, 0.97 * pairs.radii - distance)
    return 10.0 * overlap**2, -20.0 * overlap


def full_potential(pairs: Pairs, distance: Floats) -> tuple[Floats, Floats]:
    """Return Lennard-Jones, screened Coulomb and the wall at `_FLOOR` of the van-der-Waals sum."""
    floor = _FLOOR * pairs.radii
    overlap = np.maximum(0.0, floor - distance)
    # The energy is linear in the distance below this r.
    r = np.maximum(distance, 0.8 * floor)
    six = pairs.sigma6 / r**6
    screened = pairs.charge * erfc(_SCREENING * r) / r
    gauss = (2.0 * _SCREENING / np.sqrt(np.pi)) * pairs.charge * np.exp(-((_SCREENING * r) ** 2))
    slope = (pairs.depth * (6.0 - 12.0 * six) * six - screened - gauss) / r
    energy = pairs.depth * (six - 1.0) * six + screened + slope * (distance - r)
    u = np.clip((pairs.reach - _SKIN_ANGSTROM - distance) / _SWITCH_ANGSTROM, 0.0, 1.0)
    switch = u * u * (3.0 - 2.0 * u)
    d_switch = 6.0 * u * (u - 1.0) / _SWITCH_ANGSTROM
    slope = slope * switch + energy * d_switch
    energy = energy * switch
    return energy + 0.5 * _WALL * overlap**2, slope - _WALL * overlap


def rotation(q: Floats) -> tuple[Floats, Floats]:
    """Return the rotation matrix of a quaternion of any length, and its derivatives (4, 3, 3)."""
    w, x, y, z = q
    scaled = np.array(
        [
            [w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z],
        ]
    )
    d_scaled = 2.0 * np.array(
        [
            [[w, -z, y], [z, w, -x], [-y, x, w]],
            [[x, y, z], [y, -x, -w], [z, w, -x]],
            [[-y, x, w], [x, y, z], [-w, z, -y]],
            [[-z, -w, x], [w, -z, y], [x, y, z]],
        ]
    )
    square = float(q @ q)
    turn = scaled / square
    return turn, d_scaled / square - 2.0 * q[:, None, None] / square * turn


def neighbours(
    molecule: RigidMolecule, placement: Placement, space_group: str, *, reach: float
) -> Pairs:
    """Return all pairs of the central molecule and its images within `reach` Angstrom."""
    positions = (
        molecule.shape @ rotation(placement.quaternion)[0].T + placement.centre @ placement.cell
    )
    parts = [
        _pairs_of_operator(
            positions,
            placement.cell,
            np.array(signs, dtype=np.float64),
            np.array(translation),
            reach=reach,
        )
        for signs, translation in SPACE_GROUPS[space_group]
    ]
    i, j, diagonal, shift, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Pairs(
        i,
        j,
        diagonal,
        shift,
        weight,
        sigma6=(molecule.sigma[i] * molecule.sigma[j]) ** 3,
        depth=4.0 * np.sqrt(molecule.epsilon[i] * molecule.epsilon[j]),
        charge=_COULOMB * molecule.charges[i] * molecule.charges[j],
        radii=molecule.radii[i] + molecule.radii[j],
        reach=reach,
    )


def _pairs_of_operator(
    positions: Floats, cell: Floats, diagonal: Floats, translation: Floats, *, reach: float
) -> tuple[Any, ...]:
    """Return i, j, D, t and weight of pairs with the images D p + (translation + integers) L."""
    centre = positions.mean(axis=0)
    far = 2.0 * float(np.linalg.norm(positions - centre, axis=1).max()) + reach
    spans = np.ceil(far / heights(cell)).astype(int) + 1
    grid = np.stack(
        np.meshgrid(*(np.arange(-s, s + 1) for s in spans), indexing="ij"), axis=-1
    ).reshape(-1, 3)
    shifts = grid + translation - np.round((centre * diagonal - centre) @ np.linalg.inv(cell))
    near = np.linalg.norm(centre * diagonal + shifts @ cell - centre, axis=1) < far
    order = _sign_against_inverse(shifts, diagonal)
    itself = (diagonal == 1.0).all() & (np.abs(shifts).max(axis=1) < 0.25)
    keep = near & (order >= 0) & ~itself
    shifts = shifts[keep]
    order = order[keep]
    images = ((positions * diagonal)[None] + (shifts @ cell)[:, None]).reshape(-1, 3)
    i, flat = np.nonzero(cdist(positions, images, "sqeuclidean") < reach**2)
    j = flat % len(positions)
    which = flat // len(positions)
    # An operator that is its own inverse (order 0) lists each pair twice, as (i, j) and (j, i).
    weight = np.where(order[which] > 0, 1.0, 0.5)
    return i, j, np.broadcast_to(diagonal, (len(i), 3)), shifts[which], weight


def _sign_against_inverse(shifts: Floats, diagonal: Floats) -> NDArray[np.int64]:
    """Return +1 for one of (D, t) and its inverse (D, -D t), -1 for the other, 0 if equal."""
    difference = np.round(shifts + diagonal * shifts, 6)  # t - (-D t)
    sign = np.sign(difference).astype(np.int64)
    return np.where(sign[:, 0] != 0, sign[:, 0], np.where(sign[:, 1] != 0, sign[:, 1], sign[:, 2]))


def _scatter(index: NDArray[np.int64], values: Floats, n: int) -> Floats:
    return np.stack(
        [np.bincount(index, weights=values[:, axis], minlength=n) for axis in range(3)], axis=1
    )

"""Pack one rigid molecule into a crystal: random starts, rigid-body minimisation of cell, place and orientation.

Each start is first squeezed with a soft repulsion, then relaxed on the lattice energy (`lattice_energy.py`) with a
short reach; the best two are relaxed with the full reach. Between rounds all variables are rounded, so that the last
bits of one machine's arithmetic do not lead to another minimum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from bandgap.structures.neighbours import heights
from data.making.contacts import DECIMALS, Floats, closest_contact
from data.making.lattice_energy import (
    FREE_ENTRIES,
    SPACE_GROUPS,
    Pairs,
    Placement,
    Potential,
    RigidMolecule,
    full_potential,
    lattice_energy,
    neighbours,
    rigid_molecule,
    rotation,
    soft_repulsion,
)

MIN_CONTACT: Final = 0.80  # of the van-der-Waals sum
_REFINED: Final = 2  # starts that are relaxed to the end
_NARROWEST_ANGSTROM: Final = 3.0
_LOOSE, _DENSE, _COLLAPSED = (
    2.0,
    0.62,
    0.52,
)  # volume per molecule over the sum of its atoms' spheres
_CONVERGED: Final = 1e-4  # kcal/mol between two rounds
_SNAP_DECIMALS: Final = 6
_FRACTION_SCALE: Final = (
    10.0  # brings fractional coordinates to the size of the cell's entries for the minimiser
)


@dataclass(frozen=True)
class _Stage:
    """A number of rounds of at most `steps` steps; the list of pairs within `reach` is made anew in each."""

    potential: Potential
    reach: float
    squeeze: float
    rounds: int
    steps: int


_SQUEEZE: Final = _Stage(soft_repulsion, reach=6.0, squeeze=2.0, rounds=2, steps=25)
_ROUGH: Final = _Stage(full_potential, reach=7.0, squeeze=0.0, rounds=3, steps=20)
_FINE: Final = _Stage(full_potential, reach=9.0, squeeze=0.0, rounds=16, steps=40)


@dataclass(frozen=True, eq=False)
class Packed:
    """A crystal: whole molecules in blocks of the molecule's n atoms; energy in kcal/mol per molecule."""

    space_group: str
    positions: Floats  # (Z n, 3) Angstrom
    cell: Floats  # (3, 3) rows
    energy: float
    contact: float  # shortest intermolecular distance over the sum of the van-der-Waals radii


def pack(
    numbers: NDArray[np.int64],
    shape: Floats,
    *,
    charges: Floats,
    space_group: str,
    starts: Sequence[np.random.Generator],
) -> Packed | None:
    """Return the lowest minimum found from random starts, or None where molecules touch in all of them.

    `shape` (n, 3) is centred, in Angstrom; `charges` (n,) in e. Positions and cell come back rounded as shipped.
    """
    molecule = rigid_molecule(numbers, shape, charges)
    rough: list[tuple[float, Placement]] = []
    for rng in starts:
        squeezed, _ = _relax(molecule, _start(molecule, space_group, rng), space_group, _SQUEEZE)
        if not _sound(molecule, squeezed, space_group):
            continue
        at, energy = _relax(molecule, squeezed, space_group, _ROUGH)
        if _sound(molecule, at, space_group):
            rough.append((energy, at))
    found: list[Packed] = []
    for _, begin in sorted(rough, key=lambda pair: pair[0]):
        at, energy = _relax(molecule, begin, space_group, _FINE)
        if not _sound(molecule, at, space_group):
            continue
        crystal = _crystal(numbers, molecule, at, space_group=space_group, energy=energy)
        if crystal.contact >= MIN_CONTACT:
            found.append(crystal)
        if len(found) == _REFINED:
            break
    return min(found, key=lambda p: round(p.energy, 3)) if found else None


def _start(molecule: RigidMolecule, space_group: str, rng: np.random.Generator) -> Placement:
    """Return a random orientation and centre in a loose cell of random proportions."""
    volume = _LOOSE * len(SPACE_GROUPS[space_group]) * _DENSE * _spheres(molecule)
    edges = np.exp(rng.normal(0.0, 0.35, 3))
    edges *= (volume / edges.prod()) ** (1.0 / 3.0)
    cell = np.diag(edges)
    for row, column in FREE_ENTRIES[space_group]:
        if row != column:
            cell[row, column] = rng.uniform(-0.25, 0.25) * edges[column]
    return Placement(rng.normal(size=4), rng.uniform(0.0, 1.0, 3), cell)


def _relax(
    molecule: RigidMolecule, at: Placement, space_group: str, stage: _Stage
) -> tuple[Placement, float]:
    """Minimise the energy plus `squeeze` times (V - V0)^2 / V0 where the volume per molecule V is above a dense V0."""
    free = FREE_ENTRIES[space_group]
    rows, columns = (np.array(a) for a in zip(*free, strict=True))
    z, dense = len(SPACE_GROUPS[space_group]), _DENSE * _spheres(molecule)
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 7 + [
        (2.5 if r == c else None, None) for r, c in free
    ]
    value = np.inf
    for _ in range(stage.rounds):
        if heights(at.cell).min() < 0.5 * _NARROWEST_ANGSTROM:
            break
        pairs = neighbours(molecule, at, space_group, reach=stage.reach)

        def objective(x: Floats, pairs: Pairs = pairs) -> tuple[float, Floats]:
            here = _unpack(x, rows, columns)
            energy, d_quaternion, d_centre, d_cell = lattice_energy(
                molecule, here, pairs, stage.potential
            )
            volume = float(np.prod(np.diag(here.cell))) / z
            excess = max(0.0, volume - dense) / dense
            d_cell = d_cell + np.diag(2.0 * stage.squeeze * excess * volume / np.diag(here.cell))
            gradient = np.concatenate(
                [d_quaternion, d_centre / _FRACTION_SCALE, d_cell[rows, columns]]
            )
            return energy + stage.squeeze * excess**2 * dense, gradient

        to_minimise: Any = (
            objective  # scipy's stubs know no function that returns a value with its gradient
        )
        unit = at.quaternion / np.linalg.norm(at.quaternion)
        x0 = np.round(
            np.concatenate([unit, at.centre * _FRACTION_SCALE, at.cell[rows, columns]]),
            _SNAP_DECIMALS,
        )
        settings: Any = {"maxiter": stage.steps, "maxcor": 12}
        found: Any = minimize(
            to_minimise, x0, jac=True, method="L-BFGS-B", bounds=bounds, options=settings
        )
        previous, value = value, float(found.fun)
        at = _unpack(found.x, rows, columns)
        if abs(previous - value) < _CONVERGED:
            break
    return at, value


def _unpack(x: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Placement:
    cell = np.zeros((3, 3))
    cell[rows, columns] = x[7:]
    return Placement(x[:4], x[4:7] / _FRACTION_SCALE, cell)


def _sound(molecule: RigidMolecule, at: Placement, space_group: str) -> bool:
    """Return whether the cell is neither flat nor so small that molecules must have run into each other."""
    volume = float(np.prod(np.diag(at.cell))) / len(SPACE_GROUPS[space_group])
    wide = heights(at.cell).min() >= _NARROWEST_ANGSTROM
    return bool(wide and volume > _COLLAPSED * _spheres(molecule))


def _spheres(molecule: RigidMolecule) -> float:
    """Return the summed volume of the atoms' van-der-Waals spheres in cubic Angstrom."""
    return float((4.0 / 3.0 * np.pi * molecule.radii**3).sum())


def _crystal(
    numbers: NDArray[np.int64],
    molecule: RigidMolecule,
    at: Placement,
    *,
    space_group: str,
    energy: float,
) -> Packed:
    """Return all Z molecules, whole, each with its centre in the cell, rounded."""
    at = replace(at, cell=np.round(at.cell, DECIMALS) + 0.0)
    first = molecule.shape @ rotation(at.quaternion)[0].T + at.centre @ at.cell
    blocks = []
    for signs, translation in SPACE_GROUPS[space_group]:
        block = first * np.array(signs) + np.array(translation) @ at.cell
        inside = np.floor(np.round(block.mean(axis=0) @ np.linalg.inv(at.cell), DECIMALS))
        blocks.append(block - inside @ at.cell)
    positions = np.round(np.concatenate(blocks), DECIMALS) + 0.0
    contact = closest_contact(
        np.tile(numbers, len(blocks)), positions, at.cell, atoms_per_molecule=len(numbers)
    )
    return Packed(space_group, positions, at.cell, energy, contact)

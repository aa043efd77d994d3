"""Pack a rigid molecule into a crystal by minimising cell, centre and orientation.

Each random start is compressed with a soft repulsion, then relaxed on the lattice energy
(`lattice_energy.py`) with a short reach. The best two are relaxed with the full reach. All
variables are rounded between rounds, so that rounding errors of a machine do not lead to another
minimum.
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

MIN_CONTACT: Final = 0.80  # Relative to the sum of van-der-Waals radii.
_REFINED: Final = 2  # Number of starts that are relaxed with the full reach.
_NARROWEST_ANGSTROM: Final = 3.0
# Volume per molecule, relative to the summed volume of its atoms' spheres: of a dense crystal, and
# below which molecules overlap. A start has _LOOSE times the volume of a dense crystal.
_DENSE: Final = 0.62
_COLLAPSED: Final = 0.52
_LOOSE: Final = 2.0
_CONVERGED: Final = 1e-4  # Change of the energy between two rounds, kcal/mol.
_SNAP_DECIMALS: Final = 6
# Scales fractional coordinates to the size of the entries of the cell for the minimiser.
_FRACTION_SCALE: Final = 10.0


@dataclass(frozen=True)
class _Stage:
    """Rounds of at most `steps` steps; each round recomputes the list of pairs within `reach`."""

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
    """A crystal of whole molecules in blocks of n atoms; energy in kcal/mol per molecule."""

    space_group: str
    positions: Floats  # (Z n, 3) Angstrom
    cell: Floats  # (3, 3) rows
    energy: float
    contact: float  # smallest intermolecular distance over the sum of van-der-Waals radii


def pack(
    numbers: NDArray[np.int64],
    shape: Floats,
    *,
    charges: Floats,
    space_group: str,
    starts: Sequence[np.random.Generator],
) -> Packed | None:
    """Return the lowest minimum from random starts, or None if molecules touch in all minima.

    `shape` (n, 3) is centred, in Angstrom; `charges` (n,) are in e. Positions and cell of the
    result are rounded as they are shipped.
    """
    molecule = rigid_molecule(numbers, shape, charges)
    rough: list[tuple[float, Placement]] = []
    for rng in starts:
        squeezed, _ = _relax(molecule, _start(molecule, space_group, rng), space_group, _SQUEEZE)
        if not _is_plausible(molecule, squeezed, space_group):
            continue
        placement, energy = _relax(molecule, squeezed, space_group, _ROUGH)
        if _is_plausible(molecule, placement, space_group):
            rough.append((energy, placement))
    crystals: list[Packed] = []
    for _, start in sorted(rough, key=lambda pair: pair[0]):
        placement, energy = _relax(molecule, start, space_group, _FINE)
        if not _is_plausible(molecule, placement, space_group):
            continue
        crystal = _crystal(numbers, molecule, placement, space_group=space_group, energy=energy)
        if crystal.contact >= MIN_CONTACT:
            crystals.append(crystal)
        if len(crystals) == _REFINED:
            break
    return min(crystals, key=lambda p: round(p.energy, 3)) if crystals else None


def _start(molecule: RigidMolecule, space_group: str, rng: np.random.Generator) -> Placement:
    """Return a random orientation and centre in a large cell of random proportions."""
    volume = _LOOSE * len(SPACE_GROUPS[space_group]) * _DENSE * _spheres(molecule)
    edges = np.exp(rng.normal(0.0, 0.35, 3))
    edges *= (volume / edges.prod()) ** (1.0 / 3.0)
    cell = np.diag(edges)
    for row, column in FREE_ENTRIES[space_group]:
        if row != column:
            cell[row, column] = rng.uniform(-0.25, 0.25) * edges[column]
    return Placement(rng.normal(size=4), rng.uniform(0.0, 1.0, 3), cell)


def _relax(
    molecule: RigidMolecule, placement: Placement, space_group: str, stage: _Stage
) -> tuple[Placement, float]:
    """Minimise the energy plus a penalty on the volume.

    The penalty is `squeeze` times (V - V0)^2 / V0 if the volume per molecule V is above that of a
    dense crystal V0.
    """
    free = FREE_ENTRIES[space_group]
    rows, columns = (np.array(a) for a in zip(*free, strict=True))
    z = len(SPACE_GROUPS[space_group])
    dense = _DENSE * _spheres(molecule)
    bounds: list[tuple[float | None, float | None]] = [(None, None)] * 7 + [
        (2.5 if r == c else None, None) for r, c in free
    ]
    value = np.inf
    for _ in range(stage.rounds):
        if heights(placement.cell).min() < 0.5 * _NARROWEST_ANGSTROM:
            break
        pairs = neighbours(molecule, placement, space_group, reach=stage.reach)

        def objective(x: Floats, pairs: Pairs = pairs) -> tuple[float, Floats]:
            trial = _unpack(x, rows, columns)
            energy, d_quaternion, d_centre, d_cell = lattice_energy(
                molecule, trial, pairs, stage.potential
            )
            volume = float(np.prod(np.diag(trial.cell))) / z
            excess = max(0.0, volume - dense) / dense
            d_cell = d_cell + np.diag(2.0 * stage.squeeze * excess * volume / np.diag(trial.cell))
            gradient = np.concatenate(
                [d_quaternion, d_centre / _FRACTION_SCALE, d_cell[rows, columns]]
            )
            return energy + stage.squeeze * excess**2 * dense, gradient

        # The stubs of scipy do not accept a function that returns value and gradient.
        to_minimise: Any = objective
        unit = placement.quaternion / np.linalg.norm(placement.quaternion)
        x0 = np.round(
            np.concatenate(
                [unit, placement.centre * _FRACTION_SCALE, placement.cell[rows, columns]]
            ),
            _SNAP_DECIMALS,
        )
        settings: Any = {"maxiter": stage.steps, "maxcor": 12}
        solution: Any = minimize(
            to_minimise, x0, jac=True, method="L-BFGS-B", bounds=bounds, options=settings
        )
        previous = value
        value = float(solution.fun)
        placement = _unpack(solution.x, rows, columns)
        if abs(previous - value) < _CONVERGED:
            break
    return placement, value


def _unpack(x: Floats, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Placement:
    cell = np.zeros((3, 3))
    cell[rows, columns] = x[7:]
    return Placement(x[:4], x[4:7] / _FRACTION_SCALE, cell)


def _is_plausible(molecule: RigidMolecule, placement: Placement, space_group: str) -> bool:
    """Return whether the cell is neither flat nor so small that molecules overlap."""
    volume = float(np.prod(np.diag(placement.cell))) / len(SPACE_GROUPS[space_group])
    wide = heights(placement.cell).min() >= _NARROWEST_ANGSTROM
    return bool(wide and volume > _COLLAPSED * _spheres(molecule))


def _spheres(molecule: RigidMolecule) -> float:
    """Return the summed volume of the atoms' van-der-Waals spheres in cubic Angstrom."""
    return float((4.0 / 3.0 * np.pi * molecule.radii**3).sum())


def _crystal(
    numbers: NDArray[np.int64],
    molecule: RigidMolecule,
    placement: Placement,
    *,
    space_group: str,
    energy: float,
) -> Packed:
    """Return the crystal of whole molecules with centres in the cell, rounded."""
    placement = replace(placement, cell=np.round(placement.cell, DECIMALS) + 0.0)
    first = molecule.shape @ rotation(placement.quaternion)[0].T + placement.centre @ placement.cell
    blocks = []
    for signs, translation in SPACE_GROUPS[space_group]:
        block = first * np.array(signs) + np.array(translation) @ placement.cell
        inside = np.floor(np.round(block.mean(axis=0) @ np.linalg.inv(placement.cell), DECIMALS))
        blocks.append(block - inside @ placement.cell)
    positions = np.round(np.concatenate(blocks), DECIMALS) + 0.0
    contact = closest_contact(
        np.tile(numbers, len(blocks)), positions, placement.cell, atoms_per_molecule=len(numbers)
    )
    return Packed(space_group, positions, placement.cell, energy, contact)

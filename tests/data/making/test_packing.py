"""The lattice energy compared with direct sums, its derivatives, and packed crystals."""

import numpy as np
import pytest
from ase.build import molecule as ase_molecule

from data.making.contacts import closest_contact, density_g_cm3
from data.making.lattice_energy import (
    FREE_ENTRIES,
    SPACE_GROUPS,
    Placement,
    full_potential,
    lattice_energy,
    neighbours,
    rigid_molecule,
    soft_repulsion,
)
from data.making.packing import MIN_CONTACT, pack

REACH = 8.0


def shape_of(name):
    atoms = ase_molecule(name)
    return atoms.numbers, atoms.positions - atoms.positions.mean(axis=0)


def charges_of(numbers):
    charges = np.where(numbers == 1, 0.1, -0.1)
    return charges - charges.mean()


def placed(group, seed):
    """A large cell, as that of a start."""
    rng = np.random.default_rng(seed)
    cell = np.diag([6.5, 7.0, 7.5]) * len(SPACE_GROUPS[group]) ** (1 / 3)
    for row, column in FREE_ENTRIES[group]:
        if row != column:
            cell[row, column] = rng.uniform(-1.5, 1.5)
    return Placement(rng.normal(size=4), rng.uniform(size=3), cell)


@pytest.mark.parametrize("group", SPACE_GROUPS)
@pytest.mark.parametrize("potential", [soft_repulsion, full_potential])
def test_lattice_energy_derivatives_agree_with_finite_differences(group, potential):
    numbers, shape = shape_of("C4H4S")
    molecule = rigid_molecule(numbers, shape, charges_of(numbers))
    placement = placed(group, 3)
    pairs = neighbours(molecule, placement, group, reach=REACH)

    def energy(quaternion, centre, cell):
        return lattice_energy(molecule, Placement(quaternion, centre, cell), pairs, potential)[0]

    _, d_quaternion, d_centre, d_cell = lattice_energy(molecule, placement, pairs, potential)
    variables = [placement.quaternion, placement.centre, placement.cell]
    for part, gradient in enumerate((d_quaternion, d_centre, d_cell)):
        for index in np.ndindex(variables[part].shape):
            step = np.zeros_like(variables[part])
            step[index] = 1e-5
            up, down = (
                [v + s * step if k == part else v for k, v in enumerate(variables)] for s in (1, -1)
            )
            # The error of central differences of step h is h^2 plus rounding over h: about 1e-5.
            assert gradient[index] == pytest.approx(
                (energy(*up) - energy(*down)) / 2e-5, rel=1e-4, abs=1e-4
            )


@pytest.mark.parametrize(
    ("name", "group", "known_g_cm3"),
    [
        ("C6H6", "P21/c", 1.18),  # 1.11 to 1.26 for phase II and phase I at 4 K
        ("C4H4S", "P212121", 1.30),
        ("C5H5N", "P-1", 1.15),
    ],
)
def test_packed_crystal_has_a_realistic_density_and_no_touching_molecules(name, group, known_g_cm3):
    numbers, shape = shape_of(name)
    starts = [np.random.default_rng([7, k]) for k in range(3)]
    crystal = pack(numbers, shape, charges=charges_of(numbers), space_group=group, starts=starts)
    assert crystal is not None
    z = len(SPACE_GROUPS[group])
    assert density_g_cm3(np.tile(numbers, z), crystal.cell) == pytest.approx(known_g_cm3, rel=0.12)
    contact = closest_contact(
        np.tile(numbers, z), crystal.positions, crystal.cell, atoms_per_molecule=len(numbers)
    )
    assert contact == crystal.contact >= MIN_CONTACT
    assert crystal.energy < -5.0  # Sublimation enthalpies are 10 to 12 kcal/mol.


def test_packed_molecules_keep_their_shape_and_do_not_change_the_input():
    numbers, shape = shape_of("C5H5N")
    before = shape.copy()
    crystal = pack(
        numbers,
        shape,
        charges=charges_of(numbers),
        space_group="P21",
        starts=[np.random.default_rng(1)],
    )
    assert crystal is not None
    assert np.array_equal(shape, before)

    def distances(x):
        return np.linalg.norm(x[:, None] - x[None], axis=-1)

    for block in crystal.positions.reshape(2, -1, 3):
        # Positions are rounded to 1e-4.
        assert distances(block) == pytest.approx(distances(shape), abs=3e-4)


def test_packing_from_the_same_starts_is_reproducible():
    numbers, shape = shape_of("C4H4S")
    one, two = (
        pack(
            numbers,
            shape,
            charges=charges_of(numbers),
            space_group="P-1",
            starts=[np.random.default_rng(4)],
        )
        for _ in range(2)
    )
    assert np.array_equal(one.positions, two.positions) and np.array_equal(one.cell, two.cell)

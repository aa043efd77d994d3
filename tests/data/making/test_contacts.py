"""Contacts and densities of cells with known values."""

import numpy as np
import pytest

from bandgap.structures.neighbours import heights
from data.making.contacts import closest_contact, density_g_cm3

CARBON = np.array([6])
HYDROGENS = np.array([1, 1])


def test_contact_within_a_molecule_does_not_count():
    positions = np.array([[0.0, 0.0, 0.0], [0.74, 0.0, 0.0]])
    cell = np.diag([4.0, 4.0, 4.0])
    assert closest_contact(HYDROGENS, positions, cell, atoms_per_molecule=2) == pytest.approx(
        (4.0 - 0.74) / 2.4
    )
    assert closest_contact(HYDROGENS, positions, cell, atoms_per_molecule=1) == pytest.approx(
        0.74 / 2.4
    )


def test_contact_in_a_skewed_cell_is_across_its_corner():
    cell = np.array([[4.0, 0.0, 0.0], [3.9, 3.4, 0.0], [0.0, 0.0, 9.0]])
    assert closest_contact(CARBON, np.zeros((1, 3)), cell, atoms_per_molecule=1) == pytest.approx(
        np.hypot(0.1, 3.4) / 3.4
    )


def test_contact_does_not_change_when_a_molecule_moves_by_a_lattice_vector():
    rng = np.random.default_rng(0)
    cell = np.array([[6.0, 0.0, 0.0], [1.0, 7.0, 0.0], [-1.0, 0.5, 8.0]])
    numbers = np.array([6, 1, 6, 1])
    positions = rng.uniform(0.0, 6.0, (4, 3))
    moved = positions + np.repeat([[0.0] * 3, cell[0] - 2 * cell[2]], 2, axis=0)
    contact = closest_contact(numbers, positions, cell, atoms_per_molecule=2)
    assert closest_contact(numbers, moved, cell, atoms_per_molecule=2) == pytest.approx(contact)


def test_contact_without_near_atoms_is_infinite():
    assert (
        closest_contact(CARBON, np.zeros((1, 3)), 50.0 * np.eye(3), atoms_per_molecule=1) == np.inf
    )


def test_density_of_diamond_is_correct():
    assert density_g_cm3(np.full(8, 6), 3.567 * np.eye(3)) == pytest.approx(3.515, abs=0.005)


def test_heights_of_a_skewed_cell_are_distances_between_faces():
    assert heights(np.array([[2.0, 0.0, 0.0], [2.0, 3.0, 0.0], [0.0, 0.0, 4.0]])) == pytest.approx(
        [6.0 / np.hypot(2.0, 3.0), 3.0, 4.0]
    )

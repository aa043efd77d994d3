"""The structures of the benchmark of drawings, and its times."""

import numpy as np
import pytest

from benchmarks.drawing import N_ATOMS, PEROVSKITES, perovskite


@pytest.mark.parametrize(("formula", "lattice_angstrom"), PEROVSKITES)
def test_perovskite_has_400_atoms_and_octahedra(formula: str, lattice_angstrom: float) -> None:
    shape = perovskite(formula, lattice_angstrom)
    assert shape.numbers.size == N_ATOMS
    centre = {"SrTiO3": 22, "BaZrO3": 40}[formula]
    is_centred_bond = (shape.numbers[shape.bonds] == centre).any(axis=1)
    first, second = shape.positions[shape.bonds[is_centred_bond].T]
    lengths = np.linalg.norm(second + shape.shifts[is_centred_bond] @ shape.cell - first, axis=1)
    assert np.isclose(lengths, lattice_angstrom / 2).sum() == 6 * (shape.numbers == centre).sum()

"""The structures of the benchmark of drawings, and its times."""

import numpy as np
import pytest

from benchmarks.drawing import N_ATOMS, PEROVSKITES, DrawingTimes, perovskite


@pytest.mark.parametrize(("formula", "lattice_angstrom"), PEROVSKITES)
def test_perovskite_has_400_atoms_and_octahedra(formula: str, lattice_angstrom: float) -> None:
    shape = perovskite(formula, lattice_angstrom)
    assert shape.numbers.size == N_ATOMS
    centre = {"SrTiO3": 22, "BaZrO3": 40}[formula]
    is_centred_bond = (shape.numbers[shape.bonds] == centre).any(axis=1)
    first, second = shape.positions[shape.bonds[is_centred_bond].T]
    lengths = np.linalg.norm(second + shape.shifts[is_centred_bond] @ shape.cell - first, axis=1)
    assert np.isclose(lengths, lattice_angstrom / 2).sum() == 6 * (shape.numbers == centre).sum()


def test_median_leaves_out_the_first_drawing_which_loads_code() -> None:
    times = DrawingTimes([5.0, 0.1, 0.2, 0.3], [5.0, 0.2, 0.2, 0.2])
    assert times.totals_s == pytest.approx([10.0, 0.3, 0.4, 0.5])
    assert times.median_s == pytest.approx(0.4)

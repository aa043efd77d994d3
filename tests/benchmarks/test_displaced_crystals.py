"""Strained crystals of the study of robustness."""

import numpy as np
from ase.build import bulk

from bandgap.structures import as_records
from benchmarks.studies.demo_transfer import strained


def test_strain_keeps_fractional_coordinates_and_has_the_standard_deviation() -> None:
    salt = bulk("NaCl", "rocksalt", a=5.64, cubic=True)
    lengths = np.linspace(1.0, 1.2, 40)
    crystals = []
    for length in lengths:
        crystal = salt.copy()
        crystal.set_cell(salt.cell * length, scale_atoms=True)
        crystals.append(crystal)
    records = as_records(crystals)
    copies = strained(records, 0.02, seed=3)
    strains = []
    for record, copy in zip(records, copies, strict=True):
        np.testing.assert_allclose(
            copy.atoms.get_scaled_positions(), record.atoms.get_scaled_positions(), atol=1e-12
        )
        strain = np.linalg.solve(record.atoms.cell.array, copy.atoms.cell.array) - np.eye(3)
        np.testing.assert_allclose(strain, strain.T, atol=1e-12)
        strains.append(strain[np.triu_indices(3)])
    # 240 components: the standard error of their standard deviation is 0.0009.
    assert abs(np.std(strains) - 0.02) < 0.004
    again = strained(records[:1], 0.02, seed=3)[0]
    np.testing.assert_array_equal(again.atoms.cell.array, copies[0].atoms.cell.array)

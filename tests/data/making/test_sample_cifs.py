"""Crystals written as CIF are read back unchanged."""

import numpy as np
import pytest

from bandgap.datasets.demo import load_demo
from bandgap.structures import read_structures
from data.making.sample_cifs import cif_text
from data.making.shipping import Item


@pytest.mark.slow
@pytest.mark.parametrize("group", ["P1", "P-1", "P21", "P21/c", "P212121"])
@pytest.mark.parametrize("symmetric", [True, False])
def test_cif_preserves_cell_and_distances(group, symmetric):
    crystals = load_demo("crystals")
    row = crystals.table.index[crystals.table["space_group"] == group][0]
    atoms = crystals.records[row].atoms
    item = Item(crystals.table.loc[row].to_dict(), atoms.numbers, atoms.positions, atoms.cell.array)
    (record,) = read_structures(cif_text(item, symmetric=symmetric).encode(), "sample.cif")
    assert record.status == "ready", record.problem
    assert record.formula == crystals.records[row].formula
    assert record.atoms.cell.cellpar() == pytest.approx(atoms.cell.cellpar(), abs=1e-3)
    distances, expected = (
        np.sort(a.get_all_distances(mic=True).ravel()) for a in (record.atoms, atoms)
    )
    assert distances == pytest.approx(expected, abs=2e-3)

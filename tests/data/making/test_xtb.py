"""Geometries and gaps of molecules with known values. Needs the extra `datagen`."""

import numpy as np
import pytest

pytest.importorskip("tblite")

from data.making.xtb import GenerationFailed, checked_gap, conformer, electrons


def test_conformer_is_reproducible_and_centred():
    one = conformer("c1ccccc1C=O", 5)
    two = conformer("c1ccccc1C=O", 5)
    assert np.array_equal(one.positions, two.positions)
    assert one.positions.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-4)
    assert sorted(one.numbers) == [1] * 6 + [6] * 7 + [8]


def test_gap_below_the_limit_is_a_failure():
    shape = conformer("c1ccccc1", 1)
    state = electrons(shape.numbers, shape.positions, method="GFN2-xTB")
    closed = type(state)(homo_eV=-9.0, lumo_eV=-8.9, charges=state.charges)
    with pytest.raises(GenerationFailed, match="gap below 0.2 eV"):
        checked_gap(closed)

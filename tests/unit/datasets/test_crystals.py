"""Gaps from the comment lines of extended XYZ."""

import numpy as np
import pytest
from ase import Atoms

from bandgap.datasets.crystals import labels_from_info
from bandgap.foundation.errors import InputError
from bandgap.structures import StructureRecord


def record(id_, **info):
    return StructureRecord(id_, "set.extxyz", "extXYZ", Atoms("He"), (), info)


def test_labels_from_info_absent_key_gives_nan():
    gaps = labels_from_info([record("a", gap=2.5), record("b"), record("c", gap=0), record("d", gap="3.5")], "gap")
    np.testing.assert_array_equal(gaps, [2.5, np.nan, 0.0, 3.5])


def test_labels_from_info_hartree_is_converted():
    assert labels_from_info([record("a", gap=0.1)], "gap", unit="Hartree")[0] == pytest.approx(2.7211386)


@pytest.mark.parametrize(
    ("records", "text"),
    [
        pytest.param(
            [record("a", gap_eV=1.0, n=3), record("b", gap_eV=2.0, name="x", ok=True)],
            r"no structure has the key 'gap'. Keys with numbers: gap_eV \(2 of 2\), n \(1 of 2\)\.",
            id="absent",
        ),
        pytest.param([record("a", name="x")], "No structure carries a number in its comment line", id="no-numbers"),
        pytest.param([record("a", gap=-0.1)], "set.extxyz, a: gap=-0.1 is not a band gap", id="negative"),
        pytest.param([record("a", gap="wide")], "set.extxyz, a: gap='wide' is not a band gap", id="text"),
        pytest.param([record("a", gap=True)], "gap=True is not a band gap", id="flag"),
        pytest.param([record("a", gap=float("nan"))], "gap=nan is not a band gap", id="nan"),
        pytest.param([record("a", gap=2684.0)], "gap=2684.0 eV is no band gap; is the unit right?", id="unit"),
    ],
)
def test_labels_from_info_unusable_values_are_named(records, text):
    with pytest.raises(InputError, match=text):
        labels_from_info(records, "gap")


def test_labels_from_info_unknown_unit_is_refused():
    with pytest.raises(InputError, match="unit is 'Ry'. Accepted: eV, Hartree"):
        labels_from_info([record("a", gap=1.0)], "gap", unit="Ry")

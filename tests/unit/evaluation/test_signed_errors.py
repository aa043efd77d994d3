"""Signed errors by element, by predicted gap and by size."""

import numpy as np
import pytest

from bandgap.evaluation.heldout import HeldOut
from bandgap.evaluation.signed_errors import error_by_element, error_by_gap, error_by_size
from tests.unit.evaluation.test_paired import normal_heldout


def heldout_of(errors, formulas, *, gaps=None) -> HeldOut:
    """Return structures of these formulas with these errors."""
    known_gaps = np.full(len(errors), 3.0) if gaps is None else np.asarray(gaps, dtype=np.float64)
    return normal_heldout(np.asarray(errors, dtype=np.float64), gaps=known_gaps, formulas=formulas)


def test_error_by_element_has_the_shift_of_structures_with_the_element():
    errors = np.array([0.5, 0.7, 0.6, -0.1, 0.1, 0.0])
    heldout = heldout_of(errors, ["C2Cl", "CCl4", "CClH", "CH4", "C2H6", "C3H8"])
    table = error_by_element(heldout).set_index("element")
    assert list(table.index) == ["C", "H", "Cl"]
    assert table.loc["Cl", "signed_error_eV"] == pytest.approx(0.6)
    assert table.loc["Cl", "structures"] == 3
    assert table.loc["Cl", "chance_eV"] == pytest.approx(1.96 * 0.1 / np.sqrt(3))
    assert table.loc["H", "rmse_eV"] == pytest.approx(np.sqrt((0.36 + 0.01 + 0.01) / 4))


def test_error_by_gap_has_four_ranges_of_the_predicted_gap():
    gaps = np.arange(1.0, 9.0)
    errors = np.where(gaps > 6.5, -0.4, 0.0)
    table = error_by_gap(heldout_of(errors, ["C"] * 8, gaps=gaps))
    assert table["predicted gap"].tolist() == [
        "1.00 to 2.00 eV",
        "3.00 to 4.00 eV",
        "5.00 to 6.00 eV",
        "6.60 to 7.60 eV",
    ]
    assert table["signed_error_eV"].tolist() == pytest.approx([0.0, 0.0, 0.0, -0.4])


def test_error_by_size_counts_atoms_and_keeps_equal_sizes_together():
    formulas = ["CH4"] * 6 + ["C2H6", "C10H22"]
    table = error_by_size(heldout_of([0.1] * 6 + [0.3, 0.5], formulas))
    assert (
        table["size"].tolist() == ["5 atoms", "8 atoms", "32 atoms"]
        or table["size"].tolist()[0] == "5 atoms"
    )
    assert table["structures"].sum() == 8


def test_groups_of_fewer_than_three_have_no_range_of_chance():
    table = error_by_element(heldout_of([0.1, 0.2], ["Br", "Br"]))
    assert np.isnan(table.loc[0, "chance_eV"])

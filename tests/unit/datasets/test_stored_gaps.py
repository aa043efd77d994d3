"""Numbers of files as gaps, and new gaps beside the present ones: units, limits and levels of theory."""

import numpy as np
import pytest

from bandgap.datasets.stored_gaps import gaps_from_numbers, merged_gaps
from bandgap.foundation.errors import InputError

NAN = float("nan")


def test_numbers_take_the_unit_that_was_chosen() -> None:
    gaps = gaps_from_numbers(["a", "b"], np.array([0.25, NAN]), unit="Hartree", name="gap")
    assert gaps[0] == pytest.approx(6.8028465) and np.isnan(gaps[1])


@pytest.mark.parametrize(("value", "unit"), [(-0.1, "eV"), (101.0, "eV"), (5.0, "Hartree")])
def test_number_that_is_no_gap_is_named_with_its_structure(value: float, unit: str) -> None:
    with pytest.raises(
        InputError, match=rf"energy in {unit} is not a band gap in b \({value:g}\)\. Accepted: 0 to 100"
    ):
        gaps_from_numbers(["a", "b"], np.array([1.0, value]), unit=unit, name="energy")  # type: ignore[arg-type]


def test_new_gaps_win_and_mixed_levels_are_a_warning() -> None:
    merged, level, warnings = merged_gaps(np.array([1.0, 2.0, NAN]), np.array([NAN, 3.0, 4.0]), levels=("PBE", "HSE06"))
    assert merged.tolist() == [1.0, 3.0, 4.0] and level == "PBE; HSE06"
    assert len(warnings) == 1 and warnings[0].startswith("Levels of theory are mixed (PBE, HSE06).")


def test_level_of_gaps_that_are_all_replaced_no_longer_counts() -> None:
    assert merged_gaps(np.array([1.0]), np.array([2.0]), levels=("PBE", "HSE06"))[1:] == ("HSE06", ())


def test_level_that_only_some_gaps_state_is_a_warning() -> None:
    _, level, warnings = merged_gaps(np.array([1.0, NAN]), np.array([NAN, 2.0]), levels=("", "PBE"))
    assert level == "PBE" and warnings == (
        "Some gaps are of PBE, the others state no level of theory. State it, to see mixed levels.",
    )

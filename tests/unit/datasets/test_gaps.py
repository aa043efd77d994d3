"""Gaps of comment lines and of numbers in files: units, limits and levels of theory."""

import numpy as np
import pytest
from ase import Atoms

from bandgap.datasets.gaps import (
    baselines_from_info,
    gaps_from_numbers,
    labels_from_info,
    merged_gaps,
)
from bandgap.datasets.units import ACCEPTED_UNITS
from bandgap.foundation.errors import InputError
from bandgap.structures import StructureRecord

NAN = float("nan")


def record(id_, **info):
    return StructureRecord(id_, "set.extxyz", "extXYZ", Atoms("He"), (), info)


def test_labels_from_info_absent_key_gives_nan():
    gaps = labels_from_info(
        [record("a", gap=2.5), record("b"), record("c", gap=0), record("d", gap="3.5")],
        "gap",
        unit="eV",
    )
    np.testing.assert_array_equal(gaps, [2.5, np.nan, 0.0, 3.5])


def test_labels_from_info_hartree_is_converted():
    assert labels_from_info([record("a", gap=0.1)], "gap", unit="Hartree")[0] == pytest.approx(
        2.7211386
    )


@pytest.mark.parametrize(
    ("records", "text"),
    [
        pytest.param(
            [record("a", gap_eV=1.0, n=3), record("b", gap_eV=2.0, name="x", ok=True)],
            r"no structure has the key 'gap'. Keys with numbers: gap_eV \(2 of 2\), n \(1 of 2\)\.",
            id="absent",
        ),
        pytest.param(
            [record("a", **{"_exmpl_gap\x93eV": 2.8})],
            r"no structure has the key 'gap'. Keys with numbers: _exmpl_gap\?eV \(1 of 1\)\.",
            id="key-with-a-control-character",
        ),
        pytest.param(
            [record("a", name="x")],
            "No structure has a number in its comment line",
            id="no-numbers",
        ),
        pytest.param(
            [record("a", gap=-0.1)], "set.extxyz, a: gap=-0.1 is not a band gap", id="negative"
        ),
        pytest.param(
            [record("a", gap="wide")], "set.extxyz, a: gap='wide' is not a band gap", id="text"
        ),
        pytest.param(
            [record("a", gap="a\nb" * 500)],
            r"gap='a\?ba\?b.*\.\.\.' is not a band gap",
            id="much-text",
        ),
        pytest.param([record("a", gap=True)], "gap=True is not a band gap", id="flag"),
        pytest.param([record("a", gap=float("inf"))], "gap=inf is not a band gap", id="inf"),
        pytest.param(
            [record("a", gap=2684.0)],
            "gap=2684.0 eV is not a band gap; is the unit right?",
            id="unit",
        ),
    ],
)
def test_labels_from_info_unusable_values_are_named(records, text):
    with pytest.raises(InputError, match=text):
        labels_from_info(records, "gap", unit="eV")


@pytest.mark.parametrize("key", ["gap_Ha", "gap_hartree", "gapHa", "homo-lumo_gap_Ha"])
def test_labels_under_a_key_in_hartree_are_converted(key: str) -> None:
    assert labels_from_info([record("a", **{key: 0.1})], key)[0] == pytest.approx(2.7211386)
    assert baselines_from_info([record("a", **{key: 0.1})], key)[0] == pytest.approx(2.7211386)


@pytest.mark.parametrize(
    ("key", "unit"),
    [
        ("gap_nm", "nm"),
        ("gap_keV", "kev"),
        ("gap_ueV", "uev"),
        ("gap (\u00b5eV)", "\u03bcev"),
        ("gap_mRy", "mry"),
        ("gap_THz", "thz"),
        ("gap_au", "au"),
    ],
)
def test_labels_under_a_key_in_another_unit_are_refused(key: str, unit: str) -> None:
    expected = f"the key '{key}' states the unit {unit}. {ACCEPTED_UNITS}"
    for read in (labels_from_info, baselines_from_info):
        with pytest.raises(InputError) as refusal:
            read([record("a", **{key: 1.0})], key)
        assert str(refusal.value) == expected
    with pytest.raises(InputError, match="states the unit"):
        labels_from_info([record("a", **{key: 1.0})], key, unit="eV")


def test_labels_under_a_key_without_a_unit_are_refused_with_the_remedy() -> None:
    with pytest.raises(
        InputError, match=r"the key 'gap' states no unit, and a unit is never guessed.*`--unit eV`"
    ):
        labels_from_info([record("a", gap=1.0)], "gap")
    with pytest.raises(
        InputError, match=r"the key 'gap_pbe' states no unit.*Rename the key of the baseline"
    ):
        baselines_from_info([record("a", gap_pbe=1.0)], "gap_pbe")


def test_number_of_the_files_is_in_the_unit_of_its_name() -> None:
    assert gaps_from_numbers(["a"], np.array([0.1]), unit=None, name="gap_Ha")[0] == pytest.approx(
        2.7211386
    )
    with pytest.raises(InputError, match="the number 'gap' states no unit.*Or choose its unit"):
        gaps_from_numbers(["a"], np.array([0.1]), unit=None, name="gap")
    with pytest.raises(
        InputError, match="the number 'gap_Ha' states Hartree, but the unit was given as eV"
    ):
        gaps_from_numbers(["a"], np.array([0.1]), unit="eV", name="gap_Ha")


@pytest.mark.parametrize("value", [float("nan"), "NaN", " nan "])
def test_labels_from_info_nan_is_no_gap_and_is_named(value, caplog):
    records = [record("a", gap_eV=1.5), record("b", gap_eV=value)]
    gaps = labels_from_info(records, "gap_eV")
    assert gaps[0] == 1.5
    assert np.isnan(gaps[1])
    assert "gap_eV is NaN in 1 structures, which have no gap: b" in caplog.text


@pytest.mark.parametrize(
    ("key", "gap_eV"),
    [
        ("gap_meV", 1e-3),
        ("gapmeV", 1e-3),
        ("gap_Ry", 13.605693),
        ("gap (Eh)", 27.211386),
        ("gap_kJ_mol", 0.01036427),
        ("gap_kcal_mol", 0.04336410),
        ("gap_cm-1", 1.23984198e-4),
        ("gap_cm1", 1.23984198e-4),
    ],
)
def test_labels_from_info_are_converted_from_the_unit_of_the_key(key: str, gap_eV: float):
    assert labels_from_info([record("a", **{key: 1.0})], key)[0] == pytest.approx(gap_eV, rel=1e-6)


@pytest.mark.parametrize(("value", "unit"), [(-0.1, "eV"), (101.0, "eV"), (5.0, "Hartree")])
def test_number_that_is_not_a_gap_is_refused_with_its_structure(value: float, unit: str) -> None:
    message = rf"energy in {unit} is not a band gap in b \({value:g}\)\. Accepted: 0 to 100"
    values = np.array([1.0, value])
    with pytest.raises(InputError, match=message):
        gaps_from_numbers(["a", "b"], values, unit=unit, name="energy")  # type: ignore[arg-type]


def test_merged_gaps_prefers_new_gaps_and_warns_of_mixed_levels() -> None:
    merged, level, warnings = merged_gaps(
        np.array([1.0, 2.0, NAN]), np.array([NAN, 3.0, 4.0]), levels=("PBE", "HSE06")
    )
    assert merged.tolist() == [1.0, 3.0, 4.0] and level == "PBE; HSE06"
    assert len(warnings) == 1 and warnings[0].startswith("Levels of theory are mixed (PBE, HSE06).")


def test_level_of_gaps_that_are_all_replaced_no_longer_counts() -> None:
    assert merged_gaps(np.array([1.0]), np.array([2.0]), levels=("PBE", "HSE06"))[1:] == (
        "HSE06",
        (),
    )


def test_level_that_only_some_gaps_state_is_a_warning() -> None:
    _, level, warnings = merged_gaps(np.array([1.0, NAN]), np.array([NAN, 2.0]), levels=("", "PBE"))
    assert level == "PBE" and warnings == (
        "Some gaps are of PBE, the others state no level of theory. State it, to see mixed levels.",
    )

"""XYZ and extXYZ: framing, ids as text, info, lattice, and one verdict for every bad frame."""

import numpy as np
import pytest

from tests.unit.structures.samples import METHANE_XYZ, read, read_one

ROWS = "C 0.0 0.0 0.0\nH 0.0 0.0 1.09\n"


def frame(comment: str, rows: str = ROWS) -> str:
    return f"{rows.count(chr(10))}\n{comment}\n{rows}"


def test_xyz_is_a_molecule_named_by_its_file():
    record = read_one(METHANE_XYZ, "methane.xyz")
    assert (record.id, record.format, record.formula, record.periodic) == (
        "methane",
        "XYZ",
        "CH4",
        False,
    )
    assert record.status == "ready"


def test_frames_get_running_numbers():
    assert [r.id for r in read(METHANE_XYZ * 3, "m.xyz")] == ["m-1", "m-2", "m-3"]


def test_extxyz_id_keeps_its_text_and_labels_are_numbers():
    text = frame(
        'Properties=species:S:1:pos:R:3 id=00011 gap_eV=3.25 n=7 tight=T note="two words" pbc="F '
        'F F"'
    )
    record = read_one(text, "set.extxyz")
    assert (record.id, record.format) == ("00011", "extXYZ")
    assert record.info == {
        "id": "00011",
        "gap_eV": 3.25,
        "n": 7,
        "tight": True,
        "note": "two words",
    }
    assert {key: type(value) for key, value in record.info.items()} == {
        "id": str,
        "gap_eV": float,
        "n": int,
        "tight": bool,
        "note": str,
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("code=00011", "00011"),
        ("cod_id=7226496", "7226496"),
        ("name=1e5", "1e5"),
        ("x=1e5", 1e5),
        ("x=-3", -3),
        ("x=.5", 0.5),
        ("x=1_000", "1_000"),
        ("x='1 2 3'", "1 2 3"),
        ("x=[1,2]", "1,2"),
        ("x={a b}", "a b"),
        ('x="say \\"hi\\""', 'say "hi"'),
        ("x=F", False),
        ("x", True),
        ("smiles=CC(=O)c1c(O)", "CC(=O)c1c(O)"),
        ("x=12345678901234567890123", "12345678901234567890123"),
    ],
)
def test_value_of_a_key_has_its_own_type(written: str, value: object):
    info = read_one(frame(f"pbc=F {written}"), "a.xyz").info
    assert next(iter(info.values())) == value
    assert type(next(iter(info.values()))) is type(value)


def test_nan_label_stays_nan():
    assert np.isnan(float(read_one(frame("pbc=F gap_eV=nan"), "a.xyz").info["gap_eV"]))


def test_plain_comment_with_pairs_gives_its_info():
    record = read_one(frame("from a calculation gap=3.1"), "a.xyz")
    assert (record.format, record.info) == ("XYZ", {"gap": 3.1})


def test_lattice_makes_the_structure_periodic():
    record = read_one(frame('Lattice="5 0 0 0 6 0 1 0 7" Properties=species:S:1:pos:R:3'), "a.xyz")
    assert record.atoms is not None
    assert record.atoms.cell.array.tolist() == [[5, 0, 0], [0, 6, 0], [1, 0, 7]]
    assert record.atoms.pbc.all()


def test_pbc_of_a_slab_is_kept():
    record = read_one(frame('Lattice="5 0 0 0 6 0 0 0 0" pbc="T T F"'), "a.xyz")
    assert record.atoms is not None
    assert record.atoms.pbc.tolist() == [True, True, False]
    assert record.status == "ready"


def test_columns_are_found_by_properties():
    rows = "0.1 0.0 0.0 0.0 C\n0.2 0.0 0.0 1.09 H\n"
    record = read_one(frame("Properties=charge:R:1:pos:R:3:species:S:1", rows), "a.xyz")
    assert record.atoms is not None
    assert record.atoms.positions.tolist() == [[0, 0, 0], [0, 0, 1.09]]


def test_numbers_as_fortran_and_mathematica_write_them_are_read():
    record = read_one(frame("", "C 0.0D+00 0.0 1.0*^-6\nH 0.0 0.0 1.09d0\n"), "a.xyz")
    assert record.atoms is not None
    assert record.atoms.positions.tolist() == [[0, 0, 1e-6], [0, 0, 1.09]]


def test_minus_of_word_processors_is_read():
    record = read_one(frame("", "C 0.0 0.0 0.0\nH 0.0 0.0 \u22121.09\n"), "a.xyz")
    assert record.atoms is not None
    assert record.atoms.positions[1].tolist() == [0, 0, -1.09]


@pytest.mark.parametrize("symbol", ["C", "c", "6", "C1"])
def test_element_may_be_in_any_case_numbered_or_a_number(symbol: str):
    assert read_one(frame("", ROWS.replace("C", symbol)), "a.xyz").formula == "CH"


@pytest.mark.parametrize(
    ("comment", "expected"),
    [
        ('Lattice="1 2 3"', "line 2: Lattice must be nine numbers, found '1 2 3'"),
        (
            'Lattice="5 0 0 0 6 0 1 0 x"',
            "line 2: Lattice must be nine numbers, found '5 0 0 0 6 0 1 0 x'",
        ),
        ('pbc="yes no no"', "line 2: pbc must be three of T and F, found 'yes no no'"),
        (
            "Properties=species:S:1",
            "line 2: Properties must name species and pos, as in species:S:1:pos:R:3; found "
            "'species:S:1'",
        ),
        (
            'pbc="T T T"',
            "the structure is marked as periodic and has no lattice. Add the lattice, or set pbc "
            "to F.",
        ),
        (
            f'pbc=F x="{"a" * 20_000}"',
            "line 2: the comment line has 20,010 characters; the limit is 20,000",
        ),
    ],
)
def test_invalid_comment_is_refused(comment: str, expected: str):
    assert read_one(frame(comment), "a.xyz").problem == expected


BAD = {
    "short": (
        METHANE_XYZ.replace("5\n", "6\n", 1),
        "line 8 announces 6 atoms, and 5 follow. Is the file cut off?",
    ),
    "long": (METHANE_XYZ.replace("5\n", "4\n", 1), "line 8 announces 4 atoms, and more follow"),
    "word": (
        METHANE_XYZ.replace("0.000 0.000 0.000", "0.0 oops 0.0"),
        "line 10: expected three coordinates, found '0.0 oops 0.0'",
    ),
    "columns": (
        METHANE_XYZ.replace("C 0.000 0.000 0.000", "C 0.0 0.0"),
        "line 10: expected an element and three coordinates, found 'C 0.0 0.0'",
    ),
    "glued": (
        METHANE_XYZ.replace("0.000 0.000 0.000", "0.000-1.000 0.000"),
        "line 10: expected an element and three coordinates, found 'C 0.000-1.000 0.000'."
        " '0.000-1.000' is two numbers without a space",
    ),
    "nan": (
        METHANE_XYZ.replace("C 0.000", "C nan"),
        "the position of atom 1 (C) is not a finite number",
    ),
    "element": (
        METHANE_XYZ.replace("C 0.000", "Zz 0.000"),
        "atom 1 (Zz) has the unknown element 'Zz'. Accepted: symbols of the periodic table, and D.",
    ),
    "dummy": (
        METHANE_XYZ.replace("C 0.000", "X 0.000"),
        "atom 1 (X) is a dummy atom ('X'). Remove dummy and ghost atoms and export again.",
    ),
    "empty": ("0\nnothing\n", "no atoms in the structure"),
    "no comment": (
        METHANE_XYZ.replace("methane\n", ""),
        "line 9 must be a comment, and contains an atom. Add a comment line, which may be empty.",
    ),
}


@pytest.mark.parametrize(("bad", "expected"), BAD.values(), ids=BAD)
def test_invalid_frame_is_refused_and_the_others_are_read(bad: str, expected: str):
    records = read(METHANE_XYZ + bad + METHANE_XYZ, "m.xyz")
    assert [r.status for r in records] == ["ready", "refused", "ready"]
    assert records[1].problem == expected


def test_file_cut_off_in_its_last_frame_keeps_the_others():
    records = read(METHANE_XYZ * 2 + METHANE_XYZ[:-30], "m.xyz")
    assert [r.status for r in records] == ["ready", "ready", "refused"]
    assert records[2].problem == "line 15 announces 5 atoms, and 4 follow. Is the file cut off?"


def test_file_without_a_first_count_is_refused_and_later_frames_are_read():
    records = read("molecule one\n" + METHANE_XYZ, "m.xyz")
    assert [r.status for r in records] == ["refused", "ready"]
    assert records[0].problem == "line 1: expected the number of atoms, found 'molecule one'"


def test_other_lines_after_the_atoms_are_a_warning():
    record = read_one(METHANE_XYZ + "1341.3 1341.4 1562.7\nC\tC\n", "gdb.xyz")
    assert record.problem == "what follows the atoms of the frame at line 1 was not read (lines: 2)"


def test_blank_lines_between_frames_are_ignored():
    assert [r.status for r in read(METHANE_XYZ + "\n\n" + METHANE_XYZ + "\n", "m.xyz")] == [
        "ready",
        "ready",
    ]


def test_deuterium_is_hydrogen_with_a_warning():
    record = read_one(frame("", ROWS.replace("H", "D")), "a.xyz")
    assert (record.formula, record.verdict) == ("CH", "usable: deuterium (D) is read as hydrogen")

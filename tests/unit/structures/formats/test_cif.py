"""CIF: blocks, disorder, symmetry symbols that other readers reject, and what is missing."""

import io

import gemmi
import numpy as np
import pytest
from ase.io import read as ase_read

from bandgap.structures import read_structures
from bandgap.structures.symmetry import ADVICE as DISORDERED
from tests.unit.structures.samples import METHANOL, P21C, cif, read, read_one


def test_cif_with_symmetry_gives_all_atoms_of_the_cell():
    record = read_one(cif(), "benzene.cif")
    assert (record.id, record.format, record.status) == ("benzene", "CIF", "ready")
    assert (record.formula, record.n_atoms, record.periodic) == ("C4H4O4", 12, True)


def test_partial_occupancy_is_refused_by_atom_and_block():
    record = read_one(cif(columns={"occupancy": ["1", "0.5(1)", "1.0"]}))
    assert record.verdict == f"refused: atom O1 has occupancy 0.5 (block shelx). {DISORDERED}"
    assert record.atoms is None


@pytest.mark.parametrize("written", ["1", "1.0", "1.00(2)", "0.997(4)", "?", "."])
def test_full_occupancy_in_any_notation_is_ready(written: str):
    assert read_one(cif(columns={"occupancy": [written] * 3})).status == "ready"


def test_alternative_disorder_groups_without_occupancy_are_refused():
    record = read_one(cif(columns={"disorder_group": ["1", "2", "."]}))
    assert record.problem == f"atom O1 is in disorder group 2 (block shelx). {DISORDERED}"


def test_disorder_about_a_special_position_is_refused():
    record = read_one(cif(columns={"disorder_group": ["-1", ".", "."]}))
    assert record.problem == f"atom C1 is in disorder group -1 (block shelx). {DISORDERED}"


def test_one_disorder_group_alone_is_an_ordered_component_with_a_warning():
    record = read_one(cif(columns={"disorder_group": ["1", "1", "."]}))
    expected = (
        "atom C1 is in disorder group 1 (block shelx), which has no alternative in the file; read "
        "as ordered"
    )
    assert (record.status, record.problem) == ("warning", expected)


def test_blocks_with_atoms_each_give_a_record_named_by_block():
    header = "data_global\n_journal_name_full 'Acta'\n"
    records = read(
        header + cif(name="KAXCUK") + cif(name="KAXCUK01", columns={"occupancy": ["0.5"] * 3})
    )
    assert [(r.id, r.status) for r in records] == [("KAXCUK", "ready"), ("KAXCUK01", "refused")]
    assert [r.info["block"] for r in records] == ["KAXCUK", "KAXCUK01"]


def test_publication_header_with_one_structure_keeps_the_file_name_as_id():
    record = read_one("data_global\n_journal_name_full 'Acta'\n" + cif(name="I"), "paper.cif")
    assert (record.id, record.status) == ("paper", "ready")


def test_file_without_atoms_in_any_block_is_refused():
    record = read_one(
        "data_global\n_journal_name_full 'Acta'\n_symmetry_cell_setting ?\ndata_b\n_a 1\n"
    )
    assert (
        record.verdict == "refused: no atoms in the file (2 blocks, none with _atom_site_fract_x)"
    )


def test_block_with_a_cell_and_no_atoms_is_refused_and_the_other_is_read():
    empty = cif(name="empty", sites=[])
    records = read(cif(name="full") + empty[: empty.index("loop_\n_atom_site")])
    expected = "block empty has a unit cell and no atoms (_atom_site_fract_x is missing)"
    assert [(r.id, r.problem) for r in records] == [("full", ""), ("empty", expected)]


@pytest.mark.parametrize("symbol", ["P2(1)/c", "Pmn2(1)", "P c 21 b", "?", "nonsense", None])
def test_operators_of_the_file_are_used_for_any_symbol(symbol: str | None):
    record = read_one(cif(symbol=symbol, operators=P21C))
    assert (record.formula, record.status) == ("C4H4O4", "ready")
    assert record.content == read_one(cif()).content


@pytest.mark.parametrize("symbol", ["P2(1)/c", "P21/c", "P 1 21/c 1", "P2_1/c"])
def test_symbol_without_operators_gives_the_same_crystal_in_any_notation(symbol: str):
    record = read_one(cif(symbol=symbol, operators=None))
    assert (record.formula, record.status) == ("C4H4O4", "ready")


def test_hall_symbol_is_used_without_other_symmetry():
    record = read_one(cif(symbol=None, operators=None, extra="_space_group_name_Hall '-P 2ybc'"))
    assert (record.formula, record.status) == ("C4H4O4", "ready")


@pytest.mark.parametrize("symbol", ["?", None])
def test_no_symmetry_at_all_reads_the_atoms_as_the_cell_with_a_warning(symbol: str | None):
    record = read_one(cif(symbol=symbol, operators=None))
    assert (
        record.verdict
        == "usable: no symmetry in block shelx; its atoms were taken as the whole cell (P 1)"
    )
    assert record.n_atoms == 3


def test_unknown_symbol_without_operators_is_refused():
    record = read_one(cif(symbol="P 99", operators=None))
    assert record.problem == (
        "block shelx lists no symmetry operators, and its space group's symbol 'P 99' does not "
        "say which they are. "
        "Export with _space_group_symop_operation_xyz, or in P 1."
    )


def test_space_group_number_alone_is_refused_because_it_has_no_setting():
    record = read_one(cif(symbol=None, operators=None, extra="_symmetry_Int_Tables_number 14"))
    assert "its space group's number 14 does not say which they are" in record.problem


def test_invalid_operator_is_refused_with_its_text():
    record = read_one(cif(operators=["x,y,z", "x,y,up"]))
    assert record.problem == "the symmetry operator 'x,y,up' is not understood"


def test_operators_that_disagree_with_the_symbol_are_used_with_a_warning():
    record = read_one(cif(symbol="P 21/c", operators=["x,y,z"]))
    expected = (
        "block shelx lists 1 symmetry operators and its space group P 21/c has 4; the listed ones "
        "were used"
    )
    assert (record.n_atoms, record.problem) == (3, expected)


def test_loop_of_operators_without_values_is_ignored():
    text = cif(symbol="(unknown)", operators=[], extra="_symmetry_Int_Tables_number 1")
    record = read_one(text)
    assert (record.n_atoms, record.status) == (3, "ready")


def test_atom_on_a_special_position_is_taken_once_and_put_on_it():
    record = read_one(cif(sites=[("C1", "C", 0.0004, 0.0003, -0.0004), ("H1", "H", 0.2, 0.2, 0.2)]))
    assert record.formula == "C2H4"
    assert record.atoms is not None
    doubled = 2 * record.atoms.get_scaled_positions()[:2]
    assert np.allclose(doubled, np.round(doubled), atol=1e-12)


def test_whole_cell_listed_with_operators_is_read_once():
    full = ase_read(io.StringIO(cif()), format="cif").get_scaled_positions()
    sites = [
        (f"{s}{i}", s, *xyz)
        for i, (s, xyz) in enumerate(zip(["C"] * 4 + ["O"] * 4 + ["H"] * 4, full, strict=True))
    ]
    record = read_one(cif(sites=sites))
    assert record.formula == "C4H4O4"
    assert record.problem == "atoms listed again by symmetry were taken once (36 of 48 left out)"


def test_missing_cell_is_refused():
    record = read_one(cif(cell=None))
    expected = (
        "no unit cell in block shelx (_cell_length_a is missing). Export a molecule without a "
        "cell as XYZ."
    )
    assert record.problem == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        pytest.param(
            (0, 8, 9, 90, 90, 90),
            "the unit cell has a length of 0 A. Lengths must be above zero",
            id="zero",
        ),
        pytest.param(
            ("nan", 8, 9, 90, 90, 90),
            "the unit cell contains a value that is not a finite number",
            id="nan",
        ),
        pytest.param(
            ("inf", 8, 9, 90, 90, 90),
            "the unit cell contains a value that is not a finite number",
            id="inf",
        ),
        pytest.param(
            (7, 8, 9, 10, 10, 170),
            "no unit cell has the angles 10, 10, 170: its volume would be zero",
            id="flat",
        ),
        pytest.param(("a", 8, 9, 90, 90, 90), "_cell_length_a is 'a', not a number", id="text"),
    ],
)
def test_impossible_cell_is_refused(cell: tuple[float, ...], expected: str):
    assert read_one(cif(cell=cell)).problem == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("?", "a coordinate of atom C9 is missing"),
        ("abc", "a coordinate of atom C9 is 'abc', not a number"),
        ("nan", "the position of atom C9 (block shelx) is not a finite number"),
        ("1e9", "a fractional coordinate of 1e+09 (block shelx) is too large for a structure"),
    ],
)
def test_bad_coordinate_is_refused_by_atom(value: str, expected: str):
    assert read_one(cif(sites=[*METHANOL, ("C9", "C", value, 0.4, 0.4)])).problem == expected  # type: ignore[list-item]


def test_file_cut_off_in_the_atoms_is_refused_and_other_blocks_are_read():
    records = read(cif(name="A") + cif(name="B").rstrip()[:-4] + "\n" + cif(name="C"))
    assert [(r.id, r.status) for r in records] == [("A", "ready"), ("B", "refused"), ("C", "ready")]
    cut = (
        "block B is not valid CIF: line 38, Wrong number of values in loop _atom_site_*. Is the "
        "file cut off?"
    )
    assert records[1].problem == cut


def test_hydrogens_that_differ_from_the_files_formula_are_a_warning():
    record = read_one(cif(extra="_chemical_formula_sum 'C H4 O'"))
    expected = (
        "the atoms add up to C4H4O4, the file's own formula is CH4O; are hydrogen atoms missing?"
    )
    assert record.verdict == f"usable: {expected}"


def test_atoms_that_differ_from_the_formula_in_other_elements_are_refused():
    record = read_one(cif(extra="_chemical_formula_sum 'C2 H2 O4'"))
    assert record.status == "refused"
    expected = "the atoms add up to C4H4O4, the file's own formula is C2H2O4."
    assert record.problem.startswith(expected)


def test_hydrogens_of_the_formula_that_are_not_in_the_file_are_a_warning():
    record = read_one(cif(sites=METHANOL[:2], extra="_chemical_formula_sum 'C H4 O'"))
    expected = "no hydrogen atoms in the file; the model was trained with hydrogens, expect a shift"
    assert record.verdict == f"usable: {expected}"


def test_newer_dotted_tags_are_read():
    text = cif().replace("_atom_site_", "_atom_site.").replace("_cell_", "_cell.")
    assert read_one(text).content == read_one(cif()).content


def test_macromolecular_cif_is_refused_with_what_to_do():
    text = "data_1ABC\n_cell.length_a 10\nloop_\n_atom_site.id\n_atom_site.Cartn_x\n1 2.0\n"
    records = read_structures(
        text.replace("_cell.length_a 10\n", "_cell.other 1\n").encode(), "1abc.cif"
    )
    assert (
        records[0].problem
        == "a macromolecular CIF (_atom_site.Cartn_x) is not supported. Export it as PDB."
    )


def test_text_that_is_not_cif_is_refused_with_the_line():
    assert read_one("hello world\n").problem == "not a CIF: line 1, expected block header (data_)"


def test_data_inside_a_text_field_begins_no_block():
    text = cif() + "_shelx_res_file\n;\ndata_inner\n;\n_unclosed 'x\n" + cif(name="second")
    records = read(text)
    assert [(r.id, r.status) for r in records] == [("shelx", "refused"), ("second", "ready")]


GROUPS = [
    "P -1",
    "P 21/c",
    "C 2/c",
    "P 21 21 21",
    "P n a 21",
    "P b c a",
    "P 32 2 1",
    "R -3 m",
    "P 63/m m c",
]
CELLS = {
    "P -1": (7, 8, 9, 80, 85, 95),
    "P 21/c": (7, 8, 9, 90, 100, 90),
    "C 2/c": (7, 8, 9, 90, 100, 90),
}
CELLS |= dict.fromkeys(["P 21 21 21", "P n a 21", "P b c a"], (7, 8, 9, 90, 90, 90))
CELLS |= dict.fromkeys(["P 32 2 1", "R -3 m", "P 63/m m c"], (14, 14, 18, 90, 90, 120))


@pytest.mark.parametrize("symbol", GROUPS)
def test_expansion_agrees_with_ase_where_ase_reads_the_file(symbol: str):
    sites = [("Si1", "Si", 0.0, 0.0, 0.0), ("O1", "O", 0.11, 0.27, 0.34)]
    text = cif(symbol=symbol, operators=None, sites=sites, cell=CELLS[symbol])
    theirs = ase_read(io.StringIO(text), format="cif")
    ours = read_one(text).atoms
    assert ours is not None
    assert ours.get_chemical_formula() == theirs.get_chemical_formula()
    assert np.allclose(ours.cell.array, theirs.cell.array, atol=1e-9)
    shells = [np.sort(atoms.get_all_distances(mic=True).ravel()) for atoms in (ours, theirs)]
    assert np.allclose(*shells, atol=1e-9)


def test_expansion_gives_as_many_atoms_as_gemmi_in_every_space_group():
    sites = [
        ("Si1", "Si", 0.0, 0.0, 0.0),
        ("O1", "O", 0.2, 0.2, 0.2),
        ("C1", "C", 0.113, 0.231, 0.317),
    ]
    for group in gemmi.spacegroup_table():
        if not group.is_reference_setting():
            continue
        cell = (
            (30, 30, 30, 90, 90, 90)
            if not 143 <= group.number <= 194
            else (30, 30, 30, 90, 90, 120)
        )
        text = cif(symbol=group.xhm(), operators=None, sites=sites, cell=cell)
        theirs = gemmi.make_small_structure_from_block(gemmi.cif.read_string(text)[0])
        assert read_one(text).n_atoms == len(theirs.get_all_unit_cell_sites()), group.xhm()


SALT = [("Na1", "Na", 0.0, 0.0, 0.0), ("Cl1", "Cl", 0.5, 0.5, 0.5)]


def salt(**changes: object) -> str:
    request = {"symbol": "P 1", "operators": None, "cell": (4, 4, 4, 90, 90, 90), "sites": SALT}
    return cif(**(request | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("sign", ["\u2212", "\u2013", "\u2010"])
def test_minus_signs_outside_ascii_are_minus_signs(sign: str):
    record = read_one(salt().replace("Cl 0.5 0.5 0.5", f"Cl 0.5 0.5 {sign}0.5"))
    assert (record.formula, record.status) == ("ClNa", "ready")


def test_value_that_begins_outside_ascii_is_a_value():
    record = read_one(salt(extra="_publ_author_name \u00c5ngstr\u00f6m"))
    assert record.status == "ready"


def test_two_numbers_without_a_space_are_named():
    text = salt().replace("Cl 0.5 0.5 0.5", "Cl 0.5 0.5-0.5")
    assert "'0.5-0.5' is two numbers without a space." in read_one(text).problem


def test_syntax_error_before_the_end_does_not_ask_whether_the_file_is_cut_off():
    record = read_one(salt().replace("_cell_length_b 4", "_cell_length_b 'unclosed"))
    assert "is not valid CIF" in record.problem
    assert "cut off" not in record.problem


def test_triple_quotes_are_named_as_cif_2():
    record = read_one(salt(extra="_publ_section_title '''two\nlines'''"))
    assert "Triple quotes are CIF 2.0, which is not supported; export as CIF 1.1." in record.problem


@pytest.mark.parametrize("value", ["_my.list [1 2 3]", "_my.table {'a':1 'b':2}"])
@pytest.mark.parametrize("header", ["#\\#CIF_2.0\n", ""])
def test_lists_and_tables_are_named_as_cif_2(header: str, value: str):
    problem = read_one(header + salt(extra=value)).problem
    assert problem.endswith(
        "The file is CIF 2.0, with lists or tables as values, which is not supported; export as"
        " CIF 1.1."
    )


@pytest.mark.parametrize("row", ["Cl1 Cl 0.5 0.5 0.5 7", "Cl1 Cl 0.5 0.5"])
def test_row_with_another_number_of_values_than_tags_is_named(row: str):
    text = salt().replace("Cl1 Cl 0.5 0.5 0.5", f"{row}\nBr1 Br 0.2 0.2 0.2")
    line = text.split("\n").index(row) + 1
    problem = read_one(text).problem
    assert problem.endswith(f"Line {line} has another number of values than tags.")


def test_decimal_comma_is_named():
    record = read_one(salt().replace("Cl 0.5 0.5 0.5", "Cl 0,5 0.5 0.5"))
    assert record.problem.endswith("is '0,5', a number with a decimal comma; write a point")


def test_missing_angles_are_right_angles_with_a_warning():
    text = "\n".join(line for line in salt().split("\n") if "_cell_angle" not in line)
    assert read_one(text).verdict == (
        "usable: block shelx has no cell angles; they were taken as 90 degrees, the default of CIF"
    )


def test_one_missing_angle_is_refused():
    text = "\n".join(line for line in salt().split("\n") if "_cell_angle_beta" not in line)
    expected = "the unit cell of block shelx is incomplete: _cell_angle_beta is missing"
    assert read_one(text).problem == expected


def test_cartesian_coordinates_alone_are_refused_with_a_remedy():
    problem = read_one(salt().replace("_fract_", "_Cartn_")).problem
    assert "Export with fractional coordinates (_atom_site_fract_x)" in problem


SALT_CELL = (5.64, 5.64, 5.64, 90, 90, 90)
SALT_SITES = [("Na1", "Na", 0, 0, 0), ("Cl1", "Cl", 0.5, 0.5, 0.5)]
SALT_P1 = [
    (f"{element}{n}", element, x + shift, y, z)
    for element, shift in (("Na", 0.0), ("Cl", 0.5))
    for n, (x, y, z) in enumerate([(0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)])
]


def rock_salt(extra: str, *, symbol: str = "F m -3 m", sites=SALT_SITES):
    return read_one(cif(symbol=symbol, operators=None, cell=SALT_CELL, sites=sites, extra=extra))


def test_z_that_differs_from_the_filled_cell_is_refused():
    record = rock_salt("_chemical_formula_sum 'Na Cl'\n_cell_formula_units_Z 8")
    assert record.status == "refused"
    expected = "the cell has 4 formula units, and the file states Z = 8. Atoms or symmetry"
    assert record.problem.startswith(expected)


def test_z_of_another_cell_is_a_warning_if_the_density_or_all_atoms_are_in_the_file():
    wrong_z = "_chemical_formula_sum 'Na Cl'\n_cell_formula_units_Z 8"
    confirmed = rock_salt(f"{wrong_z}\n_exptl_crystal_density_diffrn 2.16")
    listed = rock_salt(wrong_z, symbol="P 1", sites=SALT_P1)
    for record in (confirmed, listed):
        assert (record.formula, record.status) == ("Cl4Na4", "warning")
        assert record.problem == "the cell has 4 formula units, and the file states Z = 8"


@pytest.mark.parametrize(
    "extra",
    [
        "_chemical_formula_sum 'Na Cl'\n_cell_formula_units_Z 4",
        "_chemical_formula_sum 'Na4 Cl4'\n_cell_formula_units_Z 4",  # as pymatgen and ASE write it
        "_chemical_formula_sum 'Na4 Cl4'\n_cell_formula_units_Z 1",
        "_chemical_formula_sum 'Na Cl'\n_cell_formula_units_Z ?",
        "_exptl_crystal_density_diffrn 2.165(3)",
        "_exptl_crystal_density_diffrn 2165",
    ],
)
def test_z_and_density_of_the_cell_are_ready(extra: str):
    assert rock_salt(extra).verdict == "ready"


@pytest.mark.parametrize(
    ("symbol", "sites", "stated"),
    [
        ("P a -3", [("N1", "N", 0.0561, 0.0561, 0.0561)], "N8"),
        ("F m -3 m", [("Na1", "Na", 0, 0, 0), ("O1", "O", 0.5, 0.5, 0.5)], "'Na4 O4'"),
    ],
    ids=["nitrogen", "peroxide"],
)
def test_z_of_molecules_and_peroxides_may_count_them_as_wholes(symbol, sites, stated):
    units = 4 if stated == "N8" else 2
    extra = f"_chemical_formula_sum {stated}\n_cell_formula_units_Z {units}"
    assert rock_salt(extra, symbol=symbol, sites=sites).verdict == "ready"
    wrong = rock_salt(extra.replace(f"_Z {units}", "_Z 3"), symbol=symbol, sites=sites)
    assert wrong.status == "refused"


def test_density_that_the_atoms_do_not_have_is_a_warning():
    record = rock_salt("_exptl_crystal_density_diffrn 4.33")
    assert record.verdict == (
        "usable: the file states a density of 4.33 g/cm3, and its atoms give 2.16; are atoms"
        " missing or doubled?"
    )

"""How a CIF states its symmetry: Hall symbols, two origins, magnetic and modulated structures."""

import pytest

from tests.unit.structures.samples import cif, read_one
from tests.unit.structures.test_operators import density

SILICON_CELL = (5.4309, 5.4309, 5.4309, 90, 90, 90)
SILICON_DENSITY = 2.33  # g/cm3
ORIGIN_1 = [("Si1", "Si", 0.0, 0.0, 0.0)]
ORIGIN_2 = [("Si1", "Si", 0.125, 0.125, 0.125)]
BOTH = "has two origins"


def silicon(sites: list[tuple[str, str, float, float, float]], *, symbol: str, extra: str = ""):
    return read_one(cif(symbol=symbol, operators=None, cell=SILICON_CELL, sites=sites, extra=extra))


@pytest.mark.parametrize(
    ("symbol", "extra", "sites"),
    [
        ("F d -3 m:1", "", ORIGIN_1),
        ("F d -3 m:2", "", ORIGIN_2),
        ("F d -3 m S", "", ORIGIN_1),
        ("F d -3 m Z", "", ORIGIN_2),
        ("F d -3 m", "_space_group_IT_coordinate_system_code 2", ORIGIN_2),
        ("F d -3 m", "_space_group_name_Hall '-F 4vw 2vw 3'", ORIGIN_2),
        ("F d -3 m", "_symmetry_space_group_name_Hall 'F 4d 2 3 -1d'", ORIGIN_1),
        ("F d -3 m", "_chemical_formula_sum 'Si'\n_cell_formula_units_Z 8", ORIGIN_2),
        ("F d -3 m", "_exptl_crystal_density_diffrn 2.33", ORIGIN_1),
    ],
)
def test_origin_that_the_file_states_or_implies_gives_silicon(symbol, extra, sites):
    record = silicon(sites, symbol=symbol, extra=extra)
    assert (record.formula, record.status) == ("Si8", "ready")
    assert density(record) == pytest.approx(SILICON_DENSITY, abs=0.01)


@pytest.mark.parametrize("sites", [ORIGIN_1, ORIGIN_2])
def test_group_with_two_origins_is_refused_if_nothing_decides(sites):
    record = silicon(sites, symbol="F d -3 m")
    assert record.status == "refused"
    assert BOTH in record.problem
    assert "write F d -3 m:1 or F d -3 m:2" in record.problem


def test_formula_of_two_elements_decides_between_two_origins():
    sites = [("Ti1", "Ti", 0, 0.25, 0.375), ("O1", "O", 0, 0.25, 0.1666)]
    anatase = cif(
        symbol="I 41/a m d",
        operators=None,
        cell=(3.7845, 3.7845, 9.5143, 90, 90, 90),
        sites=sites,
        extra="_chemical_formula_sum 'O2 Ti'",
    )
    record = read_one(anatase)
    assert (record.formula, record.status) == ("O8Ti4", "ready")


def test_density_that_neither_origin_has_is_refused():
    record = silicon(ORIGIN_2, symbol="F d -3 m", extra="_exptl_crystal_density_diffrn 8.9")
    assert BOTH in record.problem


MAGNETIC_LOOP = """loop_
_space_group_symop_magn_operation.id
_space_group_symop_magn_operation.xyz
1 x,y,z,+1
2 -x,-y,-z,-1
loop_
_space_group_symop_magn_centering.id
_space_group_symop_magn_centering.xyz
1 x,y,z,+1
2 x+1/2,y+1/2,z+1/2,-1
"""


def test_magnetic_operators_and_centrings_fill_the_cell():
    sites = [("Mn1", "Mn", 0.1, 0.2, 0.3)]
    text = cif(symbol=None, operators=None, cell=(8, 8, 8, 90, 90, 90), sites=sites)
    record = read_one(text.replace("loop_", MAGNETIC_LOOP + "loop_", 1), "sample.mcif")
    assert (record.formula, record.status) == ("Mn4", "ready")


def test_magnetic_group_without_operators_is_refused():
    text = cif(symbol=None, operators=None, extra="_space_group_magn.number_BNS 136.499")
    assert read_one(text).problem == (
        "block shelx states a magnetic space group and lists no operators"
        " (_space_group_symop_magn_operation.xyz). Export with them, or in P 1."
    )


@pytest.mark.parametrize(
    "extra",
    [
        "_cell_modulation_dimension 1",
        "_space_group_ssg_name 'C2/m(a0g)0s'",
        "loop_\n_atom_site_occ_special_func_atom_site_label\n"
        "_atom_site_occ_special_func_crenel_c\nC1 0.5",
    ],
)
def test_modulated_structure_is_refused(extra: str):
    record = read_one(cif(symbol=None, operators=None, extra=extra))
    assert record.problem.startswith("block shelx is a modulated structure")
    assert "Export a commensurate supercell in P 1" in record.problem


def test_modulation_dimension_of_zero_is_an_ordinary_structure():
    assert read_one(cif(extra="_cell_modulation_dimension 0")).status == "ready"


CUBE = (8, 8, 8, 90, 90, 90)
ONE_SITE = [("Mn1", "Mn", 0.1, 0.2, 0.3)]


@pytest.mark.parametrize(
    "extra",
    [
        "_magnetic_space_group_name_BNS \"P42'/mnm'\"",
        "_space_group_magn.number_BNS 136.499",
        "loop_\n_magnetic_space_group_symop_operation_xyz\n'x,y,z,+1'\n'-x,-y,-z,+1'",
    ],
    ids=["symbol", "number", "operators"],
)
def test_magnetic_symmetry_in_an_unknown_form_is_refused(extra: str):
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=ONE_SITE, extra=extra))
    assert record.problem.startswith("block shelx states a magnetic space group and lists no")


BONDS = """loop_
_geom_bond_atom_site_label_1
_geom_bond_atom_site_label_2
_geom_bond_site_symmetry_2
"""


@pytest.mark.parametrize(
    "extra",
    [
        "_symmetry_space_group_name 'P 42/m n m'",
        "_parent_space_group.name_H-M_alt 'P 42/m n m'",
        "loop_\n_symmetry_equiv_pos_xyz\n'x,y,z'\n'-x,-y,-z'",
        f"{BONDS}Mn1 Mn1 3_655",
    ],
    ids=["symbol", "parent", "operators", "bonds"],
)
def test_symmetry_by_a_tag_that_is_not_read_is_refused(extra: str):
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=ONE_SITE, extra=extra))
    assert "states its symmetry by _" in record.problem
    assert record.status == "refused"


@pytest.mark.parametrize(
    "extra",
    [
        "_symmetry_cell_setting cubic",
        "_space_group_crystal_system cubic",
        "_symmetry_space_group_name 'P 1'",
        "_parent_space_group.name_H-M_alt ?",
        "_space_group_IT_number 1\n_parent_space_group.name_H-M_alt 'P 42/m n m'",
        f"{BONDS}Mn1 Mn1 1_655\nMn1 Mn1 .",
    ],
)
def test_tag_that_states_no_symmetry_leaves_all_atoms_as_listed(extra: str):
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=ONE_SITE, extra=extra))
    assert (record.status, record.formula) != ("refused", ""), record.problem
    assert record.formula == "Mn"


@pytest.mark.parametrize(
    "tag",
    [
        "_cell_subsystems_number 2",
        "_cell_wave_vector_x 0.3",
        "_atom_site_displace_Fourier_id 1",
        "_atom_site_Fourier_wave_vector_x 0.3",
    ],
)
def test_structure_with_modulation_tags_is_refused(tag: str):
    record = read_one(cif(symbol="P 1", operators=None, cell=CUBE, sites=ONE_SITE, extra=tag))
    assert "is a modulated structure" in record.problem


@pytest.mark.parametrize(
    ("operators", "words"),
    [
        (
            ["x,y,z", "-y,x,z"],
            "are no group: -y,x,z after -y,x,z gives an operator that is missing",
        ),
        (["x,y,z", "-x+1/2,-y,z+1/2", "-x,y,-z"], "are no group"),
        (["-x,-y,-z"], "lack the identity x,y,z"),
    ],
    ids=["rotation", "centring", "identity"],
)
def test_operators_that_are_no_group_are_refused(operators: list[str], words: str):
    record = read_one(cif(symbol=None, operators=operators, cell=CUBE, sites=ONE_SITE))
    assert record.status == "refused"
    assert words in record.problem


@pytest.mark.parametrize(
    "extra",
    [
        "_space_group_name_Hall 'P 1'",
        "loop_\n_symmetry_equiv_pos_as_xyz\n'x,y,z'",
        "_symmetry_space_group_name_H-M 'P 1'",
    ],
    ids=["Hall symbol", "operators", "symbol"],
)
def test_number_of_a_space_group_with_more_rotations_than_the_operators_is_a_warning(extra: str):
    number = f"_space_group_IT_number 225\n{extra}"
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=ONE_SITE, extra=number))
    assert (record.formula, record.status) == ("Mn", "warning")
    assert record.problem == (
        "block shelx has the number 225 of a space group with 48 rotations, and its symmetry"
        " operators have 1; the operators were used. Are atoms missing or doubled?"
    )


@pytest.mark.parametrize("number", ["1", "0", "?", "231", "'225 (F m -3 m)'"])
def test_number_of_the_same_space_group_or_of_none_is_no_warning(number: str):
    extra = f"_space_group_IT_number {number}\n_space_group_name_Hall 'P 1'"
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=ONE_SITE, extra=extra))
    assert record.status == "ready"


def test_number_of_a_centred_group_agrees_with_the_operators_of_its_primitive_cell():
    extra = "_space_group_IT_number 225\n_space_group_name_Hall '-P 4 2 3'"
    sites = [("Mn1", "Mn", 0.0, 0.0, 0.0)]
    record = read_one(cif(symbol=None, operators=None, cell=CUBE, sites=sites, extra=extra))
    assert (record.formula, record.status) == ("Mn", "ready")

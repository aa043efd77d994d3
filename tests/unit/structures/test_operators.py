"""Symmetry operators must map the cell onto itself, whatever format they come in."""

import gemmi
import numpy as np
import pytest

from bandgap.structures import StructureRecord
from bandgap.structures.draft import Unreadable
from bandgap.structures.operators import check_group, parse_operations
from bandgap.structures.unit_cells import unit_cell
from tests.unit.structures.samples import PDB, RES, cif, read_one

# Grey arsenic, R -3 m: D. Schiferl and C. S. Barrett, J. Appl. Cryst. 2 (1969) 30.
ARSENIC_RHOMBOHEDRAL = (4.1319, 4.1319, 4.1319, 54.12, 54.12, 54.12)
ARSENIC_HEXAGONAL = (3.7598, 3.7598, 10.5475, 90, 90, 120)
ARSENIC_DENSITY = 5.78  # g/cm3
SILICON = [("Si1", "Si", 0.1, 0.2, 0.3)]
CRYST1 = "CRYST1{:9.3f}{:9.3f}{:9.3f}{:7.2f}{:7.2f}{:7.2f} {:<11}\n"


def density(record: StructureRecord) -> float:
    """Return the density in g/cm3."""
    assert record.atoms is not None
    grams_per_u = 1.66053907e-24
    return float(
        record.atoms.get_masses().sum() * grams_per_u / (record.atoms.get_volume() * 1e-24)
    )


def with_symbol(symbol: str, cell: tuple[float, ...]) -> StructureRecord:
    return read_one(cif(symbol=symbol, operators=None, sites=SILICON, cell=cell))


@pytest.mark.parametrize("symbol", ["R -3 m", "R-3m", "R -3 m:R", "R -3 m R"])
def test_symbol_of_rhombohedral_axes_gives_two_atoms_of_arsenic(symbol: str):
    site = [("As1", "As", 0.227, 0.227, 0.227)]
    record = read_one(cif(symbol=symbol, operators=None, sites=site, cell=ARSENIC_RHOMBOHEDRAL))
    assert (record.formula, record.status) == ("As2", "ready")
    assert density(record) == pytest.approx(ARSENIC_DENSITY, abs=0.02)


@pytest.mark.parametrize("symbol", ["R -3 m", "R -3 m:H", "R -3 m H"])
def test_symbol_of_hexagonal_axes_gives_six_atoms_of_arsenic(symbol: str):
    site = [("As1", "As", 0, 0, 0.227)]
    record = read_one(cif(symbol=symbol, operators=None, sites=site, cell=ARSENIC_HEXAGONAL))
    assert (record.formula, record.status) == ("As6", "ready")
    assert density(record) == pytest.approx(ARSENIC_DENSITY, abs=0.02)


@pytest.mark.parametrize("number", [146, 148, 155, 160, 161, 166, 167])
def test_every_rhombohedral_group_on_rhombohedral_axes_has_the_operators_of_its_r_setting(
    number: int,
):
    hexagonal, rhombohedral = (
        group for group in gemmi.spacegroup_table() if group.number == number and group.ext in "HR"
    )
    record = with_symbol(hexagonal.hm, (9, 9, 9, 70, 70, 70))
    assert record.n_atoms == len(list(rhombohedral.operations()))


@pytest.mark.parametrize(
    ("cell", "image"),
    [
        pytest.param((7, 8, 9, 90, 100, 90), (-0.1, 0.7, -0.3), id="b"),
        pytest.param((7, 8, 9, 90, 90, 100), (-0.1, -0.2, 0.8), id="c"),
        pytest.param((7, 8, 9, 100, 90, 90), (0.6, -0.2, -0.3), id="a"),
    ],
)
def test_short_monoclinic_symbol_takes_the_unique_axis_of_the_cell(
    cell: tuple[float, ...], image: tuple[float, float, float]
):
    atoms = with_symbol("P 21", cell).atoms
    assert atoms is not None and len(atoms) == 2
    assert np.allclose(atoms.get_scaled_positions(), [(0.1, 0.2, 0.3), np.mod(image, 1.0)])


def test_full_monoclinic_symbol_of_the_unique_axis_of_the_cell_is_read():
    record = with_symbol("P 1 1 21/b", (7, 8, 9, 90, 90, 100))
    assert record.n_atoms == 4


@pytest.mark.parametrize(
    ("symbol", "cell"),
    [
        pytest.param("P 21/c", (5, 6, 7, 90, 90, 100), id="a glide along the unique axis"),
        pytest.param("P 1 21 1", (5, 6, 7, 90, 90, 100), id="a full symbol of another unique axis"),
        pytest.param("P m -3 m", (5, 5, 7, 90, 90, 90), id="a cubic group of a tetragonal cell"),
        pytest.param(
            "P m -3 m", (4.0, 4.0, 4.044, 90, 90, 90), id="a cubic group of a cell with c/a = 1.011"
        ),
        pytest.param("P 4", (5, 6, 7, 90, 90, 90), id="a tetragonal group of an orthorhombic cell"),
        pytest.param(
            "P 2 2 2", (5, 6, 7, 90, 91, 90), id="an orthorhombic group of a monoclinic cell"
        ),
        pytest.param(
            "R -3 m:H", (9, 9, 9, 70, 70, 70), id="hexagonal axes stated, rhombohedral cell"
        ),
        pytest.param(
            "P 6", (5, 5, 7, 90, 90, 60), id="a hexagonal group of a cell with gamma = 60"
        ),
    ],
)
def test_symbol_that_is_no_symmetry_of_the_cell_is_refused(symbol: str, cell: tuple[float, ...]):
    record = with_symbol(symbol, cell)
    assert record.status == "refused"
    assert (
        f"of the space group {symbol} (block shelx) does not map the unit cell onto itself"
        in record.problem
    )


def test_refusal_names_the_operator_the_cell_and_the_remedy():
    record = with_symbol("P 21/c", (5, 6, 7, 90, 90, 100))
    assert record.problem == (
        "the symmetry operator -x,y+1/2,-z+1/2 of the space group P 21/c (block shelx) does not "
        "map the unit cell onto "
        "itself (lengths 5, 6, 7 A, angles 90, 90, 100): it belongs to other axes or to another "
        "cell. Export all atoms "
        "of the cell in P 1, or list the operators of these axes "
        "(_space_group_symop_operation_xyz of a CIF)."
    )


def test_operators_listed_in_a_cif_are_checked():
    fourfold = ["x,y,z", "-y,x,z", "-x,-y,z", "y,-x,z"]
    fits = (7.0, 7.0, 9.0, 90, 90, 90)
    misfits = (7.0, 8.0, 9.0, 90, 90, 90)
    assert read_one(cif(symbol="P 4", operators=fourfold, cell=fits)).status == "ready"
    record = read_one(cif(symbol="P 4", operators=fourfold, cell=misfits))
    assert record.problem.startswith(
        "the symmetry operator -y,x,z listed in block shelx does not map the unit cell"
    )


def test_operators_on_hexagonal_axes_without_their_centring_are_a_warning():
    listed = ["x,y,z", "-y,x-y,z", "-x+y,-x,z"]
    record = read_one(
        cif(symbol="R 3", operators=listed, sites=SILICON, cell=(9, 9, 12, 90, 90, 120))
    )
    expected = (
        "block shelx lists 3 symmetry operators and its space group R 3 has 9; the listed ones "
        "were used"
    )
    assert (record.n_atoms, record.problem) == (3, expected)


def test_operators_of_a_hall_symbol_are_checked():
    hall = "_space_group_name_Hall '-P 2ybc'"
    record = read_one(cif(symbol=None, operators=None, cell=(5, 6, 7, 90, 90, 100), extra=hall))
    assert (
        "of the Hall symbol -P 2ybc (block shelx) does not map the unit cell onto itself"
        in record.problem
    )


def test_operators_of_shelx_are_checked():
    record = read_one(
        RES.replace("LATT -1", "LATT -1\nSYMM -y, x, z").replace("6.14 6.14 6.14", "6.14 7 8"),
        "a.res",
    )
    assert record.problem.startswith(
        "the symmetry operator -y,x,z of SYMM and LATT does not map the unit cell"
    )


def test_space_group_of_a_pdb_is_checked():
    record = read_one(CRYST1.format(10, 10, 14, 90, 90, 90, "P 2 3") + PDB, "w.pdb")
    assert "of CRYST1's space group P 2 3 does not map the unit cell onto itself" in record.problem


def test_pdb_on_rhombohedral_axes_has_three_operators():
    record = read_one(
        CRYST1.format(12, 12, 12, 60, 60, 60, "R 3")
        + PDB.replace("0.000   0.000", "3.000   4.000"),
        "w.pdb",
    )
    assert (record.n_atoms, record.status) == (9, "ready")


# Primitive cell of a body-centred cubic lattice: its angles are arccos(-1/3) = 109.4712 degrees.
PRIMITIVE_BODY_CENTRED = ["x,y,z", "-x,-x+z,-x+y"]


def with_primitive_angle(angle: str) -> StructureRecord:
    cell = ("5.4", "5.4", "5.4", angle, angle, angle)
    text = cif(symbol=None, operators=PRIMITIVE_BODY_CENTRED, sites=SILICON, cell=cell)  # type: ignore[arg-type]
    return read_one(text)


@pytest.mark.parametrize("angle", ["109", "109.5", "109.47", "109.471", "109.4712206"])
def test_operators_fit_a_cell_whose_angle_is_rounded(angle: str):
    record = with_primitive_angle(angle)
    assert record.n_atoms == 2


@pytest.mark.parametrize(
    ("lengths", "status"),
    [
        (("5.4", "5.4", "5.5"), "warning"),
        (("5.40", "5.40", "5.50"), "refused"),
        (("5.4", "5.4", "5.5000"), "refused"),
        (("5.40(3)", "5.40(3)", "5.50(3)"), "refused"),
        (("5", "5", "6"), "refused"),
    ],
)
def test_lengths_may_differ_by_the_rounding_of_their_digits(lengths: tuple[str, ...], status: str):
    assert with_symbol("P m -3 m", (*lengths, 90, 90, 90)).status == status  # type: ignore[arg-type]


def test_cell_that_was_relaxed_without_symmetry_is_read():
    record = with_symbol("P m -3 m", (4.0012, 4.0003, 3.9991, 90.02, 89.99, 90.03))
    assert record.n_atoms == 48


def test_error_of_the_metric_follows_the_most_precise_digits():
    values = [5.0, 5.0, 7.0, 90.0, 90.0, 120.0]
    coarse = unit_cell(values, texts=["5.0", "5.0", "7.0", "90", "90", "120"])
    fine = unit_cell(values, texts=["5", "5.0000", "7.0", "90.00", "90", "120"])
    assert np.allclose(
        np.diag(coarse.metric_error - fine.metric_error), 2 * np.array([5, 5, 7]) * (0.05 - 0.00005)
    )
    assert coarse.metric_error[0, 1] > fine.metric_error[0, 1]


def test_operators_of_every_space_group_are_a_group():
    for group in gemmi.spacegroup_table():
        triplets = [operation.triplet() for operation in group.operations()]
        check_group(parse_operations(triplets), origin="of the table")


def test_projection_is_no_group():
    with pytest.raises(Unreadable, match="no group"):
        check_group(parse_operations(["x,y,z", "x,y,0", "-x,-y,z"]), origin="of the table")


def test_operators_of_a_space_group_without_one_are_no_group():
    triplets = [operation.triplet() for operation in gemmi.SpaceGroup("F m -3 m").operations()]
    for missing in (0, 50, len(triplets) - 1):
        listed = triplets[:missing] + triplets[missing + 1 :]
        with pytest.raises(Unreadable, match="no group|lack the identity"):
            check_group(parse_operations(listed), origin="of the table")

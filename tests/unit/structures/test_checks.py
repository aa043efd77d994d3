"""Checks that every structure passes, whatever format it came in."""

import tracemalloc

import gemmi
import numpy as np
import pytest
import scipy.spatial
from ase.neighborlist import neighbor_list

from bandgap.descriptors import config_for, featurize
from bandgap.structures import Limits, neighbours, read_structures
from bandgap.structures.draft import Unreadable
from bandgap.structures.neighbours import check_density, close_pairs, heights
from tests.mutations import time_limit
from tests.unit.structures.samples import METHANE_XYZ, cif, read, read_one

NO_HYDROGEN = "no hydrogen atoms in the file; the model was trained with hydrogens, expect a shift"


def xyz(*rows: str, comment: str = "") -> str:
    return f"{len(rows)}\n{comment}\n" + "\n".join(rows) + "\n"


def test_atoms_too_close_are_refused_by_name_and_distance():
    record = read_one(cif(sites=[("C1", "C", 0.1, 0.1, 0.1), ("O2", "O", 0.13, 0.1, 0.1)]))
    assert record.problem == (
        "atoms C1 and O2 are 0.21 A apart (3 more such pairs). "
        "Atoms closer than 0.5 A are not accepted; look for disorder, doubled atoms or a wrong "
        "unit."
    )


def test_atoms_of_a_molecule_are_named_by_number_and_element():
    record = read_one(xyz("H 0 0 0", "H 0 0 0.4"), "a.xyz")
    assert record.problem.startswith(
        "atoms 1 (H) and 2 (H) are 0.40 A apart. Atoms closer than 0.5 A"
    )


def test_atoms_close_across_the_cells_face_are_refused():
    record = read_one(xyz("H 0 0 0.1", "H 0 0 4.8", comment='Lattice="5 0 0 0 5 0 0 0 5"'), "a.xyz")
    assert "atoms 1 (H) and 2 (H) are 0.30 A apart" in record.problem


def test_the_same_positions_without_periodicity_are_not_refused():
    assert read_one(xyz("H 0 0 0.1", "H 0 0 4.8"), "a.xyz").status == "warning"


def test_hydrogen_molecule_is_ready():
    assert read_one(xyz("H 0 0 0", "H 0 0 0.74"), "a.xyz").status == "ready"


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("pbc", [(True, True, True), (True, True, False), (False, True, False)])
def test_close_pairs_agree_with_ase_in_skewed_cells(seed: int, pbc: tuple[bool, bool, bool]):
    random = np.random.default_rng(seed)
    cell = np.array([[4.0, 0, 0], [7.5, 3.0, 0], [-6.0, 5.0, 3.5]]) + random.normal(
        scale=0.2, size=(3, 3)
    )
    positions = random.uniform(-10, 10, size=(20, 3))
    _, _, ours = close_pairs(positions, cell=cell, pbc=pbc, cutoff_angstrom=2.0)
    from ase import Atoms

    theirs = neighbor_list("d", Atoms("H20", positions=positions, cell=cell, pbc=pbc), 2.0)
    assert np.allclose(np.repeat(np.sort(ours), 2), np.sort(theirs))


def test_heights_of_a_skewed_cell_are_distances_of_its_faces():
    assert np.allclose(
        heights(np.array([[2.0, 0, 0], [2.0, 3.0, 0], [0, 0, 4.0]])), [2 * 3 / np.hypot(2, 3), 3, 4]
    )


@pytest.mark.parametrize(
    "rows",
    [
        ["C 0 0 0", "C 0 0 1.40", "O 0 0 2.7"],
        ["C 0 0 0", "N 0 0 1.47", "I 0 0 5"],
        ["C 0 0 0", "C 0 0 1.33", "F 0 0 2.6"],
    ],
    ids=["chain", "amine", "fluorinated"],
)
def test_organic_structure_without_hydrogens_is_a_warning(rows: list[str]):
    record = read_one(xyz(*rows), "a.xyz")
    assert record.verdict == f"usable: {NO_HYDROGEN}"


@pytest.mark.parametrize(
    "rows",
    [
        ["C 0 0 0", "O 0 0 1.16", "O 0 0 -1.16"],
        ["Ca 0 0 5", "C 0 0 0", "O 1.28 0 0", "O -0.64 1.11 0", "O -0.64 -1.11 0"],
        ["K 0 0 5", "C 0 0 0", "N 0 0 1.16"],
        ["C 0 0 0", "C 0 0 1.40"],
        ["Si 0 0 0", "C 0 0 1.89"],
    ],
    ids=["carbon dioxide", "carbonate", "cyanide", "carbon", "carbide"],
)
def test_inorganic_carbon_without_hydrogens_is_ready(rows: list[str]):
    assert read_one(xyz(*rows), "a.xyz").status == "ready"


def test_cell_without_volume_is_refused():
    record = read_one(xyz("H 0 0 0", comment='Lattice="5 0 0 0 5 0 5 5 0"'), "a.xyz")
    assert record.problem == "the unit cell has no volume: its opposite faces are 0 A apart"


@pytest.mark.parametrize(
    ("pbc", "third"),
    [("T T F", "5.6 5.6 0"), ("T T F", "5.6 5.6 0.1"), ("T T F", "0 0 0"), ("T F F", "5.6 0 0")],
)
def test_open_vector_in_the_plane_of_a_layer_is_left_out_and_the_layer_described(
    pbc: str, third: str
):
    atoms = ["Na 0 0 0", "Cl 2.8 0 0", "Na 2.8 2.8 0", "Cl 0 2.8 0"]
    lattice = f'Lattice="5.6 0 0 0 5.6 0 {third}" Properties=species:S:1:pos:R:3 pbc="{pbc}"'
    record = read_one(xyz(*atoms, comment=lattice), "a.xyz")
    assert record.status == "ready"
    n_periodic = pbc.count("T")
    np.testing.assert_array_equal(record.atoms.cell[n_periodic:], 0.0)
    described = featurize([record], config_for(preset="any-elements"))
    assert described.problems == (None,) and np.isfinite(described.features).all()


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
def test_cell_that_is_not_finite_is_refused(value: str):
    record = read_one(xyz("H 0 0 0", comment=f'Lattice="{value} 0 0 0 5 0 0 0 5"'), "a.xyz")
    assert record.problem == "the unit cell contains a value that is not a finite number"


def test_too_large_coordinates_are_refused():
    record = read_one(xyz("H 0 0 0", "H 0 0 1e9"), "a.xyz")
    assert (
        record.problem
        == "a coordinate or cell vector of 1e+09 A is too large for a structure; is the unit right?"
    )


def test_more_atoms_than_the_limit_are_refused_and_the_limit_can_be_set():
    record = read_structures(METHANE_XYZ.encode(), "m.xyz", limits=Limits(max_atoms=4))[0]
    assert record.problem == "the structure has 5 atoms; the limit is 4"
    assert (
        read_structures(METHANE_XYZ.encode(), "m.xyz", limits=Limits(max_atoms=5))[0].status
        == "ready"
    )


def test_atoms_over_the_limit_after_symmetry_are_refused():
    record = read_structures(cif().encode(), "a.cif", limits=Limits(max_atoms=11))[0]
    assert record.problem == "the structure has 12 atoms in its cell; the limit is 11"


def test_atoms_over_the_limit_by_many_operators_are_refused_before_their_images_are_merged():
    shifts = [f"x+{a}/24,y+{b}/12,z+{c}/6" for a in range(24) for b in range(12) for c in range(6)]
    sites = [(f"C{k}", "C", 0.001 * k, 0.37, 0.013 * k % 1) for k in range(1000)]
    text = cif(symbol=None, operators=shifts, sites=sites, cell=(3.0, 3.0, 3.0, 90.0, 90.0, 90.0))
    with time_limit(2.0):
        (record,) = read_structures(text.encode(), "a.cif")
    assert record.problem.endswith("atoms in its cell; the limit is 1,000")


def crowded(n: int, *, cell: str, pbc: str = "T T T", spread: float = 0.5) -> str:
    """Return n atoms spread over a cube of this edge, in a cell given as in extXYZ."""
    points = np.random.default_rng(0).uniform(0.0, spread, (n, 3))
    comment = f'Lattice="{cell}" Properties=species:S:1:pos:R:3 pbc="{pbc}"'
    return xyz(*("H {:.3f} {:.3f} {:.3f}".format(*point) for point in points), comment=comment)


def test_more_atoms_than_fit_in_the_cell_are_refused_before_pairs_are_sought(
    monkeypatch: pytest.MonkeyPatch,
):
    """No tree of positions is made: a search among the images of these would take gigabytes."""
    monkeypatch.setattr(neighbours, "cKDTree", None)
    record = read_one(crowded(1000, cell="0.5 0 0 0 0.5 0 0 0 0.5"), "a.xyz")
    assert record.problem == (
        "1,000 atoms in a unit cell of 0.125 A^3: some would be closer than 0.5 A, which is not "
        "accepted. "
        "Is the unit of the cell right?"
    )


def test_atoms_in_closest_packing_half_an_angstrom_apart_pass_the_check_of_density():
    edge = 0.5 * np.sqrt(2)  # of a face-centred cube, which has four atoms
    check_density(4, np.eye(3) * edge * 1.0001)
    with pytest.raises(Unreadable, match="5 atoms in a unit cell of"):
        check_density(5, np.eye(3) * edge * 1.0001)


@pytest.mark.parametrize(
    ("pbc", "reason"),
    [
        ("T T F", "225,000 copies of atoms are within 3.5 A of it; no crystal has such a cell"),
        ("T F F", "pairs of atoms are closer than 0.5 A; the limit is 1,000,000"),
    ],
)
def test_crowded_slab_is_refused_before_its_pairs_are_stored(pbc: str, reason: str):
    text = crowded(1000, cell="0.5 0 0 0 0.5 0 0 0 0.5", pbc=pbc, spread=0.3)
    with time_limit(2.0):
        tracemalloc.start()
        record = read_one(text, "a.xyz")
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert reason in record.problem
    assert peak_bytes < 20e6


def test_crystal_with_too_little_volume_per_atom_is_refused():
    lattice = 'Lattice="0.8 0 0 0 0.8 0 0 0 0.8" Properties=species:S:1:pos:R:3'
    record = read_one(f"1\n{lattice}\nH 0 0 0\n", "a.extxyz")
    assert record.problem == (
        "the crystal has 0.51 A^3 per atom, and no solid is below 1. Is the unit of the cell"
        " Angstrom?"
    )


def test_crowded_cell_that_is_expanded_by_symmetry_is_refused_before_its_pairs_are_stored():
    sites = [(f"H{k}", "H", 0, 0, 0) for k in range(900)]
    text = cif(
        symbol=None, operators=["x,y,z", "-x,-y,-z"], sites=sites, cell=(0.6, 0.6, 0.6, 90, 90, 90)
    )
    with time_limit(2.0):
        record = read_one(text)
    assert "pairs of atoms are closer than 0.05 A; the limit is 1,000,000" in record.problem


def test_thousand_atoms_at_one_point_are_counted():
    record = read_one(xyz(*["H 0 0 0"] * 1000), "a.xyz")
    assert "are 0.00 A apart (499,499 more such pairs)" in record.problem


def test_structure_that_exceeds_the_memory_is_refused_and_the_others_are_read(
    monkeypatch: pytest.MonkeyPatch,
):
    class Full(scipy.spatial.cKDTree):
        def sparse_distance_matrix(self, *args: object, **kwargs: object) -> object:
            if self.n == 5:
                raise MemoryError
            return super().sparse_distance_matrix(*args, **kwargs)

    monkeypatch.setattr(neighbours, "cKDTree", Full)
    records = read(METHANE_XYZ + xyz("H 0 0 0", "H 0 0 0.74"), "two.xyz")
    assert [record.status for record in records] == ["refused", "ready"]
    assert records[0].problem.startswith("the structure needs more memory than there is, or")


def test_file_that_exceeds_the_memory_is_refused(monkeypatch: pytest.MonkeyPatch):
    def full(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(gemmi.cif, "read_string", full)
    assert read_one(cif()).problem.startswith("the file needs more memory than there is, or")


ROCK_SALT = ["Na 0 0 0", "Na 2.82 2.82 0", "Na 2.82 0 2.82", "Na 0 2.82 2.82"]
ROCK_SALT += ["Cl 2.82 0 0", "Cl 0 2.82 0", "Cl 0 0 2.82", "Cl 2.82 2.82 2.82"]


def rock_salt(*further_rows: str, length: float = 5.64) -> str:
    lattice = f'Lattice="{length} 0 0 0 {length} 0 0 0 {length}"'
    return xyz(*ROCK_SALT, *further_rows, comment=lattice)


def test_atoms_listed_again_on_the_opposite_border_are_taken_once():
    record = read_one(rock_salt("Na 5.64 0 0", "Na 5.64 5.64 0", "Cl 2.82 0 5.64"), "a.xyz")
    assert (record.formula, record.n_atoms) == ("Cl4Na4", 8)
    assert record.verdict == (
        "usable: 3 of 11 atoms are listed again on the opposite border of the cell and were taken"
        " once"
    )


def test_atom_of_another_element_on_the_opposite_border_is_refused():
    record = read_one(rock_salt("K 5.64 0 0"), "a.xyz")
    assert "are 0.00 A apart" in record.problem


def test_atom_listed_twice_at_the_same_place_is_refused():
    record = read_one(rock_salt("Na 0 0 0"), "a.xyz")
    assert "are 0.00 A apart" in record.problem


def test_cell_that_is_a_hundred_times_too_large_gives_a_warning_of_its_density():
    record = read_one(rock_salt(length=564.0), "a.xyz")
    assert record.verdict == (
        "usable: the mass density is very low (2.2e-06 g/cm3, 2.24e+07 A^3 per atom). Is the unit"
        " of the cell pm? Then divide all lengths by 100."
    )


def test_cell_in_nanometres_is_refused_with_its_unit():
    assert "Is the unit of the cell nm? Then multiply all lengths by 10." in (
        read_one(rock_salt(length=0.564), "a.xyz").problem
    )


def test_primitive_cell_in_nanometres_is_refused_with_its_unit():
    cell = 'Lattice="0 .28265 .28265 .28265 0 .28265 .28265 .28265 0"'
    record = read_one(xyz("Ga 0 0 0", "As .14 .14 .14", comment=cell), "a.xyz")
    assert "0.33 A apart. Is the unit of the cell nm?" in record.problem


def test_cell_that_is_too_large_without_a_known_unit_is_asked_for_its_atoms():
    assert "Is the unit of the cell Angstrom, and are atoms missing?" in (
        read_one(rock_salt(length=60.0), "a.xyz").problem
    )


def dense_gold(length: float) -> str:
    return xyz("Au 0 0 0", comment=f'Lattice="{length} 0 0 0 {length} 0 0 0 {length}"')


@pytest.mark.parametrize(
    ("length", "status"),
    [(2.57, "ready"), (2.38, "warning"), (1.9, "refused")],  # 19, 24.3 and 48 g/cm3
)
def test_density_above_that_of_every_solid_is_warned_of_or_refused(length: float, status: str):
    record = read_one(dense_gold(length), "a.xyz")
    assert record.status == status
    assert ("mass density" in record.problem) == (status != "ready")


def test_density_of_a_molecule_without_a_cell_is_not_judged():
    assert read_one(METHANE_XYZ, "a.xyz").status == "ready"

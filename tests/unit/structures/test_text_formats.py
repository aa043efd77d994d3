"""POSCAR, FHI-aims geometry.in, PDB and SHELX: what is read, and messages about the rest."""

import io
from pathlib import Path

import numpy as np
import pytest
from ase.io import read as ase_read

from bandgap.structures.symmetry import ADVICE as DISORDERED
from tests.unit.structures.samples import AIMS, PDB, POSCAR, RES, read, read_one

CRYST1 = "CRYST1   10.000   11.000   12.000  90.00  90.00  90.00 {:<11}\n"
VECTOR = "expected a lattice vector (three numbers)"
CUT_OFF = "Is the file cut off?"
FVAR_AND_C1 = "FVAR 1.0\nC1 1 0.10 0.20 0.30 11.0"
C1 = "atom C1 has occupancy"


def test_poscar_agrees_with_ase():
    ours = read_one(POSCAR, "POSCAR")
    theirs = ase_read(io.StringIO(POSCAR), format="vasp")
    assert ours.atoms is not None
    assert ours.periodic
    assert ours.atoms.get_chemical_symbols() == theirs.get_chemical_symbols()
    assert np.allclose(ours.atoms.positions, theirs.positions)
    assert np.allclose(ours.atoms.cell.array, theirs.cell.array)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Direct", "Selective dynamics\nDirect"),
        ("Na Cl\n", "Na_pv Cl/1a2b3c\n"),
        ("rock salt\n", "Na Cl\n"),
        ("1.0\n", "-179.406144\n"),
        ("1.0\n", "1.0 1.0 1.0\n"),
        ("0.5 0.5 0.0\n", "0.5 0.5 0.0 T T F Na\n"),
        ("0.5 0.5 0.5\n", "0.5 0.5 0.5\n\n0.0 0.0 0.0\n"),
    ],
    ids=["selective", "potentials", "comment", "volume", "three scales", "flags", "velocities"],
)
def test_poscar_variants_read_the_same(old: str, new: str):
    ours = read_one(POSCAR.replace(old, new, 1), "a.vasp").atoms
    plain = read_one(POSCAR, "a.vasp").atoms
    assert ours is not None
    assert plain is not None
    assert ours.get_chemical_symbols() == plain.get_chemical_symbols()
    assert np.allclose(ours.positions, plain.positions)


def test_cartesian_poscar_is_scaled():
    text = "x\n2.0\n3 0 0\n0 3 0\n0 0 3\nH\n2\nCartesian\n0 0 0\n0 0 0.37\n"
    record = read_one(text, "POSCAR")
    assert record.atoms is not None
    assert record.atoms.positions.tolist() == [[0, 0, 0], [0, 0, 0.74]]
    assert record.atoms.cell.lengths().tolist() == [6, 6, 6]


def test_vasp_4_without_symbols_is_refused_and_with_symbols_in_the_comment_read():
    four = POSCAR.replace("Na Cl\n", "", 1)
    expected = (
        "line 6: no element symbols (VASP 4). Add the line of element symbols above the counts."
    )
    assert read_one(four, "POSCAR").problem == expected
    assert read_one(four.replace("rock salt", "Na Cl"), "POSCAR").formula == "Cl4Na4"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "1.0\n",
            "one\n",
            "line 2: expected the scale (one number, or three above zero), found 'one'",
        ),
        ("0.0 5.64 0.0", "0.0 5.64", f"line 4: {VECTOR}, found '0.0 5.64'"),
        ("4 4", "4 4 4", "lines 6 and 7: 2 element symbols and 3 counts"),
        (
            "4 4",
            "four",
            "lines 6 and 7: expected element symbols and their counts, found 'Na Cl' and 'four'",
        ),
        ("4 4", "4 5", "the counts announce 9 atoms, and 8 positions follow. Is the file cut off?"),
        ("4 4", "4 3", "the counts announce 7 atoms, and more positions follow"),
        ("Direct", "Somewhere", "line 9: expected Direct or Cartesian, found '0.0 0.0 0.0'"),
        ("Direct", "fractional", "line 8: expected Direct or Cartesian, found 'fractional'"),
        (
            "0.5 0.5 0.0",
            "0.5 0.5 nan",
            "line 10: expected three coordinates, found '0.5 0.5 nan', which is not finite",
        ),
        (
            "0.5 0.5 0.0",
            "0.5-0.5 0.0",
            "line 10: expected three coordinates, found '0.5-0.5 0.0'."
            " '0.5-0.5' is two numbers without a space",
        ),
        (
            "5.64 0.0 0.0",
            "inf 0.0 0.0",
            f"line 3: {VECTOR}, found 'inf 0.0 0.0', which is not finite",
        ),
        (
            "5.64 0.0 0.0",
            "0.0 5.64 0.0",
            "the unit cell has no volume: its opposite faces are 0 A apart",
        ),
        ("4 4", "2000 4", "the structure has 2,004 atoms; the limit is 1,000"),
        (
            "Na Cl",
            "Na Xx",
            "atom 5 (Xx) is a dummy atom ('Xx'). Remove dummy and ghost atoms and export again.",
        ),
        ("4 4", "0 0", "the counts announce 0 atoms, and more positions follow"),
    ],
)
def test_invalid_poscar_is_refused_with_the_line(old: str, new: str, expected: str):
    assert read_one(POSCAR.replace(old, new, 1), "POSCAR").problem == expected


def test_poscar_without_lattice_is_refused():
    too_few = (
        "too few lines for a POSCAR: comment, scale, three lattice vectors, elements, counts, atoms"
    )
    assert read_one("x\n1.0\nH\n1\nDirect\n0 0 0\n", "POSCAR").problem == too_few


def test_aims_molecule_and_crystal_are_distinguished():
    assert (read_one(AIMS, "geometry.in").formula, read_one(AIMS, "geometry.in").periodic) == (
        "H2O",
        False,
    )
    lattice = "lattice_vector 5 0 0\nlattice_vector 0 5 0\nlattice_vector 0 0 5\n"
    record = read_one(
        lattice + "atom_frac 0 0 0 Na\natom_frac 0.5 0.5 0.5 Cl\natom 0 0 2.5 H\n", "geometry.in"
    )
    assert record.periodic
    assert record.atoms is not None
    assert record.atoms.positions.tolist() == [[0, 0, 0], [2.5, 2.5, 2.5], [0, 0, 2.5]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            AIMS + "lattice_vector 5 0 0\n",
            "expected no lattice_vector (a molecule) or three (a crystal), found 1",
        ),
        ("atom_frac 0 0 0 H\n", "atom_frac needs three lattice_vector lines, and there is none"),
        (
            AIMS + "atom 0 0\n",
            "line 5: expected three coordinates and an element, found 'atom 0 0'",
        ),
        (AIMS + "atom 0 0 y H\n", "line 5: expected three coordinates, found '0 0 y'"),
        (
            AIMS + "empty 0 0 9 H\n",
            "line 5: ghost atoms (empty) are not supported. Remove them and export again",
        ),
    ],
)
def test_invalid_aims_is_refused(text: str, expected: str):
    assert read_one(text, "geometry.in").problem == expected


def test_aims_line_that_is_not_understood_is_a_warning():
    record = read_one(AIMS + "initial_moment 1\nato 1 2 3 H\n", "geometry.in")
    assert record.verdict == "usable: line 6 ('ato 1 2 3 H') not understood and not read"


def test_pdb_without_a_crystal_is_a_molecule():
    record = read_one(PDB, "water.pdb")
    assert (record.format, record.formula, record.periodic, record.status) == (
        "PDB",
        "H2O",
        False,
        "ready",
    )
    dummy_cell = "CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1\n"
    assert not read_one(dummy_cell + PDB, "water.pdb").periodic


@pytest.mark.parametrize(("group", "n_atoms"), [("P 1", 3), ("", 3), ("P 21 21 21", 12)])
def test_pdb_with_a_cell_is_expanded_by_its_space_group(group: str, n_atoms: int):
    record = read_one(CRYST1.format(group) + PDB, "water.pdb")
    assert (record.periodic, record.n_atoms, record.status) == (True, n_atoms, "ready")


def test_pdb_models_become_separate_structures():
    models = "".join(f"MODEL     {i:4d}\n{PDB.replace('END', 'ENDMDL')}" for i in (1, 2))
    assert [(r.id, r.n_atoms) for r in read(models, "nmr.pdb")] == [("nmr-1", 3), ("nmr-2", 3)]


def test_pdb_element_without_its_columns_comes_from_the_atom_name():
    text = "\n".join(line[:66] for line in PDB.split("\n")) + "\n"
    assert read_one(text, "water.pdb").formula == "H2O"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "0.760   0.590",
            "oops    0.590",
            "line 3: expected three coordinates, found 'oops     0.590    0.000'",
        ),
        ("0.000  1.00", "0.000  0.50", f"atom O has occupancy 0.5. {DISORDERED}"),
        ("HETATM", "REMARK", "no atoms in the file (no ATOM or HETATM line)"),
    ],
)
def test_invalid_pdb_is_refused(old: str, new: str, expected: str):
    assert read_one(PDB.replace(old, new), "w.pdb").problem == expected


def test_pdb_alternative_locations_are_refused():
    text = PDB.replace(" H1  HOH", " H1 AHOH").replace(" H2  HOH", " H2 BHOH")
    assert read_one(text, "w.pdb").problem == f"atom H2 is in disorder group B. {DISORDERED}"


def test_pdb_occupancies_that_are_all_zero_are_ignored():
    assert read_one(PDB.replace("  1.00  0.00", "  0.00  0.00"), "w.pdb").status == "ready"


def test_pdb_with_an_unknown_space_group_or_other_axes_is_refused():
    unknown = read_one(CRYST1.format("P 99") + PDB, "w.pdb").problem
    assert (
        unknown
        == "CRYST1 names the space group 'P 99', which is not known. Export in P 1 or as CIF."
    )
    scale = "".join(f"SCALE{i + 1}    {'  0.500000' * 3}     0.00000\n" for i in range(3))
    other = read_one(CRYST1.format("P 1") + scale + PDB, "w.pdb").problem
    assert other == "SCALE1 to SCALE3 do not fit the cell of CRYST1. Export as CIF."


def test_shelx_lattice_and_symmetry_are_applied():
    assert read_one(RES, "a.res").formula == "CH"
    centred = RES.replace("LATT -1", "LATT 7\nSYMM -x, y+1/2, -z")
    assert read_one(centred, "a.res").formula == "C8H8"


def test_shelx_site_on_a_special_position_with_its_site_factor_is_fully_occupied():
    text = RES.replace("LATT -1", "LATT 1").replace(
        "0.10 0.20 0.30 11.00000", "0.5 0.5 0.5 10.50000"
    )
    record = read_one(text.replace("UNIT 4 4", "UNIT 1 2"), "a.res")
    assert record.formula == "CH2"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("0.30 11.00000", "0.30 10.50000", f"atom C1 has occupancy 0.5. {DISORDERED}"),
        (
            FVAR_AND_C1,
            FVAR_AND_C1.replace("1.0\n", "1.0 0.7\n").replace("11.0", "21.0"),
            f"{C1} 0.7. {DISORDERED}",
        ),
        (
            FVAR_AND_C1,
            FVAR_AND_C1.replace("1.0\n", "1.0 0.7\n").replace("11.0", "-21.0"),
            f"{C1} 0.3. {DISORDERED}",
        ),
        (
            "0.30 11.00000",
            "0.30 31.00000",
            "atom C1 has the site occupation 31, which no FVAR explains",
        ),
        (
            "C1 1 0.10",
            "PART 1\nC9 1 0 0 0\nPART 2\nC1 1 0.10",
            f"atom C1 is in disorder group 2. {DISORDERED}",
        ),
        (
            "CELL 0.71073 6.14 6.14 6.14 90 90 90\n",
            "",
            "no unit cell in the file (CELL is missing)",
        ),
        (
            "0.71073 6.14 6.14 6.14",
            "0.7",
            "line 2: CELL needs a wavelength and six numbers, found 'CELL 0.7 90 90 90'",
        ),
        ("LATT -1", "LATT 9", "line 4: LATT must be 1 to 7 or -1 to -7, found '9'"),
        ("LATT -1", "LATT -1\nSYMM foo", "the symmetry operator 'foo' (SYMM) is not understood"),
        ("H1 2 0.10", "H1 3 0.10", "line 9: atom H1 has scattering factor 3, and SFAC names 2"),
        (
            "H1 2 0.10 0.20 0.45 11.00000 0.05",
            "H1 2 0.1",
            f"line 9: expected an atom, found 'H1 2 0.1'. {CUT_OFF}",
        ),
    ],
)
def test_invalid_shelx_is_refused(old: str, new: str, expected: str):
    assert read_one(RES.replace(old, new), "a.res").problem == expected


def test_shelx_peaks_remarks_fixed_coordinates_and_continuations_are_understood():
    text = RES.replace(
        "0.10 0.20 0.30 11.00000 0.05", "10.10 0.20 0.30 11.00000 0.05 0.05 =\n  0.05 0 0 0", 1
    )
    text = text.replace(
        "ZERR", "    created by a program of 2023\nREM C9 1 0 0 0\nL.S. 10\nZERR", 1
    )
    text = text.replace("HKLF", "Q1 1 0.5 0.5 0.5 11.0 0.05 0.3\nHKLF", 1)
    assert read_one(text, "a.res").content == read_one(RES, "a.res").content


def test_shelx_cut_off_before_its_end_is_a_warning():
    record = read_one(RES.split("HKLF")[0], "a.res")
    assert record.verdict == "usable: the file has neither HKLF nor END; is it cut off?"


def test_shelx_contents_that_disagree_with_the_atoms_are_a_warning():
    record = read_one(RES.replace("UNIT 4 4", "UNIT 4 8"), "a.res")
    assert (
        record.problem
        == "the atoms add up to CH, the file's own formula is C4H8 (UNIT); are atoms missing?"
    )


def test_airss_res_is_read_as_ase_reads_it(tmp_path: Path):
    text = (
        "TITL x -0.1 12.0 -3.0 0 0 4 (P1) n - 1\nCELL 1.0 3 3.5 4 90 90 90\nLATT -1\nSFAC Si O\n"
        "Si 1 0 0 0 1.0\nO 2 0.5 0.5 0.5 1.0\nEND\n"
    )
    (tmp_path / "a.res").write_text(text)
    ours = read_one(text, "a.res").atoms
    theirs = ase_read(tmp_path / "a.res")
    assert ours is not None
    assert ours.get_chemical_symbols() == theirs.get_chemical_symbols()
    assert np.allclose(ours.get_all_distances(mic=True), theirs.get_all_distances(mic=True))


def pdb_atom(name: str, element: str = "  ") -> str:
    return (
        f"HETATM    1 {name} MOL A   1       0.000   0.000   0.000  1.00  0.00          {element}\n"
    )


@pytest.mark.parametrize(("name", "element"), [(" NA ", "N"), (" CL ", "C"), (" CA ", "C")])
def test_pdb_elements_guessed_from_ambiguous_names_are_a_warning(name: str, element: str):
    record = read_one(pdb_atom(name), "a.pdb")
    assert record.formula == element
    assert record.verdict == (
        "usable: columns 77-78 are empty; elements were guessed from atom names, such as"
        f" {element} from {name.strip()}"
    )


@pytest.mark.parametrize(("name", "element"), [(" NA ", " N"), ("NA  ", "NA"), (" O1 ", "  ")])
def test_pdb_elements_that_are_stated_or_clear_give_no_warning(name: str, element: str):
    assert "columns 77-78" not in read_one(pdb_atom(name, element), "a.pdb").verdict


def test_pdb_space_group_with_two_origins_is_refused():
    record = read_one(CRYST1.format("F d -3 m") + PDB, "a.pdb")
    assert "has two origins, and does not say which one" in record.problem.replace(
        "which has", "has"
    )

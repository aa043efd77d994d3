"""Structures in JSON of pymatgen, ASE and JARVIS, and in CSV tables."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import ase
import ase.io
import numpy as np
import pytest

from bandgap.structures import StructureRecord, read_paths, read_structures
from tests.unit.structures.samples import POSCAR

CELL = [[3.0, 0.0, 0.0], [0.0, 3.5, 0.0], [1.0, 0.0, 4.0]]


def site(element: str, abc: list[float], occupancy: float = 1) -> dict[str, Any]:
    return {"species": [{"element": element, "occu": occupancy}], "abc": abc}


PYMATGEN = {
    "@module": "pymatgen.core.structure",
    "@class": "Structure",
    "lattice": {"matrix": CELL},
    "sites": [site("Ga", [0, 0, 0]), site("As", [0.5, 0.5, 0.5])],
}
JARVIS = {
    "lattice_mat": CELL,
    "coords": [[0, 0, 0], [0.5, 0.5, 0.5]],
    "elements": ["Ga", "As"],
    "cartesian": False,
}
ASE = {"numbers": [31, 33], "positions": [[0, 0, 0], [2.0, 1.75, 2.0]], "cell": CELL, "pbc": True}


def read(content: object, name: str = "x.json") -> list[StructureRecord]:
    return read_structures(json.dumps(content).encode(), name)


@pytest.mark.parametrize("structure", [PYMATGEN, JARVIS, ASE], ids=["pymatgen", "JARVIS", "ASE"])
@pytest.mark.parametrize(
    ("wrap", "ids"),
    [
        (lambda s: s, ["x"]),
        (lambda s: [s, s], ["x-1", "x-2"]),
        (lambda s: {"data": [{"material_id": "mp-1", "structure": s, "gap_eV": 1.5}]}, ["mp-1"]),
        (lambda s: [{"jid": "J-1", "atoms": s, "gap_eV": 1.5}], ["J-1"]),
        (lambda s: {"a": s, "b": s}, ["a", "b"]),
    ],
    ids=["one", "list", "data", "atoms", "by id"],
)
def test_json_of_each_program_is_read(structure: Any, wrap: Any, ids: list[str]) -> None:
    records = read(wrap(structure))
    assert [record.id for record in records] == ids
    for record in records:
        assert record.atoms is not None, record.problem
        assert (record.format, record.formula, record.periodic) == ("JSON", "AsGa", True)
        assert record.atoms.positions[1] == pytest.approx([2.0, 1.75, 2.0])
        assert record.info.get("gap_eV", 1.5) == 1.5


def test_json_that_ase_writes_is_read(tmp_path: Path) -> None:
    atoms = ase.Atoms("GaAs", positions=[[0, 0, 0], [2.0, 1.75, 2.0]], cell=CELL, pbc=True)
    molecule = ase.Atoms("CO", positions=[[0, 0, 0], [0, 0, 1.13]])
    path = tmp_path / "two.json"
    ase.io.write(path, [atoms, molecule])
    crystal, other = read_paths([path])
    assert crystal.atoms is not None and other.atoms is not None
    assert (crystal.formula, crystal.periodic, other.formula, other.periodic) == (
        "AsGa",
        True,
        "CO",
        False,
    )
    assert np.allclose(crystal.atoms.cell.array, CELL)


@pytest.mark.parametrize(
    ("structure", "words"),
    [
        (PYMATGEN | {"sites": [site("Ga", [0, 0, 0], 0.5)]}, "site 1 contains 'Ga 0.5'"),
        (PYMATGEN | {"sites": [{"abc": [0, 0, 0]}]}, "must have a list species"),
        (PYMATGEN | {"sites": [site("Qq", [0, 0, 0])]}, "Qq"),
        (PYMATGEN | {"lattice": {"matrix": [[1, 2]]}}, "the matrix of the lattice has the shape"),
        (PYMATGEN | {"sites": 3}, "no list of atoms"),
        (JARVIS | {"coords": [[0, 0, 0]]}, "coords has the shape (1, 3); (2, 3) is expected"),
        (JARVIS | {"coords": "text"}, "coords must be lists of numbers"),
        (ASE | {"numbers": [31, 500]}, "an atom of number 500, which is no element"),
        (ASE | {"pbc": [True]}, "pbc must be one or three"),
        (ASE | {"pbc": ["x"] * 3}, "pbc must be one or three"),
        (ASE | {"symbols": ["Ga", "P"]}, "numbers and symbols name different elements"),
        (ASE | {"positions": [[0, 0, 0], [True, 0, 0]]}, "positions must be lists of numbers"),
        (ASE | {"positions": {"__ndarray__": [[3, 3], "float64", [1.0]]}}, "wrong shape"),
        (JARVIS | {"cartesian": "yes"}, "cartesian is 'yes'. Accepted: true or false"),
        (
            {k: v for k, v in JARVIS.items() if k != "cartesian"}
            | {"coords": [[0, 0, 0], [2.0, 1.75, 2.0]]},
            "does not say whether its coords are Cartesian",
        ),
        ([{"positions": []}, 5], "an entry without a structure"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_structure_is_refused_with_the_reason(structure: Any, words: str) -> None:
    record = read(structure)[-1]
    assert record.status == "refused"
    assert words in record.problem


@pytest.mark.parametrize(
    "changes",
    [
        {"cell": [3.0, 3.5, 4.0]},
        {"cell": [3.0, 3.5, 4.0, 90, 90, 90], "pbc": [1, 1, 1]},
        {"cell": {"array": {"__ndarray__": [[3, 3], "float64", [3, 0, 0, 0, 3.5, 0, 0, 0, 4]]}}},
        {"symbols": ["Ga", "As"], "cell": [3.0, 3.5, 4.0]},
    ],
    ids=["lengths", "lengths and angles", "array", "symbols and numbers"],
)
def test_cell_of_ase_is_read_in_any_notation(changes: Any) -> None:
    (record,) = read(ASE | {"pbc": None} | changes)
    assert record.atoms is not None, record.problem
    assert (record.formula, record.periodic) == ("AsGa", True)
    assert record.atoms.cell.array == pytest.approx(np.diag([3.0, 3.5, 4.0]))


@pytest.mark.parametrize("written", [False, "False", "false"])
def test_fractional_coordinates_of_jarvis_in_any_notation_are_fractional(written: Any) -> None:
    (record,) = read(JARVIS | {"cartesian": written})
    assert record.atoms is not None
    assert record.atoms.positions[1] == pytest.approx([2.0, 1.75, 2.0])


def test_fractional_coordinates_of_pymatgen_count_if_both_are_there() -> None:
    both = [site("Ga", [0, 0, 0]), site("As", [0.5, 0.5, 0.5]) | {"xyz": [2.0, 1.75, 2.0]}]
    wrong = [site("Ga", [0, 0, 0]), site("As", [0.5, 0.5, 0.5]) | {"xyz": [0.5, 0.5, 0.5]}]
    (record,) = read(PYMATGEN | {"sites": both})
    assert record.status == "ready"
    (record,) = read(PYMATGEN | {"sites": wrong})
    assert record.atoms is not None
    assert record.atoms.positions[1] == pytest.approx([2.0, 1.75, 2.0])
    assert record.problem.startswith("1 of 2 sites have other Cartesian coordinates (xyz)")


@pytest.mark.parametrize(
    "vacancy", [site("K", [0.2, 0.2, 0.2], 0), site("Vac0+", [0.2, 0.2, 0.2])], ids=["0", "Vac"]
)
def test_vacant_sites_of_pymatgen_are_left_out_and_named(vacancy: Any) -> None:
    (record,) = read(PYMATGEN | {"sites": [*PYMATGEN["sites"], vacancy]})
    assert (record.formula, record.problem) == ("AsGa", "vacancies were left out: site 3")


def test_json_lines_are_read_and_a_line_that_is_cut_off_is_named() -> None:
    lines = [json.dumps({"material_id": f"mp-{k}", "structure": PYMATGEN}) for k in (1, 2)]
    for name in ("a.jsonl", "a.json"):
        records = read_structures("\n".join(lines).encode(), name)
        assert [(r.id, r.status) for r in records] == [("mp-1", "ready"), ("mp-2", "ready")]
    (record,) = read_structures("\n".join(lines)[:-9].encode(), "a.jsonl")
    assert record.problem.startswith("line 2 of the JSON lines cannot be read")


def test_error_in_the_middle_of_json_does_not_ask_whether_the_file_is_cut_off() -> None:
    (record,) = read_structures(json.dumps(PYMATGEN).replace(":", "=", 1).encode(), "a.json")
    assert record.problem.startswith("not JSON that can be read")
    assert "cut off" not in record.problem


def test_nested_json_is_refused() -> None:
    text = '{"sites": ' + "[" * 1000 + "]" * 1000 + "}"
    (record,) = read_structures(text.encode(), "deep.json")
    assert "nested deeper" in record.problem


def test_truncated_json_is_refused() -> None:
    (record,) = read_structures(json.dumps(PYMATGEN)[:-30].encode(), "cut.json")
    assert "Is the file cut off?" in record.problem


CIF = """data_x
_cell_length_a 4.0
_cell_length_b 4.0
_cell_length_c 4.0
loop_
_atom_site_type_symbol
_atom_site_fract_x
_atom_site_fract_y
_atom_site_fract_z
Cs 0 0 0
Cl 0.5 0.5 0.5
"""


@pytest.mark.parametrize("separator", [",", ";", "\t"])
@pytest.mark.parametrize("name", ["table.csv", "table.txt", "poscar_col.csv", "contcar.tsv"])
def test_csv_table_with_cif_texts_is_read(separator: str, name: str) -> None:
    header = separator.join(["", "material_id", "cif", "gap_eV"])
    rows = [separator.join([str(k), f"00{k}", f'"{CIF}"', f"{k}.5"]) for k in range(2)]
    text = "\n".join([header, *rows])
    records = read_structures(text.encode(), name)
    assert [(r.id, r.formula, r.info["gap_eV"], r.format) for r in records] == [
        ("000", "ClCs", 0.5, "CSV"),
        ("001", "ClCs", 1.5, "CSV"),
    ]


@pytest.mark.parametrize("name", ["poscar_gaps.csv", "CONTCAR.tsv", "geometry.in.csv"])
def test_table_of_gaps_is_named_as_a_table_whatever_its_name_begins_with(name: str) -> None:
    (record,) = read_structures(b"id,gap_eV\na,1.5\nb,2.5\n", name)
    assert record.status == "refused"
    assert "not a structure file (it begins with 'id,gap_eV')" in record.problem
    assert "A table of gaps is given on its own" in record.problem


@pytest.mark.parametrize(
    "name", ["POSCAR", "POSCAR_2", "CONTCAR.old", "poscar.txt", "POSCAR.gz", "XDATCAR.cif"]
)
def test_file_of_vasp_is_read_under_its_names(name: str) -> None:
    data = POSCAR.encode()
    records = read_structures(gzip.compress(data) if name.endswith(".gz") else data, name)
    assert [(record.format, record.atoms is not None) for record in records] == [("POSCAR", True)]


def test_row_of_a_csv_table_without_a_structure_is_refused_alone() -> None:
    text = f'id,cif\na,"{CIF}"\nb,\nc\n'
    records = read_structures(text.encode(), "table.csv")
    assert [record.status for record in records] == ["warning", "refused", "refused"]
    assert "nothing in the column cif" in records[1].problem
    assert "row 4 of the table has 1 cells, and the header 2" in records[2].problem


def test_row_of_a_csv_table_that_is_cut_off_is_refused() -> None:
    text = f'id,cif\na,"{CIF}"\nb,"{CIF}'
    for cut in (text, text.removesuffix("Cl 0.5 0.5 0.5\n")):
        records = read_structures(cut.encode(), "table.csv")
        assert [record.status for record in records] == ["warning", "refused"]
        assert records[1].problem == (
            "row 3 of the table has quotes that are not closed. Is the file cut off?"
        )


def test_csv_table_with_the_line_of_excel_and_escaped_line_ends_is_read() -> None:
    escaped = CIF.replace("\n", "\\n")
    text = f'sep=;\nid;cif\na;"{CIF}"\nb;"{escaped}"\n'
    records = read_structures(text.encode(), "table.csv")
    assert [(r.id, r.formula) for r in records] == [("a", "ClCs"), ("b", "ClCs")]


def test_table_of_gaps_is_no_structure_file() -> None:
    (record,) = read_structures(b"cif,gap_eV\na.cif,1.0\n", "labels.csv")
    assert "not a structure file" in record.problem


def test_large_cell_of_a_csv_table_is_refused() -> None:
    text = io.StringIO()
    text.write(f'id,cif\na,"{CIF}{"# " * 100_000}\n"\n')
    (record,) = read_structures(text.getvalue().encode(), "table.csv")
    assert "the table cannot be read after row 1" in record.problem


def test_optimade_response_with_more_data_says_so() -> None:
    attributes = {
        "cartesian_site_positions": [[0, 0, 0]],
        "species_at_sites": ["Cu"],
        "species": [{"name": "Cu", "chemical_symbols": ["Cu"], "concentration": [1]}],
        "lattice_vectors": [[2.5, 0, 0], [0, 2.5, 0], [0, 0, 2.5]],
    }
    entry = {"id": "mp-30", "attributes": attributes}
    response = {"data": [entry], "meta": {"more_data_available": True}}
    first, more = read(response)
    assert (first.id, first.status) == ("mp-30", "ready")
    assert more.status == "refused"
    assert "the server has more structures than this response" in more.problem
    assert len(read(response | {"meta": {"more_data_available": False}})) == 1

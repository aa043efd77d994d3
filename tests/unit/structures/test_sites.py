"""What one site is, and warnings on atoms that are missing or are not what they are called."""

import json

import pytest

from bandgap.structures import StructureRecord
from tests.unit.structures.samples import POSCAR, RES, cif, optimade, read_one

CUBE = (4.0, 4.0, 4.0, 90.0, 90.0, 90.0)
IRON = [("Fe1", "Fe2+"), ("Fe2", "Fe3+")]
HYDROGEN = [("H1", "H"), ("D1", "D")]


def of_cif(*species: tuple[str, str], x: float = 1.0, **columns: list[str]) -> StructureRecord:
    """Two species at x = 0 and x, which is the same place by default, and chlorine."""
    places = zip(species, (0, x), strict=True)
    sites = [(label, symbol, place, 0, 0) for (label, symbol), place in places]
    sites.append(("Cl1", "Cl", 0.5, 0.5, 0.5))
    all_columns = {"occupancy": ["0.4", "0.6", "1"]} | columns
    text = cif(symbol="P 1", operators=["x,y,z"], sites=sites, columns=all_columns, cell=CUBE)
    return read_one(text)


def of_pymatgen(*species: tuple[str, float]) -> StructureRecord:
    parts = [{"element": element, "occu": share} for element, share in species]
    chlorine = {"species": [{"element": "Cl"}], "abc": [0.5, 0.5, 0.5]}
    sites = [{"species": parts, "abc": [0, 0, 0]}, chlorine]
    names = ("a", "b", "c", "alpha", "beta", "gamma")
    lattice = dict(zip(names, CUBE, strict=True))
    return read_one(json.dumps({"lattice": lattice, "sites": sites}), "a.json")


@pytest.mark.parametrize(
    ("record", "formula"),
    [
        (of_cif(*IRON), "ClFe"),
        (of_cif(*IRON, disorder_group=["1", "2", "."]), "ClFe"),
        (of_cif(*HYDROGEN), "HCl"),
        (of_cif(("Fe1", "Fe2+/Fe3+"), ("B1", "B"), x=0.5, occupancy=["1"] * 3), "BClFe"),
        (of_pymatgen(("Fe", 0.25), ("Fe", 0.75)), "ClFe"),
        (of_pymatgen(("H", 0.5), ("D", 0.5)), "HCl"),
    ],
    ids=["valence", "groups", "isotopes", "type", "pymatgen", "pymatgen isotopes"],
)
def test_states_of_one_element_on_one_site_are_one_atom(record: StructureRecord, formula: str):
    assert record.formula == formula, record.problem


def test_species_of_one_element_in_optimade_are_one_atom():
    iron = {"name": "Na", "chemical_symbols": ["Na", "Na"], "concentration": [0.4, 0.6]}
    chlorine = {"name": "Cl", "chemical_symbols": ["Cl"], "concentration": [1]}
    response = json.loads(optimade(species=[iron, chlorine]))
    response["data"] = response["data"][1:]
    assert read_one(json.dumps(response), "a.json").formula == "ClNa"


@pytest.mark.parametrize(
    "record",
    [
        of_cif(("Fe1", "Fe2+"), ("Co1", "Co3+")),
        of_cif(*IRON, occupancy=["0.4", "0.4", "1"]),
        of_cif(*IRON, x=0.2),
        of_pymatgen(("Fe", 0.5), ("Co", 0.5)),
        of_pymatgen(("Fe", 0.5), ("Fe", 0.4)),
    ],
    ids=["elements", "partly", "apart", "pymatgen", "pymatgen partly"],
)
def test_disordered_site_is_refused(record: StructureRecord):
    assert "Disordered structures are not supported" in record.problem


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        (cif(extra="_smtbx_masks_special_details 'one void'"), "a.cif", "SQUEEZE or a mask"),
        (cif(extra="_shelx_fab_file\n;\n0 0 1 2.0 3.0\n;"), "a.cif", "SQUEEZE or a mask"),
        (
            cif(
                extra="loop_\n_smtbx_masks_void_nr\n_smtbx_masks_void_count_electrons\n"
                "1 40.5\n2 19.5(3)"
            ),
            "a.cif",
            "60 electrons of it",
        ),
        (RES.replace("FVAR", "ABIN\nFVAR"), "a.res", "(ABIN) of it are not in the atoms"),
        (POSCAR.replace("Na Cl", "H.5 Cl"), "POSCAR", "H.5 is a pseudo-hydrogen"),
        (POSCAR.replace("Na Cl", "H1.25 Cl"), "POSCAR", "H1.25 is a pseudo-hydrogen"),
        ("2\n\nGa 0 0 0\nAs 1.4 1.4 1.4\n", "a.xyz", "there is no cell"),
        ('{"symbols": ["Na", "Cl"], "positions": [[0, 0, 0], [2.8, 0, 0]]}', "a.json", "no cell"),
        ("1\n i = 3, time = 1.5, E = -1.0\nC 0 0 0\n", "a.xyz", "there is no cell"),
    ],
)
def test_what_the_atoms_are_not_is_a_warning(text: str, name: str, words: str):
    record = read_one(text, name)
    assert record.status == "warning" and words in record.problem


@pytest.mark.parametrize(
    "rows", ["S 0 0 0\nO 1.4 0 0\nO 0 1.4 0", "O 0 0 0.1\nH 0.76 0 -0.5\nH -0.76 0 -0.5"]
)
def test_molecule_without_a_cell_is_ready(rows: str):
    assert read_one(f"3\n\n{rows}\n", "a.xyz").status == "ready"

"""Structures of OPTIMADE responses, and what is said of those that cannot be used."""

import gzip
import json

import numpy as np
import pytest

from bandgap.structures import Limits, read_structures
from tests.unit.structures.samples import optimade


def read(text: str, name: str = "a.json", **limits: int):
    return read_structures(text.encode(), name, limits=Limits(**limits))


def test_entries_become_a_molecule_and_a_crystal():
    water, salt = read(optimade())
    assert (water.id, water.format, water.formula, water.periodic, water.status) == (
        "w/1",
        "OPTIMADE",
        "H2O",
        False,
        "ready",
    )
    assert dict(water.info) == {"_exmpl_gap_eV": 7.5, "_exmpl_note": "made up"}
    assert (salt.id, salt.formula, salt.periodic, salt.status) == ("n/2", "ClNa", True, "ready")
    assert salt.atoms.cell.volume == pytest.approx(2 * 2.82**3)
    np.testing.assert_array_equal(water.atoms.positions[1], [0.0, 0.76, -0.47])


def test_single_entry_and_other_names_are_read():
    entry = json.dumps({"data": json.loads(optimade())["data"][1]})
    for text, name in (
        (entry, "response.json"),
        (entry, "response"),
        (json.dumps(json.loads(entry), indent=2), "a.txt"),
    ):
        (record,) = read(text, name)
        assert (record.format, record.formula) == ("OPTIMADE", "ClNa")
    (record,) = read_structures(gzip.compress(entry.encode()), "a.json.gz")
    assert record.formula == "ClNa"


def test_slab_is_periodic_along_two_axes():
    vectors = [[3.0, 0, 0], [0, 3.0, 0], [None, None, None]]
    _, slab = read(optimade(dimension_types=[1, 1, 0], lattice_vectors=vectors))
    assert slab.atoms.pbc.tolist() == [True, True, False] and slab.atoms.cell.array[2].tolist() == [
        0,
        0,
        0,
    ]


def kind(name="Na", symbols=("Na",), shares=(1.0,)):
    return {"name": name, "chemical_symbols": list(symbols), "concentration": list(shares)}


REFUSED = {
    "two elements": (
        {"species": [kind(symbols=("Na", "K"), shares=(0.5, 0.5))]},
        "contains 'Na 0.5, K 0.5'.",
    ),
    "part of an atom": (
        {"species": [kind(shares=(0.7,))]},
        "Disordered structures are not supported",
    ),
    "no species of a site": ({"species": [kind()]}, "the site 'Cl' has no entry in species"),
    "number of sites": ({"nsites": 8}, "the entry has nsites 8 and lists 2 sites"),
    "formula": ({"chemical_formula_reduced": "Cl2Na"}, "the file's own formula is Cl2Na"),
    "implicit atoms": ({"structure_features": ["implicit_atoms"]}, "atoms without positions"),
    "disorder": ({"structure_features": ["disorder"]}, "has the feature disorder. Disordered"),
    "assemblies": ({"structure_features": ["assemblies"]}, "has the feature assemblies"),
    "species of nothing": (
        {"species": [{}]},
        "species must have name, chemical_symbols and concentration",
    ),
    "no sites": ({"species_at_sites": None}, "species_at_sites must be a list of names"),
    "too few positions": (
        {"cartesian_site_positions": [[0, 0, 0]]},
        "three coordinates for each of 2 sites",
    ),
    "words": ({"cartesian_site_positions": [["x", 0, 0], [0, 0, 0]]}, "must be lists of numbers"),
    "no number": (
        {"cartesian_site_positions": [[None, 0, 0], [1, 0, 0]]},
        "is not a finite number",
    ),
    "too large": (
        {"cartesian_site_positions": [[10**400, 0, 0], [1, 0, 0]]},
        "must be lists of numbers",
    ),
    "two vectors": (
        {"lattice_vectors": [[1, 0, 0], [0, 1, 0]]},
        "lattice_vectors must be three vectors",
    ),
    "no such element": ({"species_at_sites": ["Na", "Qq"]}, "Qq"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_invalid_entry_is_refused_and_the_other_is_read(changes, words):
    water, other = read(optimade(**changes))
    assert water.status == "ready" and other.status == "refused"
    assert words in other.problem and other.id == "n/2"


def test_response_that_is_cut_off_or_invalid_is_refused():
    (record,) = read(optimade()[:-40])
    assert (
        record.problem.startswith("not JSON that can be read (")
        and "Is the file cut off?" in record.problem
    )
    (record,) = read('["data", {"data": 1, "cartesian_site_positions": 2}]')
    assert record.problem == "JSON without the key data at its top: no response of OPTIMADE"
    for entry in ("1", '{"attributes": 1}', '{"attributes": ["text"]}', '{"attributes": null}'):
        (record,) = read('{"data": [' + entry + '], "cartesian_site_positions": 2}')
        assert record.problem == "an entry of the response without attributes"
    (record,) = read('{"data": []}')
    assert record.problem.startswith("this JSON is not opened. It has no atoms with positions")
    deep = '{"cartesian_site_positions": 1, "data": ' + "[" * 200_000
    assert "not JSON that can be read" in read(deep)[0].problem


def test_limits_of_atoms_and_structures_hold():
    assert "has 3 atoms; the limit is 2" in read(optimade(), max_atoms=2)[0].problem
    assert read(optimade(), max_structures=1)[1].problem.startswith(
        "the remaining structures were not read: the limit is 1 structures. Split"
    )


def test_vacancies_are_left_out_and_named():
    _, salt = read(
        optimade(
            species_at_sites=["Na", "Cl", "v"],
            cartesian_site_positions=[[0, 0, 0], [2.82] * 3, [1.41] * 3],
            species=[kind(), kind("Cl", ("Cl",)), kind("v", ("vacancy",))],
            chemical_formula_reduced="ClNa",
        )
    )
    assert (salt.formula, salt.problem) == ("ClNa", "vacancies were left out: 3 (v)")


def test_species_of_a_site_counts_and_not_its_name():
    _, salt = read(
        optimade(species_at_sites=["Fe", "Cl"], species=[kind("Fe"), kind("Cl", ("Cl",))])
    )
    assert (salt.formula, salt.status) == ("ClNa", "ready")


HEADER = {"x-optimade": {"meta": {"api_version": "1.2.0"}}}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"structures": {"nelements=2": {"https://x.org": json.loads(optimade())}}}),
        json.dumps(json.loads(optimade())["data"]),
        "\n".join(map(json.dumps, [HEADER, *json.loads(optimade())["data"]])) + "\n",
    ],
    ids=["optimade-client", "entries", "JSON lines"],
)
@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_entries_in_other_containers_are_read(text: str, name: str):
    records = read(text, name)
    assert [(r.id, r.formula, r.status) for r in records] == [
        ("w/1", "H2O", "ready"),
        ("n/2", "ClNa", "ready"),
    ]


def test_entry_alone_and_its_attributes_alone_are_read():
    entry = json.loads(optimade())["data"][1]
    for content in (entry, entry["attributes"]):
        (record,) = read(json.dumps(content))
        assert (record.format, record.formula, record.status) == ("OPTIMADE", "ClNa", "ready")

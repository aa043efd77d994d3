"""Elements of CIF sites: type symbols, labels that name no element, sites of several elements."""

import pytest

from bandgap.structures.symmetry import ADVICE
from tests.unit.structures.samples import cif, read_one

CELL = (6.0, 6.0, 6.0, 90, 90, 90)


def one_site(label: str, type_symbol: str = "?", *, extra: str = ""):
    sites = [(label, type_symbol, 0.1, 0.2, 0.3)]
    return read_one(cif(symbol="P 1", operators=None, cell=CELL, sites=sites, extra=extra))


@pytest.mark.parametrize(
    ("label", "element"),
    [
        ("W1A", "W"),
        ("Wat", "O"),
        ("Ow", "O"),
        ("Hw1", "H"),
        ("Oh", "O"),
        ("FeA", "Fe"),
        ("Si_oct", "Si"),
        ("C12A", "C"),
        ("Cl1", "Cl"),
        ("CL1", "Cl"),
        ("CuB1", "Cu"),
        ("OSi", "O"),
        ("D1", "H"),
    ],
)
def test_label_without_a_type_symbol_gives_its_element(label: str, element: str):
    record = one_site(label)
    assert record.atoms is not None
    assert record.atoms.get_chemical_symbols() == [element]


@pytest.mark.parametrize(
    "label", ["T1", "Da1", "Xyl", "M1", "Hol", "Nat", "A1", "Q1", "Cn1", "No1", "WA1"]
)
def test_label_that_names_no_element_is_refused(label: str):
    record = one_site(label)
    assert record.problem == (
        f"the label '{label}' names no element. Add the element of every atom as"
        " _atom_site_type_symbol."
    )


@pytest.mark.parametrize(
    ("label", "elements"),
    [
        ("FE1", "F or Fe"),
        ("CA1", "C or Ca"),
        ("NaK1", "Na or K"),
        ("ClBr", "Cl or Br"),
        ("Na_K1", "Na or K"),
    ],
)
def test_label_that_may_mean_two_elements_is_refused(label: str, elements: str):
    assert one_site(label).problem == (
        f"the label '{label}' may mean {elements}. Add the element of every atom as"
        " _atom_site_type_symbol."
    )


@pytest.mark.parametrize(
    ("label", "formula", "element"),
    [
        ("FE1", "Fe", "Fe"),
        ("CA1", "Ca", "Ca"),
        ("CA1", "C", "C"),
        ("NaK", "Na", "Na"),
        ("D1", "D", "H"),
        ("Cn1", "C", "C"),
        ("No1", "No", "No"),
    ],
)
def test_formula_decides_between_the_elements_of_a_label(label: str, formula: str, element: str):
    record = one_site(label, extra=f"_chemical_formula_sum '{formula}'")
    assert record.formula == element, record.problem


@pytest.mark.parametrize(
    ("label", "type_symbol"),
    [("Vac1", "?"), ("Bq1", "?"), ("Z1", "Vac"), ("Z1", "Bq"), ("Z1", "Vac0"), ("Du1", "?")],
)
def test_vacancy_or_ghost_atom_is_left_out_and_named(label: str, type_symbol: str):
    sites = [("Fe1", "Fe", 0.0, 0.0, 0.0), (label, type_symbol, 0.5, 0.5, 0.5)]
    record = read_one(cif(symbol="P 1", operators=None, cell=CELL, sites=sites))
    assert (record.formula, record.problem) == ("Fe", f"dummy atoms were left out: {label}")


def test_word_counts_if_the_formula_has_its_element():
    assert one_site("Oap1", extra="_chemical_formula_sum 'O'").formula == "O"


@pytest.mark.parametrize("type_symbol", ["D", "T", "D0"])
def test_isotopes_by_type_symbol_are_hydrogen(type_symbol: str):
    assert one_site("X1", type_symbol).formula == "H"


@pytest.mark.parametrize("type_symbol", ["Fe2.67+", "Fe3+", "Fe+3", "Fe+2.67", "Fe0+", "Fe"])
def test_type_symbol_with_a_charge_is_its_element(type_symbol: str):
    assert one_site("M1", type_symbol).formula == "Fe"


@pytest.mark.parametrize(
    ("label", "type_symbol", "text", "elements"),
    [
        ("Nb,Zr", "?", "Nb,Zr", "Nb and Zr"),
        ("Fe/Co", "?", "Fe/Co", "Fe and Co"),
        ("T1", "0.75Si + 0.25Al", "0.75Si + 0.25Al", "Si and Al"),
        ("M1", "Fe0.5Co0.5", "Fe0.5Co0.5", "Fe and Co"),
        ("M1", "(Mg,Fe)", "(Mg,Fe)", "Mg and Fe"),
        ("M1", "NaK", "NaK", "Na and K"),
    ],
)
def test_site_of_several_elements_is_refused_as_disorder(label, type_symbol, text, elements):
    written = f"'{type_symbol}'" if " " in type_symbol else type_symbol
    assert one_site(label, written).problem == (
        f"atom {label} has the elements {elements} ('{text}'). {ADVICE}"
    )


def test_dummy_atoms_and_empty_sites_are_left_out_and_named():
    sites = [
        ("C1", "C", 0, 0, 0),
        ("O1", "O", 0, 0, 0.2),
        ("Cg1", "C", 0.01, 0, 0.1),
        ("X1", "N", 0.5, 0.5, 0.5),
    ]
    columns = {"calc_flag": ["d", "d", "dum", "d"], "occupancy": ["1", "1", "1", "0"]}
    record = read_one(cif(symbol="P 1", operators=None, cell=CELL, sites=sites, columns=columns))
    assert record.formula == "CO"
    assert record.verdict == (
        "usable: dummy atoms were left out: Cg1; sites of occupancy 0 were left out: X1"
    )


def test_attached_hydrogens_that_are_not_listed_give_a_warning():
    sites = [("Al1", "Al", 0, 0, 0), ("O1", "O", 0.3, 0.3, 0.3)]
    columns = {"attached_hydrogens": ["0", "1"]}
    record = read_one(cif(symbol="P 1", operators=None, cell=CELL, sites=sites, columns=columns))
    assert record.status == "warning"
    assert "the file states 1 hydrogen atoms (_atom_site_attached_hydrogens)" in record.problem


def test_attached_hydrogens_that_are_listed_give_no_warning():
    sites = [("O1", "O", 0.3, 0.3, 0.3), ("H1", "H", 0.3, 0.3, 0.46)]
    columns = {"attached_hydrogens": ["1", "0"]}
    record = read_one(cif(symbol="P 1", operators=None, cell=CELL, sites=sites, columns=columns))
    assert record.status == "ready"

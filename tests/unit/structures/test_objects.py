"""Structures of ASE, pymatgen and paths become records by the checks that files get."""

import io
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ase.io
import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.foundation.errors import InputError
from bandgap.structures import StructureRecord, as_records, read_structures
from tests.unit.structures.samples import METHANE_XYZ, POSCAR, cif


@dataclass
class Element:
    """An element as pymatgen has it."""

    symbol: str

    def __hash__(self) -> int:
        return id(self)


@dataclass
class Site:
    species: dict[Element, float]
    coords: Any


@dataclass
class Lattice:
    matrix: np.ndarray
    pbc: tuple[bool, bool, bool] = (True, True, True)


@dataclass
class PymatgenMolecule:
    """The attributes of a pymatgen Molecule that are read."""

    sites: list[Site]
    properties: dict[str, Any] = field(default_factory=dict)
    is_ordered: bool = True

    def __iter__(self):
        return iter(self.sites)


@dataclass
class PymatgenStructure(PymatgenMolecule):
    lattice: Lattice = field(default_factory=lambda: Lattice(4.1 * np.eye(3)))


def site(symbols: dict[str, float], *coords: float) -> Site:
    species = {Element(symbol): amount for symbol, amount in symbols.items()}
    return Site(species, np.array(coords))


def caesium_chloride(first: dict[str, float] | None = None) -> PymatgenStructure:
    return PymatgenStructure([site(first or {"Cs": 1.0}, 0, 0, 0), site({"Cl": 1.0}, *[2.05] * 3)])


def test_atoms_become_a_record_with_the_same_geometry():
    crystal = bulk("NaCl", "rocksalt", 5.64)
    (record,) = as_records(crystal)
    assert (record.id, record.format, record.status) == ("structure-1", "ASE", "ready")
    assert record.formula == "ClNa"
    np.testing.assert_array_equal(record.atoms.positions, crystal.positions)
    np.testing.assert_array_equal(record.atoms.cell.array, crystal.cell.array)
    assert record.atoms.pbc.all()


def test_record_does_not_change_with_the_users_atoms():
    atoms = molecule("CH4")
    (record,) = as_records(atoms)
    content = record.content
    atoms.positions += 1.0
    assert record.content == content


def test_atoms_and_the_same_file_give_the_same_geometry():
    (of_file,) = read_structures(POSCAR.encode(), "POSCAR")
    (of_atoms,) = as_records(of_file.atoms)
    assert of_atoms.content == of_file.content


def test_ids_come_from_info_or_the_number_and_are_unique():
    first = molecule("CH4")
    first.info = {"id": "methane", "gap_eV": np.float64(9.5), "levels": [1, 2]}
    records = as_records([first, molecule("H2O"), first])
    assert [record.id for record in records] == ["methane", "structure-2", "methane-2"]
    assert records[0].info == {"id": "methane", "gap_eV": 9.5}


def test_records_are_returned_as_they_are():
    records = read_structures(METHANE_XYZ.encode(), "a.xyz")
    assert as_records(records[0]) == records
    assert as_records([*records, *records]) == [*records, *records]


@pytest.mark.parametrize("container", [tuple, iter, lambda items: np.array([*items, None])[:-1]])
def test_collections_of_any_kind_are_accepted(container, tmp_path: Path):
    (tmp_path / "methane.xyz").write_text(METHANE_XYZ)
    items = [str(tmp_path / "methane.xyz"), tmp_path / "methane.xyz"]
    records = as_records(container(items))
    assert [record.id for record in records] == ["methane", "methane-2"]


def test_items_of_several_kinds_can_be_mixed(tmp_path: Path):
    (tmp_path / "two.xyz").write_text(2 * METHANE_XYZ)
    record = StructureRecord("mine", "", "", molecule("H2O"))
    records = as_records([record, tmp_path, molecule("C2H6"), caesium_chloride()])
    assert [r.formula for r in records] == ["H2O", "CH4", "CH4", "C2H6", "ClCs"]
    assert records[0] is record


def too_close() -> Atoms:
    return Atoms("H2", positions=[(0, 0, 0), (0, 0, 0.3)])


def disordered_atoms() -> Atoms:
    """Atoms of a CIF with a shared site, of which ASE keeps one element without a warning."""
    text = cif(
        symbol="P 1",
        operators=["x,y,z"],
        sites=[("Na1", "Na", 0, 0, 0), ("K1", "K", 0, 0, 0), ("Cl1", "Cl", 0.5, 0.5, 0.5)],
        columns={"occupancy": ["0.5", "0.5", "1"]},
        cell=(4.0, 4.0, 4.0, 90.0, 90.0, 90.0),
    )
    return ase.io.read(io.StringIO(text), format="cif")


def partly_occupied() -> Atoms:
    atoms = molecule("CH4")
    atoms.set_array("occupancy", np.array([1, 1, 0.5, 1, 1]))
    return atoms


def without_lattice() -> Atoms:
    return Atoms("CH4", positions=molecule("CH4").positions, pbc=True)


def not_finite() -> Atoms:
    atoms = molecule("CH4")
    atoms.positions[2, 1] = np.nan
    return atoms


@pytest.mark.parametrize(
    "structure, reason",
    [
        (too_close(), "atoms 1 (H) and 2 (H) are 0.30 A apart"),
        (disordered_atoms(), "an atom contains 'Na 0.5, K 0.5'. Disordered"),
        (partly_occupied(), "atom 3 (H) has occupancy 0.5. Disordered"),
        (without_lattice(), "marked as periodic and has no lattice"),
        (not_finite(), "the position of atom 3 (H) is not a finite number"),
        (Atoms("X"), "is a dummy atom"),
        (Atoms(), "no atoms in the structure"),
        (caesium_chloride({"Cs": 0.6, "Rb": 0.4}), "atom 1 (Cs) contains 'Cs 0.6, Rb 0.4'"),
        (caesium_chloride({"Cs": 0.6}), "atom 1 (Cs) contains 'Cs 0.6'"),
        (PymatgenMolecule([]), "no atoms in the structure"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_structures_that_cannot_be_used_are_refused_with_the_reason(structure, reason: str):
    (record,) = as_records(structure)
    assert record.status == "refused"
    assert reason in record.problem


def test_cell_without_periodicity_is_named():
    atoms = molecule("CH4")
    atoms.set_cell([10, 10, 10])
    (record,) = as_records(atoms)
    assert record.status == "warning"
    assert "it is read as a molecule. For a crystal set atoms.pbc = True" in record.problem


def test_pymatgen_structure_and_molecule_are_read_by_their_attributes():
    crystal = caesium_chloride()
    crystal.properties = {"id": "CsCl", "site_order": [1]}
    water = PymatgenMolecule(
        [site({"O": 1.0}, 0, 0, 0), site({"H": 1.0}, 0, 0, 0.96), site({"D": 1.0}, 0.96, 0, 0)]
    )
    of_crystal, of_water = as_records([crystal, water])
    assert (of_crystal.id, of_crystal.format, of_crystal.status) == ("CsCl", "pymatgen", "ready")
    np.testing.assert_allclose(of_crystal.atoms.cell.array, 4.1 * np.eye(3))
    assert of_crystal.atoms.pbc.all()
    assert (of_water.id, of_water.formula) == ("structure-2", "H2O")
    assert not of_water.periodic


def test_structures_of_the_installed_pymatgen_are_read():
    core = pytest.importorskip("pymatgen.core")
    lattice = core.Lattice.hexagonal(3.19, 5.18)
    crystal = core.Structure(lattice, ["Ga3+", "N"], [[1 / 3, 2 / 3, 0], [1 / 3, 2 / 3, 0.376]])
    disordered = core.Structure(core.Lattice.cubic(4.1), [{"Cs": 0.5, "Rb": 0.5}], [[0, 0, 0]])
    mixed_valence = core.Structure(
        core.Lattice.cubic(4.3), [{"Fe2+": 0.5, "Fe3+": 0.5}, "O"], [[0, 0, 0], [0.5, 0.5, 0.5]]
    )
    water = core.Molecule(["O", "H", "H"], [[0, 0, 0], [0, 0, 0.96], [0.96, 0, 0]])
    records = as_records([crystal, disordered, mixed_valence, water])
    assert [record.formula for record in records] == ["GaN", "", "FeO", "H2O"]
    assert "contains 'Cs 0.5, Rb 0.5'" in records[1].problem
    np.testing.assert_allclose(records[0].atoms.cell.array, lattice.matrix)
    np.testing.assert_allclose(records[0].atoms.positions, crystal.cart_coords)


def test_reading_objects_does_not_import_pymatgen():
    script = (
        "import sys; from ase.build import molecule; from bandgap.structures import as_records;"
        "as_records(molecule('CH4')); print('pymatgen' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


ONE_OR_SEVERAL = "Accepted: one or several of ase.Atoms, a pymatgen Structure or Molecule, the path"


@pytest.mark.parametrize(
    "structures, message",
    [
        (None, f"structures: found None. {ONE_OR_SEVERAL}"),
        (2.5, f"structures: found 2.5. {ONE_OR_SEVERAL}"),
        (b"5\n", f"structures: found an object of type bytes. {ONE_OR_SEVERAL}"),
        ({"a": 1}, f"structures: found an object of type dict. {ONE_OR_SEVERAL}"),
        (np.array(1.0), f"structures: found an object of type ndarray. {ONE_OR_SEVERAL}"),
        ([molecule("CH4"), 2.5], "structure 2 is 2.5. Accepted: ase.Atoms, a pymatgen Structure"),
        ([[molecule("CH4")]], "structure 1 is an object of type list. Accepted: ase.Atoms"),
        ([molecule("CH4")[0]], "structure 1 is an object of type Atom. Accepted: ase.Atoms"),
        ("nowhere.cif", "structure 1, nowhere.cif: there is no such file or folder."),
        ([molecule("CH4"), Path("no/x.cif")], "structure 2, no/x.cif: there is no such file"),
        (POSCAR, "there is no such file or folder."),
        ("a\0b", "there is no such file or folder."),
        (5000 * "a", "there is no such file or folder."),
    ],
)
def test_what_is_no_structure_is_refused_with_what_is_accepted(structures, message: str):
    with pytest.raises(InputError) as error:
        as_records(structures)
    assert message in str(error.value)

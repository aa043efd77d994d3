"""Lengths in bohr are named; crystals and molecules that are only sparse or dense are not."""

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, graphene, molecule
from ase.units import Bohr

from bandgap.structures import as_records, read_structures
from bandgap.structures.length_units import unit_warning
from tests.unit.structures.samples import POSCAR

CRYSTALS = {
    "rock salt": bulk("NaCl", "rocksalt", 5.64),
    "cesium chloride": bulk("CsCl", "cesiumchloride", 4.12),
    "diamond": bulk("C", "diamond", 3.567),
    "gallium arsenide": bulk("GaAs", "zincblende", 5.65),
    "cesium": bulk("Cs", "bcc", 6.14, cubic=True),
    "copper": bulk("Cu", "fcc", 3.61, cubic=True),
    "skewed": bulk("NaCl", "rocksalt", 5.64).repeat((1, 1, 2)),
    "methane": molecule("CH4"),
    "water": molecule("H2O"),
    "benzene": molecule("C6H6"),
}


def with_lengths(atoms: Atoms, factor: float) -> Atoms:
    """Return a structure with all lengths multiplied by a factor."""
    scaled = atoms.copy()
    scaled.set_cell(factor * atoms.cell.array)
    scaled.positions = factor * atoms.positions
    return scaled


def problem(atoms: Atoms, factor: float = 1.0) -> str:
    """Return the problem of a structure whose lengths are multiplied by a factor."""
    (record,) = as_records(with_lengths(atoms, factor))
    assert record.atoms is not None
    return record.problem


@pytest.mark.parametrize("name", CRYSTALS)
def test_lengths_in_bohr_and_their_opposite_are_named(name: str):
    atoms = CRYSTALS[name]
    assert problem(atoms) == ""
    in_bohr = problem(atoms, 1 / Bohr)
    assert "are the lengths in bohr? Then multiply them by 0.529177" in in_bohr
    (record,) = as_records(with_lengths(atoms, Bohr))
    if record.atoms is None:  # denser than any solid
        assert "Is the unit of the cell Angstrom" in record.problem
    else:
        assert "were lengths in Angstrom read as bohr? Then divide them by" in record.problem


def test_poscar_in_bohr_is_not_ready():
    (record,) = read_structures(POSCAR.replace("5.64", "10.658").encode(), "POSCAR")
    assert record.status == "warning"
    assert record.problem.startswith("all atoms are at least 1.99 times the sum of their covalent")


@pytest.mark.parametrize(
    "atoms",
    [
        bulk("Ar", "fcc", 5.26, cubic=True),
        bulk("Xe", "fcc", 6.2, cubic=True),
        Atoms("He"),
        Atoms("Na", cell=[12.0] * 3, pbc=True),
        Atoms("NaAr", [(0, 0, 0), (4.99, 0, 0)], cell=[15.0] * 3, pbc=True),
        Atoms("LiHe", [(0, 0, 0), (4.6, 0, 0)]),
        bulk("H", "fcc", 1.7, cubic=True),
        Atoms("XeF2", [(0, 0, 0), (1.98, 0, 0), (-1.98, 0, 0)]),
        graphene(vacuum=10),
    ],
    ids=[
        "argon",
        "xenon",
        "helium",
        "one atom",
        "sodium and argon",
        "lithium and helium",
        "hydrogen of 500 GPa",
        "xenon fluoride",
        "graphene",
    ],
)
def test_structure_without_bonds_by_its_nature_is_not_warned_of(atoms: Atoms):
    assert "covalent radii" not in problem(atoms)


def test_molecular_crystals_far_apart_are_not_warned_of():
    sparse = molecule("CH4")
    sparse.set_cell([15.0] * 3)
    sparse.pbc = True
    assert "covalent radii" not in problem(sparse)


def test_molecule_in_picometres_is_named():
    assert "are the lengths in pm? Then divide them by 100" in problem(molecule("H2O"), 100.0)


def test_other_wrong_unit_is_named_without_bohr():
    assert "so that none has a bond; is the unit of the lengths right?" in problem(
        CRYSTALS["rock salt"], 3.0
    )


def test_images_of_a_skewed_cell_are_found():
    """The nearest image is several cells away along the axes."""
    atoms = CRYSTALS["rock salt"]
    skewed = np.array([[1, 0, 0], [7, 1, 0], [-6, 9, 1]]) @ atoms.cell.array
    text = unit_warning(
        np.asarray(atoms.numbers),
        positions=np.asarray(atoms.positions),
        cell=skewed,
        pbc=(True, True, True),
    )
    assert text == ""


def test_warning_of_close_atoms_allows_for_high_pressure():
    """Cesium of 184 GPa is as dense as cesium whose lengths were read as bohr."""
    assert "closer than bonds without high pressure" in problem(bulk("Cs", "fcc", 4.1, cubic=True))

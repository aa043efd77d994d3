"""XDATCAR: every configuration of a run of VASP is one structure."""

import pytest

from bandgap.structures import read_structures
from tests.unit.structures.samples import POSCAR, read

HEADER, POSITIONS = POSCAR.split("Direct\n")


def step(number: int, positions: str = POSITIONS) -> str:
    return f"Direct configuration= {number:5d}\n{positions}"


def test_every_configuration_is_a_structure_with_its_number():
    records = read(HEADER + step(1) + step(2) + step(10), "XDATCAR")
    assert [(r.formula, r.status) for r in records] == [("Cl4Na4", "ready")] * 3
    assert [record.id.rpartition("-")[2] for record in records] == ["1", "2", "10"]


def test_content_decides_under_another_name():
    assert len(read(HEADER + step(1) + step(2), "run.vasp")) == 2


def test_repeated_header_gives_the_cell_of_its_configuration():
    larger = HEADER.replace("5.64", "6.00")
    records = read(HEADER + step(1) + larger + step(2), "XDATCAR")
    lengths = [float(record.atoms.cell.lengths()[0]) for record in records if record.atoms]
    assert lengths == [5.64, 6.0]


def test_configuration_that_is_cut_off_is_refused_and_the_others_are_read():
    cut = "\n".join(POSITIONS.split("\n")[:4]) + "\n"
    records = read(HEADER + step(1) + step(2, cut), "XDATCAR")
    assert [record.status for record in records] == ["ready", "refused"]
    assert "configuration 2: the counts announce 8 atoms, and 4 positions follow" in (
        records[1].problem
    )


def test_one_configuration_has_the_name_of_its_file():
    (record,) = read(HEADER + step(1), "relaxed.vasp")
    assert record.id == "relaxed"


def test_cartesian_configurations_are_all_read():
    cartesian = POSITIONS.replace("0.5", "2.82")
    steps = [step(n, cartesian).replace("Direct", "Cartesian") for n in (1, 2)]
    records = read(HEADER + "".join(steps), "XDATCAR")
    assert [record.formula for record in records] == ["Cl4Na4"] * 2
    for record in records:
        assert record.atoms.get_scaled_positions()[1].tolist() == [0.5, 0.5, 0.0]


ONE_POSCAR = "NaCl\n1.0\n5 0 0\n0 5 0\n0 0 5\nNa Cl\n1 1\nDirect\n0 0 0\n.5 .5 .5\n"


@pytest.mark.parametrize("between", ["", "\n", "\n0 0 0\n0 0 0\n"])
def test_second_poscar_in_one_file_is_not_dropped_without_a_word(between: str) -> None:
    (record,) = read_structures((ONE_POSCAR + between + ONE_POSCAR).encode(), "joined.vasp")
    line = ONE_POSCAR.count("\n") + between.count("\n") + 1
    assert record.problem == (
        f"a second structure begins in line {line}. Give one file for each structure, or write all"
        " of them as extXYZ or XDATCAR."
    )


def test_velocities_after_the_positions_are_no_second_structure() -> None:
    lattice_velocities = "Lattice velocities and vectors\n1\n" + "0 0 0\n" * 3 + "5 0 0\n" * 3
    text = f"{ONE_POSCAR}{lattice_velocities}\n0 0 0\n0 0 0\n\n1\n0.1 0 0 0\n0 0 0\n0 0 0\n"
    (record,) = read_structures(text.encode(), "CONTCAR")
    assert record.formula == "ClNa"
    assert "second structure" not in record.problem

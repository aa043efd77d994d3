"""XDATCAR: every configuration of a run of VASP is one structure."""

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

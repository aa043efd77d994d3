"""Shapes of structures: whole molecules, bonds over cell faces, densities, shortest distances."""

import numpy as np
import pytest

from bandgap.structures import read_structures
from bandgap.structures.drawing import shape_of
from bandgap.structures.shapes import Shape

N2 = (
    '2\nLattice="6 0 0 0 6 0 0 0 6" Properties=species:S:1:pos:R:3 pbc="T T T"\nN {} 1 1\nN {} 1 '
    "1\n"
)
DIAMOND = (
    '8\nLattice="3.567 0 0 0 3.567 0 0 0 3.567" Properties=species:S:1:pos:R:3 pbc="T T T"\n'
    + "".join(
        f"C {x * 3.567} {y * 3.567} {z * 3.567}\n"
        for x, y, z in (
            *((0, 0, 0), (0.5, 0.5, 0), (0.5, 0, 0.5), (0, 0.5, 0.5)),
            *((0.25, 0.25, 0.25), (0.75, 0.75, 0.25), (0.75, 0.25, 0.75), (0.25, 0.75, 0.75)),
        )
    )
)
WATER = "3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"


def shape(text: str, name: str = "a.extxyz") -> Shape:
    (record,) = read_structures(text.encode(), name)
    drawn_shape = shape_of(record)
    assert drawn_shape is not None, record.problem
    return drawn_shape


@pytest.mark.parametrize(
    ("first", "second"), [(1.0, 2.1), (5.5, 0.6), (-0.5, 6.6)], ids=["whole", "cut", "outside"]
)
def test_molecule_is_made_whole_for_any_images_of_its_atoms(first: float, second: float) -> None:
    drawn_shape = shape(N2.format(first, second))
    apart = drawn_shape.positions[1] - drawn_shape.positions[0]
    assert np.linalg.norm(apart) == pytest.approx(1.1)
    assert drawn_shape.bonds.tolist() == [[0, 1]] and not drawn_shape.shifts.any()
    assert (
        (drawn_shape.positions.mean(axis=0) > -1e-6) & (drawn_shape.positions.mean(axis=0) < 6.0)
    ).all()
    assert drawn_shape.n_molecules == 1
    assert drawn_shape.shortest_angstrom == pytest.approx(1.1)


def test_contact_is_between_molecules_and_images_of_a_molecule_count() -> None:
    near = shape(N2.replace("6 0 0 0 6", "4 0 0 0 6").format(1.0, 2.1))
    assert near.contact_angstrom == pytest.approx(
        4.0 - 1.1
    )  # to its own image along the short axis
    assert np.isnan(shape(N2.format(1.0, 2.1)).contact_angstrom)  # nothing within 3.5 angstrom


def test_network_of_bonds_keeps_its_positions_and_counts_no_molecules() -> None:
    drawn_shape = shape(DIAMOND)
    assert (
        drawn_shape.n_molecules == 0 and len(drawn_shape.bonds) == 16 and drawn_shape.shifts.any()
    )
    first, second = drawn_shape.positions[drawn_shape.bonds.T]
    lengths = np.linalg.norm(second + drawn_shape.shifts @ drawn_shape.cell - first, axis=1)
    np.testing.assert_allclose(lengths, 3.567 * np.sqrt(3) / 4, atol=1e-6)
    assert drawn_shape.density_g_cm3 == pytest.approx(
        3.515, abs=0.005
    )  # diamond at room temperature
    assert ((drawn_shape.positions > -1e-6) & (drawn_shape.positions < 3.567)).all()


def test_molecule_without_a_cell_has_no_density_and_no_contact() -> None:
    drawn_shape = shape(WATER, "water.xyz")
    assert drawn_shape.bonds.tolist() == [[0, 1], [0, 2]] and drawn_shape.n_molecules == 1
    assert (
        np.isnan(drawn_shape.density_g_cm3)
        and np.isnan(drawn_shape.contact_angstrom)
        and not drawn_shape.cell.any()
    )
    assert drawn_shape.shortest_angstrom == pytest.approx(np.hypot(0.763, 0.596), abs=1e-6)

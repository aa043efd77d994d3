"""Scenes of structures: molecules, atoms on faces, polyhedra, repeated cells, and pictures."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from ase import Atoms
from ase.build import bulk, molecule

from bandgap.plots.scenes import cell_edges, most_cells, scene_of, scene_values
from bandgap.plots.thumbnails import HEIGHT, WIDTH, thumbnail
from bandgap.structures import as_records
from bandgap.structures.drawing import shape_of
from bandgap.structures.shapes import Shape

SVG = "{http://www.w3.org/2000/svg}"


def shape(atoms: Atoms) -> Shape:
    (record,) = as_records([atoms])
    result = shape_of(record)
    assert result is not None, record.problem
    return result


def perovskite(large: str = "Cs", small: str = "Pb", anion: str = "I", a: float = 6.3) -> Atoms:
    """Return a cubic perovskite with the small cation at the corners of the cell."""
    places = [[0.5, 0.5, 0.5], [0, 0, 0], [0.5, 0, 0], [0, 0.5, 0], [0, 0, 0.5]]
    return Atoms([large, small, *[anion] * 3], scaled_positions=places, cell=[a, a, a], pbc=True)


def test_octahedra_at_all_corners_of_the_cell_are_complete() -> None:
    scene = scene_of(shape(perovskite()))
    lead = np.flatnonzero(scene.numbers == 82)
    assert lead.size == 8 and len(scene.polyhedra) == 8
    for polyhedron in scene.polyhedra:
        assert scene.numbers[polyhedron.centre] == 82
        assert sorted(set(polyhedron.faces.ravel())) == sorted(polyhedron.corners)
        assert len(polyhedron.corners) == 6 and len(polyhedron.faces) == 8
        lengths = np.linalg.norm(
            scene.positions[polyhedron.corners] - scene.positions[polyhedron.centre], axis=1
        )
        np.testing.assert_allclose(lengths, 3.15, atol=1e-4)


def test_contacts_of_a_large_cation_are_drawn_only_without_polyhedra() -> None:
    beside_octahedra = scene_of(shape(perovskite()))
    caesium = np.flatnonzero(beside_octahedra.numbers == 55)
    assert caesium.size == 1 and not np.isin(beside_octahedra.bonds, caesium).any()
    salt = scene_of(shape(bulk("NaCl", "rocksalt", a=5.64, cubic=True)))
    assert len(salt.bonds) > 0 and not salt.polyhedra


def test_molecule_across_a_face_is_whole_and_repeated_in_every_cell() -> None:
    water = molecule("H2O")
    water.set_cell([4.0, 5.0, 6.0])
    water.pbc = True
    water.positions += [3.9, 4.8, 5.9] - water.positions[0]
    water.wrap()
    one = scene_of(shape(water))
    assert len(one.numbers) == 3 and len(one.bonds) == 2 and not one.stubs
    eight = scene_of(shape(water), n_cells=2)
    assert len(eight.numbers) == 24 and len(eight.bonds) == 16
    assert eight.repeats == (2, 2, 2) and sorted(set(eight.sites)) == [0, 1, 2]


def test_bond_that_leaves_the_cell_ends_at_its_middle() -> None:
    scene = scene_of(shape(bulk("Si", cubic=True)))
    length = 5.43 * 3**0.5 / 4
    assert scene.stubs
    for atom, end in scene.stubs:
        assert np.linalg.norm(end - scene.positions[atom]) == pytest.approx(length / 2, rel=1e-3)


def test_carbon_of_a_molecule_has_no_polyhedron_and_sulfate_has_one() -> None:
    assert not scene_of(shape(molecule("CF4"))).polyhedra
    corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) * 1.49 / 3**0.5
    sulfate = Atoms("SO4", positions=[[0, 0, 0], *corners])
    assert [len(p.corners) for p in scene_of(shape(sulfate)).polyhedra] == [4]
    square = Atoms(
        "PdCl4", positions=[[0, 0, 0], *np.diag([2.3, 2.3, 0])[:2], [-2.3, 0, 0], [0, -2.3, 0]]
    )
    assert not scene_of(shape(square)).polyhedra


def test_metals_of_an_ionic_crystal_are_not_bonded_to_each_other() -> None:
    scene = scene_of(shape(perovskite("Ba", "Ti", "O", 3.9)))  # Ti-Ti is below 1.25 times the radii
    pairs = {tuple(sorted(pair)) for pair in scene.numbers[scene.bonds].tolist()}
    assert pairs == {(8, 22)}


def test_number_of_cells_is_limited_by_the_atoms() -> None:
    assert most_cells(shape(molecule("H2O"))) == 1
    assert most_cells(shape(perovskite())) == 3
    atoms = perovskite().repeat((5, 5, 5))
    assert most_cells(shape(atoms)) == 1


@pytest.mark.parametrize(("repeats", "n"), [((1, 1, 1), 12), ((2, 1, 1), 16), ((2, 2, 2), 27)])
def test_edges_of_repeated_cells_are_drawn_once(repeats: tuple[int, int, int], n: int) -> None:
    edges = cell_edges(np.eye(3), np.ones(3, dtype=bool), repeats)
    assert len(edges) == n
    assert len({tuple(edge.ravel()) for edge in edges}) == n


def test_view_is_a_rotation_for_crystals_molecules_and_single_atoms() -> None:
    for atoms in (perovskite(), molecule("C6H6"), molecule("CO2"), Atoms("He")):
        view = scene_of(shape(atoms)).view
        np.testing.assert_allclose(view @ view.T, np.eye(3), atol=1e-9)
        assert np.linalg.det(view) == pytest.approx(1.0)


def test_values_for_the_browser_are_numbers_and_symbols() -> None:
    values = scene_values(scene_of(shape(perovskite())))
    assert [element["symbol"] for element in values["elements"]] == ["I", "Cs", "Pb"]
    n_atoms = len(values["element"])
    assert len(values["xyz"]) == 3 * n_atoms and max(values["bonds"]) < n_atoms
    assert set(values["site"]) == {1, 2, 3, 4, 5}


def test_picture_has_a_ball_for_every_atom_in_front_of_its_bonds() -> None:
    root = ElementTree.fromstring(thumbnail(shape(molecule("H2O"))))
    assert (root.get("width"), root.get("height")) == (str(WIDTH), str(HEIGHT))
    balls = root.findall(f".//{SVG}use")
    assert len(balls) == 3 and {ball.get("href") for ball in balls} == {"#e1", "#e8"}
    for ball in balls:
        assert 0 < int(ball.get("x", "")) < 10 * WIDTH and 0 < int(ball.get("y", "")) < 10 * HEIGHT
    assert len(root.findall(f".//{SVG}polygon")) == 0
    octahedra = ElementTree.fromstring(thumbnail(shape(perovskite())))
    assert len(octahedra.findall(f".//{SVG}polygon")) == 8

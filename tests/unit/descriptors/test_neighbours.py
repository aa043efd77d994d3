"""Neighbours against loops over atoms, values that can be counted, and invariances of crystals."""

import itertools
from collections.abc import Callable

import ase.build
import numpy as np
import pytest
from ase import Atoms

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.element_properties import (
    PROPERTIES,
    TABLE_ELEMENTS,
    element_properties,
    scaled_properties,
)
from bandgap.descriptors.neighbours import (
    CUTOFF_ANGSTROM,
    SMALLEST_WEIGHT,
    environments,
    neighbours,
)
from tests.unit.descriptors.samples import WRITTEN_OTHERWISE, crystal, ethanol, record

N = len(PROPERTIES)
RADIUS = PROPERTIES.index("covalent radius (pm)")
ELECTRONEGATIVITY = PROPERTIES.index("electronegativity")


def smooth(x: float) -> float:
    x = min(max(x, 0.0), 1.0)
    return 3 * x**2 - 2 * x**3


def by_loops(atoms: Atoms) -> np.ndarray:
    """Return the environments (n, 26) by loops over atoms, images and atoms that may hide them."""
    radii = element_properties()[:, RADIUS] / 100
    properties = scaled_properties()
    cell_atoms = list(zip(atoms.numbers, atoms.positions, strict=True))
    images = itertools.product(range(-2, 3), repeat=3) if atoms.pbc.any() else [(0, 0, 0)]
    image_atoms = [
        (z, r + np.array(shift) @ atoms.cell.array) for shift in images for z, r in cell_atoms
    ]
    rows = []
    for z, r in cell_atoms:
        near = [
            (zj, rj - r) for zj, rj in image_atoms if 0 < np.linalg.norm(rj - r) < CUTOFF_ANGSTROM
        ]
        weighted = []
        for k, (zj, v) in enumerate(near):
            d = float(np.linalg.norm(v))
            visible = 1.0
            for q, (_, u) in enumerate(near):
                if q != k:
                    # 0 at a right angle or less, 1 where all three distances are the same.
                    visible *= smooth((float(u @ u) + float((u - v) @ (u - v))) / d**2 - 1)
            weighted.append((zj, d, visible * (1 - (d / 6) ** 2) ** 2 / d**2))
        total = sum(w for _, _, w in weighted)
        norm = total + SMALLEST_WEIGHT
        differences = (
            sum(w * np.abs(properties[zj - 1] - properties[z - 1]) for zj, _, w in weighted) / norm
        )
        mean = sum(w * d for _, d, w in weighted) / norm
        deviation = sum(w * abs(d - mean) for _, d, w in weighted) / norm
        count = total**2 / (sum(w * w for _, _, w in weighted) + SMALLEST_WEIGHT**2)
        relative = sum(w * d / (radii[zj - 1] + radii[z - 1]) for zj, d, w in weighted) / norm
        rows.append([*differences, count, mean, deviation, relative])
    return np.array(rows)


def small_crystal() -> Atoms:
    """Return a skewed cell of five atoms, each of which is also its own neighbour."""
    positions = [[0, 0, 0], [1.9, 0.2, 0.1], [0.3, 2.1, 0.4], [0.1, 0.4, 2.3], [2.2, 2.0, 2.1]]
    return Atoms(
        "CsPbCHO", positions, cell=[[3.9, 0, 0], [0.6, 4.2, 0], [-0.5, 0.3, 4.1]], pbc=True
    )


@pytest.mark.parametrize("make", [ethanol, small_crystal], ids=["molecule", "crystal"])
def test_environments_are_those_of_loops(make: Callable[[], Atoms]) -> None:
    atoms = make()
    np.testing.assert_allclose(environments(atoms), by_loops(atoms), rtol=1e-9, atol=1e-12)


def test_features_are_statistics_of_the_environments() -> None:
    values = environments(crystal())
    mean = values.mean(axis=0)
    expected = [
        mean,
        np.abs(values - mean).mean(axis=0),
        values.min(axis=0),
        values.max(axis=0),
        np.ptp(values, axis=0),
    ]
    np.testing.assert_allclose(neighbours(crystal()), np.concatenate(expected), atol=1e-12)


@pytest.mark.parametrize(
    ("lattice", "a", "count", "distance"),
    [
        ("rocksalt", 4.2, 6, 2.1),
        ("zincblende", 4.2, 4, 4.2 * 3**0.5 / 4),
        ("cesiumchloride", 2.6, 8, 2.6 * 3**0.5 / 2),
    ],
)
def test_neighbours_in_a_salt_are_the_ions_of_the_other_kind(
    lattice: str, a: float, count: int, distance: float
) -> None:
    atoms = environments(ase.build.bulk("MgO", lattice, a=a))
    values = scaled_properties()[:, ELECTRONEGATIVITY]
    difference = values[TABLE_ELEMENTS.index("O")] - values[TABLE_ELEMENTS.index("Mg")]
    assert atoms[:, ELECTRONEGATIVITY] == pytest.approx(difference, rel=0.04)
    assert atoms[:, N] == pytest.approx(count, rel=0.1)
    assert atoms[:, N + 1] == pytest.approx(distance, rel=0.01)


def test_neighbours_in_a_close_packing_are_twelve() -> None:
    assert environments(ase.build.bulk("Cu"))[:, N] == pytest.approx(12.0, rel=1e-3)


def test_lone_atom_has_neither_neighbours_nor_differences() -> None:
    np.testing.assert_array_equal(environments(Atoms("Xe")), np.zeros((1, N + 4)))


def test_pair_of_atoms_has_one_neighbour_each() -> None:
    values = environments(Atoms("HF", [[0, 0, 0], [0, 0, 0.92]]))
    np.testing.assert_allclose(
        values[0, :N], np.abs(scaled_properties()[0] - scaled_properties()[8]), rtol=2e-3
    )
    np.testing.assert_allclose(values[:, N:], [[1.0, 0.92, 0.0, 0.92 / 0.88]] * 2, atol=2e-3)


def test_features_do_not_jump_when_the_only_neighbour_of_an_atom_leaves_it() -> None:
    near, far = (
        neighbours(Atoms("FF", [[0, 0, 0], [0, 0, CUTOFF_ANGSTROM + d]])) for d in (-1e-3, 1e-3)
    )
    np.testing.assert_allclose(near, far, atol=1e-3)


def salt() -> Atoms:
    return ase.build.bulk("CsCl", "cesiumchloride", a=4.12)


@WRITTEN_OTHERWISE
@pytest.mark.parametrize("make", [crystal, small_crystal, salt])
def test_features_of_a_crystal_do_not_depend_on_how_it_is_written(
    make: Callable[[], Atoms], change: Callable[[Atoms], Atoms]
) -> None:
    atoms = make()
    np.testing.assert_allclose(neighbours(change(atoms)), neighbours(atoms), rtol=1e-8, atol=1e-8)


def test_descriptor_of_neighbours_describes_molecules_slabs_and_crystals() -> None:
    slab = ase.build.fcc111("Au", (2, 2, 2), vacuum=8.0)
    nitride = ase.build.bulk("UN", "rocksalt", a=4.89)
    config = DescriptorConfig(neighbours=True)
    described = featurize(
        [record(atoms, str(k)) for k, atoms in enumerate((slab, nitride, ethanol()))], config
    )
    assert n_features(config) == 130 and described.features.shape == (3, 130)
    assert np.isfinite(described.features).all() and described.problems == (None, None, None)

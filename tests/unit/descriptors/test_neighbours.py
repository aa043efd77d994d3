"""What surrounds the atoms: a plain twin, values that can be counted, and what a crystal must not depend on."""

import itertools
from collections.abc import Callable

import ase.build
import numpy as np
import pytest
from ase import Atoms

from bandgap.descriptors import DescriptorConfig, featurize, n_features
from bandgap.descriptors.element_properties import (
    KNOWN,
    PROPERTIES,
    element_properties,
    scaled_properties,
)
from bandgap.descriptors.neighbours import FARTHEST_ANGSTROM, LEAST, environments, neighbours
from tests.unit.descriptors.samples import WRITTEN_OTHERWISE, crystal, ethanol, record

N = len(PROPERTIES)
RADIUS = PROPERTIES.index("covalent radius (pm)")
ELECTRONEGATIVITY = PROPERTIES.index("electronegativity")


def smooth(x: float) -> float:
    x = min(max(x, 0.0), 1.0)
    return 3 * x**2 - 2 * x**3


def plainly(atoms: Atoms) -> np.ndarray:
    """The environments (n, 26) by loops over atoms, images and who may hide them, as the module's docstring has it."""
    radii, properties = element_properties()[:, RADIUS] / 100, scaled_properties()
    own = list(zip(atoms.numbers, atoms.positions, strict=True))
    images = itertools.product(range(-2, 3), repeat=3) if atoms.pbc.any() else [(0, 0, 0)]
    everyone = [(z, r + np.array(shift) @ atoms.cell.array) for shift in images for z, r in own]
    rows = []
    for z, r in own:
        near = [
            (zj, rj - r) for zj, rj in everyone if 0 < np.linalg.norm(rj - r) < FARTHEST_ANGSTROM
        ]
        found = []
        for k, (zj, v) in enumerate(near):
            d, seen = float(np.linalg.norm(v)), 1.0
            for q, (_, u) in enumerate(near):
                if (
                    q != k
                ):  # 0 where q sees both at a right angle, 1 where all three distances are the same
                    seen *= smooth((float(u @ u) + float((u - v) @ (u - v))) / d**2 - 1)
            found.append((zj, d, seen * (1 - (d / 6) ** 2) ** 2 / d**2))
        total = sum(w for _, _, w in found)
        over = total + LEAST
        apart = sum(w * np.abs(properties[zj - 1] - properties[z - 1]) for zj, _, w in found) / over
        mean = sum(w * d for _, d, w in found) / over
        count = total**2 / (sum(w * w for _, _, w in found) + LEAST**2)
        relative = sum(w * d / (radii[zj - 1] + radii[z - 1]) for zj, d, w in found) / over
        rows.append(
            [*apart, count, mean, sum(w * abs(d - mean) for _, d, w in found) / over, relative]
        )
    return np.array(rows)


def small_crystal() -> Atoms:
    """A skewed cell of five atoms, each of which is its own neighbour as well."""
    positions = [[0, 0, 0], [1.9, 0.2, 0.1], [0.3, 2.1, 0.4], [0.1, 0.4, 2.3], [2.2, 2.0, 2.1]]
    return Atoms(
        "CsPbCHO", positions, cell=[[3.9, 0, 0], [0.6, 4.2, 0], [-0.5, 0.3, 4.1]], pbc=True
    )


@pytest.mark.parametrize("make", [ethanol, small_crystal], ids=["molecule", "crystal"])
def test_environments_are_those_of_a_plain_loop(make: Callable[[], Atoms]) -> None:
    atoms = make()
    np.testing.assert_allclose(environments(atoms), plainly(atoms), rtol=1e-9, atol=1e-12)


def test_features_are_statistics_of_the_environments() -> None:
    found = environments(crystal())
    mean = found.mean(axis=0)
    expected = [
        mean,
        np.abs(found - mean).mean(axis=0),
        found.min(axis=0),
        found.max(axis=0),
        np.ptp(found, axis=0),
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
    found = environments(ase.build.bulk("MgO", lattice, a=a))
    values = scaled_properties()[:, ELECTRONEGATIVITY]
    apart = values[KNOWN.index("O")] - values[KNOWN.index("Mg")]
    assert found[:, ELECTRONEGATIVITY] == pytest.approx(apart, rel=0.04)
    assert found[:, N] == pytest.approx(count, rel=0.1)
    assert found[:, N + 1] == pytest.approx(distance, rel=0.01)


def test_neighbours_in_a_close_packing_are_twelve() -> None:
    assert environments(ase.build.bulk("Cu"))[:, N] == pytest.approx(12.0, rel=1e-3)


def test_lone_atom_has_no_neighbours_and_differs_from_none() -> None:
    np.testing.assert_array_equal(environments(Atoms("Xe")), np.zeros((1, N + 4)))


def test_pair_of_atoms_has_one_neighbour_each() -> None:
    found = environments(Atoms("HF", [[0, 0, 0], [0, 0, 0.92]]))
    np.testing.assert_allclose(
        found[0, :N], np.abs(scaled_properties()[0] - scaled_properties()[8]), rtol=2e-3
    )
    np.testing.assert_allclose(found[:, N:], [[1.0, 0.92, 0.0, 0.92 / 0.88]] * 2, atol=2e-3)


def test_features_do_not_jump_when_the_only_neighbour_of_an_atom_leaves_it() -> None:
    near, far = (
        neighbours(Atoms("FF", [[0, 0, 0], [0, 0, FARTHEST_ANGSTROM + d]])) for d in (-1e-3, 1e-3)
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


def test_descriptor_of_neighbours_alone_takes_molecules_slabs_and_crystals_of_any_element() -> None:
    slab = ase.build.fcc111("Au", (2, 2, 2), vacuum=8.0)
    nitride = ase.build.bulk("UN", "rocksalt", a=4.89)
    config = DescriptorConfig(neighbours=True)
    found = featurize(
        [record(atoms, str(k)) for k, atoms in enumerate((slab, nitride, ethanol()))], config
    )
    assert n_features(config) == 130 and found.features.shape == (3, 130)
    assert np.isfinite(found.features).all() and found.problems == (None, None, None)

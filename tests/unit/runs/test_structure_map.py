"""The map of structures: principal axes, neighbours, and structures without a descriptor."""

import numpy as np
import pytest

from bandgap.descriptors import config_for, featurize
from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.jobs.structure_maps import read_map
from bandgap.runs.structure_map import nearest_rows, principal_axes, save_map, structure_map
from bandgap.structures import read_structures

WATER = '3\nProperties=species:S:1:pos:R:3 id="w{k}" pbc="F F F"\nO 0 0 {z:.6f}\nH {x:.6f} 0 0.5\n'
DESCRIPTOR = config_for(species=("H", "O"))


def waters(n=12, *, broken=False):
    """Return waters along a line of shapes, the last one refused if `broken`."""
    text = "".join(
        WATER.format(k=k, z=-0.02 * k, x=0.70 + 0.01 * k) + "H -0.758 0 0.504\n" for k in range(n)
    )
    if broken:
        text += "3\n\nO 0 0 x\nH 1 0 0\nH 0 1 0\n"
    return read_structures(text.encode(), "waters.extxyz")


def test_principal_axes_are_those_of_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200, 5)) * [3.0, 2.0, 1.0, 0.5, 0.1] @ rng.normal(size=(5, 5))
    centre, axes, shares = principal_axes(rows, n_components=2)
    values, vectors = np.linalg.eigh(np.cov(rows.T))
    np.testing.assert_allclose(np.abs(axes @ vectors[:, ::-1][:, :2]), np.eye(2), atol=1e-8)
    np.testing.assert_allclose(shares, values[::-1][:2] / values.sum())
    np.testing.assert_allclose(centre, rows.mean(axis=0))
    assert (axes[np.arange(2), np.abs(axes).argmax(axis=1)] > 0).all()


def test_neighbours_are_the_nearest_others_and_points_without_place_have_none() -> None:
    points = np.array([[0.0], [1.0], [1.1], [5.0], [np.nan]])
    assert nearest_rows(points, k=2).tolist() == [[1, 2], [2, 0], [1, 0], [2, 1], [-1, -1]]
    assert nearest_rows(points[:2], k=3).tolist() == [[1, -1, -1], [0, -1, -1]]


def test_map_has_the_principal_components_of_the_directions_and_is_repeatable() -> None:
    records = waters()
    first = structure_map(records, DESCRIPTOR)
    features = featurize(records, DESCRIPTOR).features.astype(float)
    directions = features / np.linalg.norm(features, axis=1, keepdims=True)
    u, d, _ = np.linalg.svd(directions - directions.mean(axis=0), full_matrices=False)
    np.testing.assert_allclose(np.abs(first.coordinates), np.abs(u * d)[:, :2], atol=1e-6)
    np.testing.assert_allclose(first.shares, (d**2 / (d**2).sum())[:2], rtol=1e-6)
    cosine = directions @ directions.T - 2 * np.eye(len(directions))
    assert first.neighbours[:, 0].tolist() == cosine.argmax(axis=1).tolist()
    np.testing.assert_array_equal(first.coordinates, structure_map(records, DESCRIPTOR).coordinates)


def test_refused_structure_has_no_place_and_is_no_neighbour(tmp_path) -> None:
    records = waters(broken=True)
    assert records[-1].status == "refused"
    structures = structure_map(records, DESCRIPTOR)
    assert np.isnan(structures.coordinates[-1]).all()
    assert np.isfinite(structures.coordinates[:-1]).all()
    assert not (structures.neighbours == len(records) - 1).any()
    save_map(tmp_path / "map.safetensors", structures)
    stored = read_map(tmp_path / "map.safetensors")
    assert stored is not None
    np.testing.assert_array_equal(stored[0], structures.coordinates.astype(np.float64))
    np.testing.assert_array_equal(stored[1], structures.neighbours)
    assert stored[2] == pytest.approx(tuple(structures.shares))


def test_two_structures_are_refused_and_a_damaged_map_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match="2 of 2 structures have a descriptor"):
        structure_map(waters(2), DESCRIPTOR)
    assert read_map(tmp_path / "absent.safetensors") is None
    (tmp_path / "map.safetensors").write_bytes(b"damaged")
    with pytest.raises(ArtifactError, match="not readable as a map of structures"):
        read_map(tmp_path / "map.safetensors")

"""Shapes on disk: what was written comes back row by row, and damage is named."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.structures.shapes import (
    Shape,
    cell_lengths_angles,
    has_shapes,
    load_shape,
    save_shapes,
)


def a_shape(n: int, *, seed: int = 0) -> Shape:
    rng = np.random.default_rng(seed)
    return Shape(
        numbers=rng.integers(1, 90, n).astype(np.uint8),
        positions=rng.normal(size=(n, 3)).astype(np.float32).astype(np.float64),
        cell=np.eye(3) * 4.0,
        pbc=np.array([True, False, True]),
        bonds=np.array([[0, n - 1]], dtype=np.uint16),
        shifts=np.array([[1, 0, -1]], dtype=np.int8),
        density_g_cm3=1.5,
        shortest_angstrom=0.75,
        shortest_pair=(0, n - 1),
        n_molecules=2,
    )


def test_load_shape_returns_every_row_and_none_for_a_refused_one(tmp_path: Path) -> None:
    shapes = [a_shape(3), None, a_shape(7, seed=1)]
    save_shapes(tmp_path / "deep" / "shapes.safetensors", shapes)
    for row, expected in enumerate(shapes):
        loaded_shape = load_shape(tmp_path / "deep" / "shapes.safetensors", row)
        if expected is None:
            assert loaded_shape is None
            continue
        assert loaded_shape is not None
        for name in ("numbers", "positions", "cell", "pbc", "bonds", "shifts"):
            np.testing.assert_array_equal(getattr(loaded_shape, name), getattr(expected, name))
        assert (
            loaded_shape.density_g_cm3,
            loaded_shape.shortest_angstrom,
            loaded_shape.shortest_pair,
        ) == (
            1.5,
            0.75,
            expected.shortest_pair,
        )
        assert np.isnan(loaded_shape.contact_angstrom) and loaded_shape.n_molecules == 2


def test_last_structure_may_have_no_bonds(tmp_path: Path) -> None:
    lone = replace(a_shape(1), bonds=np.zeros((0, 2), np.uint16), shifts=np.zeros((0, 3), np.int8))
    save_shapes(tmp_path / "s", [a_shape(3), lone])
    loaded_shape = load_shape(tmp_path / "s", 1)
    assert (
        loaded_shape is not None
        and loaded_shape.bonds.shape == (0, 2)
        and loaded_shape.shifts.shape == (0, 3)
    )


def test_file_of_shapes_does_not_depend_on_the_batch_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shapes = [a_shape(2 + k % 5, seed=k) if k % 3 else None for k in range(20)]
    save_shapes(tmp_path / "whole", shapes)
    monkeypatch.setattr("bandgap.structures.shapes.BATCH", 3)
    save_shapes(tmp_path / "parts", iter(shapes))
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert has_shapes(tmp_path / "parts", 20) and not has_shapes(tmp_path / "parts", 21)
    assert not has_shapes(tmp_path / "absent", 20)


@pytest.mark.parametrize("damage", ["absent", "cut", "foreign"])
def test_file_that_cannot_be_read_is_named(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "shapes.safetensors"
    save_shapes(path, [a_shape(3)])
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-40] if damage == "cut" else b"\x00 something else")
    with pytest.raises(
        ArtifactError, match=r"shapes\.safetensors: the stored structures cannot be read"
    ):
        load_shape(path, 0)


@pytest.mark.parametrize("row", [-1, 1])
def test_missing_row_is_refused(tmp_path: Path, row: int) -> None:
    save_shapes(tmp_path / "s", [a_shape(3)])
    with pytest.raises(ArtifactError, match=f"no row {row}"):
        load_shape(tmp_path / "s", row)


def test_angles_of_a_hexagonal_cell() -> None:
    cell = np.array([[2.0, 0.0, 0.0], [-1.0, np.sqrt(3.0), 0.0], [0.0, 0.0, 5.0]])
    lengths, angles = cell_lengths_angles(cell)
    np.testing.assert_allclose(lengths, [2.0, 2.0, 5.0])
    np.testing.assert_allclose(angles, [90.0, 90.0, 120.0])

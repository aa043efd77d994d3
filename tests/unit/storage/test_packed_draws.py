"""Draws that an earlier version stored in parts come back bit for bit."""

import numpy as np
import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.storage.arrays import load_arrays, save_arrays
from bandgap.storage.manifests import damage_reported
from bandgap.storage.packed_draws import unpacked
from tests.unit.storage.earlier_draws import packed


def draws(*, still, shape=(2, 50, 8, 5)):
    """Random draws of which this share of every chain's entries is the same in all."""
    random = np.random.default_rng(0)
    value = random.normal(size=shape).astype(np.float32)
    rows = random.random((shape[0], 1, *shape[2:])) < still
    return np.where(rows, value[:, :1], value)


def test_every_bit_comes_back_from_the_file(tmp_path):
    value = draws(still=0.6)
    value[0, :, 0, 0] = -0.0
    value[0, :, 0, 1] = float("nan")
    value[1, :, 0, 0] = 0.0
    value[1, 3, 0, 0] = -0.0  # varies, by its sign alone
    arrays = {
        "theta.2": value,
        "sigma": np.ones((2, 50)),
        "basis": np.eye(3, dtype=np.float32),
    }
    plain = {name: arrays[name] for name in ("sigma", "basis")}
    save_arrays(packed("theta.2", value) | plain, tmp_path / "draws.safetensors")
    restored = unpacked(load_arrays(tmp_path / "draws.safetensors"))
    assert set(restored) == set(arrays)
    for name, array in arrays.items():
        assert restored[name].dtype == array.dtype and restored[name].shape == array.shape
        assert restored[name].tobytes() == array.tobytes()


def test_parts_that_do_not_fit_are_called_damaged(tmp_path):
    arrays = packed("theta.2", draws(still=0.5))
    wrong = arrays | {"packed.once.theta.2": arrays["packed.once.theta.2"][1:]}
    short = {name: value for name, value in arrays.items() if "moving" not in name}
    for damaged in (wrong, short):
        with pytest.raises(ArtifactError, match="damaged"), damage_reported(tmp_path):
            unpacked(damaged)


@pytest.mark.parametrize(
    "shape", [[1, 10**6, 1000], [1, -1, 1000], [1, 0, 10**9]], ids=["many", "negative", "no draws"]
)
def test_few_bytes_never_become_many(shape):
    """4 kB describe a billion values that do not vary, or a mask of a billion bits."""
    bomb = {
        "packed.shape.x": np.array(shape),
        "packed.varies.x": np.zeros(125, np.uint8),
        "packed.once.x": np.zeros(1000),
        "packed.moving.x": np.zeros((max(shape[1], 0), 0)),
    }
    with pytest.raises(ValueError, match="more than 200 times as many|does not fit"):
        unpacked(bomb)

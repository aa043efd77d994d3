"""Draws that an earlier version stored in parts come back bit for bit."""

import pytest
import torch

from bandgap.foundation.errors import ArtifactError
from bandgap.storage.manifests import damage_reported
from bandgap.storage.packed_draws import unpacked
from bandgap.storage.tensors import load_tensors, save_tensors
from tests.unit.storage.earlier_draws import packed


def draws(*, still, shape=(2, 50, 8, 5)):
    """Random draws of which this share of every chain's entries is the same in all."""
    generator = torch.Generator().manual_seed(0)
    value = torch.randn(shape, generator=generator)
    rows = torch.rand(shape[0], 1, *shape[2:], generator=generator) < still
    return torch.where(rows, value[:, :1], value)


def test_every_bit_comes_back_from_the_file(tmp_path):
    value = draws(still=0.6)
    value[0, :, 0, 0] = -0.0
    value[0, :, 0, 1] = float("nan")
    value[1, :, 0, 0] = 0.0
    value[1, 3, 0, 0] = -0.0  # varies, by its sign alone
    arrays = {
        "theta.2": value,
        "sigma": torch.ones(2, 50, dtype=torch.float64),
        "basis": torch.eye(3),
    }
    plain = {name: arrays[name] for name in ("sigma", "basis")}
    save_tensors(packed("theta.2", value) | plain, tmp_path / "draws.safetensors")
    restored = unpacked(load_tensors(tmp_path / "draws.safetensors", {}))
    assert set(restored) == set(arrays)
    assert torch.equal(restored["theta.2"].view(torch.int32), value.view(torch.int32))
    assert torch.equal(restored["sigma"], arrays["sigma"]) and torch.equal(
        restored["basis"], arrays["basis"]
    )


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
        "packed.shape.x": torch.tensor(shape),
        "packed.varies.x": torch.zeros(125, dtype=torch.uint8),
        "packed.once.x": torch.zeros(1000),
        "packed.moving.x": torch.zeros(max(shape[1], 0), 0),
    }
    with pytest.raises(ValueError, match="more than 200 times as many|does not fit"):
        unpacked(bomb)

"""A checkpoint is read by its own run alone; resumption is tested with each sampler."""

import pytest
import torch
from safetensors.torch import load, save_file

from bandgap.foundation.errors import ArtifactError
from bandgap.inference import checkpoints

FACTS = {"seed": 5, "shape": [3, 2]}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "run.safetensors"
    shared = torch.arange(6.0).reshape(3, 2)
    checkpoints.write(path, {"at": shared, "again": shared[:2]}, FACTS | {"iteration": 7})
    return path


def read(path, **changes):
    return checkpoints.read(path, expected=FACTS | changes, device=torch.device("cpu"))


def test_tensors_and_facts_come_back(path):
    arrays, facts = read(path)
    assert torch.equal(arrays["at"], torch.arange(6.0).reshape(3, 2))
    assert torch.equal(arrays["again"], arrays["at"][:2])
    assert facts == checkpoints.facts_of(path) == FACTS | {"iteration": 7}


def test_write_that_fails_leaves_the_file_as_it_was(path):
    content = path.read_bytes()
    with pytest.raises(AttributeError):
        checkpoints.write(path, {"at": None}, FACTS)
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_file_of_another_run_is_refused(path):
    with pytest.raises(
        ArtifactError,
        match="run.safetensors: belongs to another run: seed is 5 there and 6 here.*or delete",
    ):
        read(path, seed=6)
    with pytest.raises(ArtifactError, match="sampler is None there and 'hmc' here"):
        read(path, sampler="hmc")


def test_damaged_file_and_file_of_another_version_are_refused(path):
    content = path.read_bytes()
    arrays = load(content)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ArtifactError, match=r"not a checkpoint, or damaged .*Delete it to restart"):
        read(path)
    save_file(arrays, path, metadata={"schema": "0", "facts": "{}"})
    with pytest.raises(
        ArtifactError, match="a checkpoint of version 0; this program reads version 1. Delete it"
    ):
        read(path)
    save_file(arrays, path)
    with pytest.raises(ArtifactError, match="a checkpoint of version unknown"):
        read(path)
    assert checkpoints.facts_of(path) == {}

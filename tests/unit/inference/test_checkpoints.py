"""An interrupted run resumes from its file and gives the draws of a run without a break."""

import dataclasses

import pytest
import torch
from safetensors.torch import load, save_file

from bandgap.foundation.errors import ArtifactError, Cancelled
from bandgap.foundation.progress import no_progress
from bandgap.inference.checkpoints import Checkpoint
from tests.hamiltonian.chain_loop import SamplingConfig
from tests.hamiltonian.densities import banana, banana_draws
from tests.hamiltonian.sampling import sample
from tests.hamiltonian.windows import AdaptationConfig

DIAGONAL = AdaptationConfig(mass="diagonal")
# the window of 40 iterations of warm-up is from 6 to 36
CONFIGS = {
    "hmc": SamplingConfig("hmc", length=4, warmup=40, draws=20),
    "hmc with windows": SamplingConfig("hmc", length=4, warmup=40, draws=20, adaptation=DIAGONAL),
    "nuts": SamplingConfig("nuts", length=3, warmup=40, draws=20, adaptation=DIAGONAL),
}
START = banana_draws(3, seed=0)


def run(kind, *, checkpoint=None, progress=no_progress, draws=20, **changes):
    config = dataclasses.replace(CONFIGS[kind], draws=draws, **changes)
    return sample(banana, START, config=config, seed=5, progress=progress, checkpoint=checkpoint)


@pytest.fixture(scope="module")
def without_break():
    return {kind: run(kind) for kind in CONFIGS}


def cancel_at(iteration):
    """Return a progress function that cancels at this iteration."""

    def progress(update):
        if update.done == iteration:
            raise Cancelled("stop")

    return progress


def assert_same(result, expected):
    assert torch.equal(result[0], expected[0])
    for field in dataclasses.fields(expected[1]):
        value = getattr(result[1], field.name)
        expected_value = getattr(expected[1], field.name)
        assert value is expected_value or torch.equal(value, expected_value), field.name


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize(
    "iteration", [1, 6, 20, 35, 36, 40, 41, 59], ids=lambda i: f"cancelled at {i}"
)
def test_cancelled_run_resumes_with_the_draws_of_one_run(tmp_path, without_break, kind, iteration):
    checkpoint = Checkpoint(tmp_path / "run.safetensors", every=1000)
    with pytest.raises(Cancelled):
        run(kind, checkpoint=checkpoint, progress=cancel_at(iteration))
    updates = []
    assert_same(run(kind, checkpoint=checkpoint, progress=updates.append), without_break[kind])
    assert [u.done for u in updates] == list(range(iteration + 1, 61))


def test_run_killed_between_checkpoints_resumes_from_the_last(tmp_path, without_break):
    """An error other than cancelling writes nothing: the file is that of iteration 42."""
    checkpoint = Checkpoint(tmp_path / "run.safetensors", every=7)

    def progress(update):
        if update.done == 48:
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        run("nuts", checkpoint=checkpoint, progress=progress)
    updates = []
    assert_same(run("nuts", checkpoint=checkpoint, progress=updates.append), without_break["nuts"])
    assert updates[0].done == 43
    assert [path.name for path in tmp_path.iterdir()] == ["run.safetensors"]


def test_finished_run_is_read_and_a_longer_one_resumes_from_it(tmp_path, without_break):
    checkpoint = Checkpoint(tmp_path / "run.safetensors")
    first = run("nuts", checkpoint=checkpoint, draws=12)
    updates = []
    assert_same(run("nuts", checkpoint=checkpoint, draws=12, progress=updates.append), first)
    assert updates == []
    assert_same(run("nuts", checkpoint=checkpoint), without_break["nuts"])
    shorter, _ = run("nuts", checkpoint=checkpoint, draws=5)
    assert torch.equal(shorter, without_break["nuts"][0][:, :5])


def test_file_of_another_run_is_refused(tmp_path):
    checkpoint = Checkpoint(tmp_path / "run.safetensors")
    run("nuts", checkpoint=checkpoint, draws=2)
    with pytest.raises(
        ArtifactError,
        match=r"run.safetensors: belongs to another run: settings is .*'length': 3",
    ):
        run("nuts", checkpoint=checkpoint, length=4)
    with pytest.raises(
        ArtifactError, match="sampler is 'nuts' there and 'hmc' here. Give another file, or delete"
    ):
        run("hmc", checkpoint=checkpoint)
    config = CONFIGS["nuts"]
    with pytest.raises(ArtifactError, match="seed is 5 there and 6 here"):
        sample(banana, START, config=config, seed=6, checkpoint=checkpoint)
    with pytest.raises(ArtifactError, match=r"shape is \[3, 3\] there and \[2, 3\] here"):
        sample(banana, START[:2], config=config, seed=5, checkpoint=checkpoint)


def test_damaged_file_and_file_of_another_version_are_refused(tmp_path):
    path = tmp_path / "run.safetensors"
    run("hmc", checkpoint=Checkpoint(path), draws=2)
    content = path.read_bytes()
    arrays = load(content)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(
        ArtifactError,
        match=r"run.safetensors: not a checkpoint, or damaged .*Delete it to restart",
    ):
        run("hmc", checkpoint=Checkpoint(path))
    save_file(arrays, path, metadata={"schema": "0", "facts": "{}"})
    with pytest.raises(
        ArtifactError, match="a checkpoint of version 0; this program reads version 1. Delete it"
    ):
        run("hmc", checkpoint=Checkpoint(path))
    save_file(arrays, path)
    with pytest.raises(ArtifactError, match="a checkpoint of version unknown"):
        run("hmc", checkpoint=Checkpoint(path))

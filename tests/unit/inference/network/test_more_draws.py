"""A finished run goes on from its last file: its draws stay, and more follow."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ArtifactError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.network.sampler_config import SamplerConfig
from tests.unit.inference.network.test_checkpoints import CONFIG, KINDS, problem_of, run
from tests.unit.inference.network.test_sampler import assert_same

LONGER = CONFIG.extended(15)


@pytest.fixture(scope="module")
def problems():
    return {kind: problem_of(kind) for kind in KINDS}


@pytest.mark.parametrize("kind", KINDS)
def test_draws_of_the_first_part_do_not_change_and_more_follow(tmp_path, problems, kind):
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=20)
    first, info = run(problems[kind], checkpoint=checkpoint)
    updates = []
    more, longer_info = run(
        problems[kind], config=LONGER, checkpoint=checkpoint, progress=updates.append
    )
    n = CONFIG.n_draws
    for name in ("state", "fitted", "accept", "divergent", "energy"):
        values = getattr(longer_info, name)
        before = getattr(info, name)
        assert values.shape[1] == n + 15
        np.testing.assert_array_equal(values[:, :n], before)
    n_stored = first.state.shape[1]
    assert (n_stored, more.state.shape[1]) == (5, 8)
    for values, before in zip(
        [more.state, more.output, *more.z], [first.state, first.output, *first.z], strict=True
    ):
        assert torch.equal(values[:, :n_stored], before)
    # warm-up and the first draws of both groups were not sampled again
    assert updates[0].done > CONFIG.n_warmup + n


def test_continued_run_is_the_run_of_its_settings_from_the_start(tmp_path, problems):
    problem = problems["point estimate"]
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=20)
    run(problem, checkpoint=checkpoint)
    continued = run(problem, config=LONGER, checkpoint=checkpoint)
    assert_same(continued, run(problem, config=LONGER))


def test_file_of_a_run_with_another_length_is_not_extended(tmp_path, problems):
    problem = problems["point estimate"]
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=20)
    run(problem, config=dataclasses.replace(CONFIG, draws=24), checkpoint=checkpoint)
    with pytest.raises(ArtifactError, match="belongs to another run: settings"):
        run(problem, config=LONGER, checkpoint=checkpoint)


@pytest.mark.parametrize(("draws", "keep", "more"), [(400, 400, 450), (25, 20, 15), (7, 5, 3)])
def test_stored_draws_of_an_extension_begin_with_those_of_the_run(draws, keep, more):
    config = SamplerConfig(chains=2, draws=20 + draws, keep=keep, warmup=20)
    longer = config.extended(more)
    before = config.stored_draws
    stored = longer.stored_draws
    assert stored[: len(before)] == before
    assert len(stored) == len(set(stored)) and max(stored) < 20 + draws + more

"""Interrupted chains of a network resume from their files and give the draws of one run."""

import dataclasses
import re

import pytest
import torch

from bandgap.foundation.errors import ArtifactError, Cancelled
from bandgap.foundation.progress import no_progress
from bandgap.inference.checkpoints import Checkpoint, content_of, facts_of
from bandgap.inference.network.inverse_gamma_scales import InverseGammaScales
from bandgap.inference.network.pcp_scales import variational_scales
from bandgap.inference.network.sampler import sample_network
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.inference.network.whitened_network import whiten
from bandgap.research.shared.scaled_network import whiten_scaled
from tests.unit.inference.network.problems import CPU, prior_of, raw
from tests.unit.inference.network.test_sampler import assert_same

# in a warm-up of 40, widths are estimated after 6, 12, 20 and 30 iterations, directions after 28
CONFIG = SamplerConfig(chains=4, warmup=40, draws=25, keep=20, angle=0.6, max_steps=4)
KINDS = ("point estimate", "variational", "inverse gamma")


def problem_of(kind):
    theta_hat, x, y = raw(7, 5)
    if kind == "point estimate":
        x = x * torch.tensor([2.0, 1.0, 0.05, 0.02, 0.01])  # so that there are trailing inputs
        return whiten(theta_hat, x, y, device=CPU, dtype=torch.float32), prior_of(theta_hat, x)
    if kind == "variational":
        sds = [
            0.1 + 0.05 * torch.rand(t.shape, generator=torch.Generator().manual_seed(3))
            for t in theta_hat
        ]
        net = whiten_scaled(theta_hat, sds, x, y, device=CPU, dtype=torch.float32)
        return net, variational_scales(
            [t.numel() for t in theta_hat], noise_b=0.1, c0=1.0, device=CPU
        )
    net = whiten([torch.zeros_like(t) for t in theta_hat], x, y, device=CPU, dtype=torch.float32)
    return net, InverseGammaScales(
        0.1, torch.tensor([1 / t.shape[1] for t in theta_hat], dtype=torch.float64)
    )


@pytest.fixture(scope="module")
def problems():
    return {kind: problem_of(kind) for kind in KINDS}


def run(problem, *, config=CONFIG, seed=3, progress=no_progress, checkpoint=None):
    return sample_network(
        *problem, config=config, seed=seed, progress=progress, checkpoint=checkpoint
    )


@pytest.fixture(scope="module")
def without_break(problems):
    return {kind: run(problem) for kind, problem in problems.items()}


class Killed(RuntimeError):
    """An error after which nothing is written, as in a power cut."""


def ended_after(iterations, error):
    def progress(update):
        if update.done >= iterations:
            raise error("gone")

    return progress


@pytest.mark.parametrize(
    ("kind", "every"),
    [
        *(("point estimate", every) for every in (13, 29)),
        ("variational", 64),
        ("inverse gamma", 41),
        *(
            pytest.param(kind, every, marks=pytest.mark.slow)
            for kind, every in (
                *(("point estimate", every) for every in (1, 40, 43)),
                ("variational", 21),
                *(("inverse gamma", every) for every in (7, 25)),
            )
        ),
    ],
    ids=lambda value: f"file at {value}" if isinstance(value, int) else value,
)
def test_killed_run_resumes_from_its_last_file_bit_for_bit(
    tmp_path, problems, without_break, kind, every
):
    """The first group is killed at the report after its file was written; the other has not run."""
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=every)
    with pytest.raises(Killed):
        run(problems[kind], checkpoint=checkpoint, progress=ended_after(every, Killed))
    assert [path.name for path in tmp_path.iterdir()] == ["chains-1.safetensors"]
    updates = []
    assert_same(
        run(problems[kind], checkpoint=checkpoint, progress=updates.append), without_break[kind]
    )
    assert updates[0].done > every


@pytest.mark.parametrize(
    ("kind", "coordinates"),
    [
        ("point estimate", "partially centred"),
        ("inverse gamma", "partially centred"),
        ("variational", "whitened"),
    ],
)
def test_automatic_coordinates_are_stored_and_suit_the_problem(
    tmp_path, problems, kind, coordinates
):
    """Partially centred coordinates need weights with one prior width a layer."""
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=5)
    with pytest.raises(Killed):
        run(problems[kind], checkpoint=checkpoint, progress=ended_after(5, Killed))
    assert facts_of(tmp_path / "chains-1.safetensors")["settings"]["coordinates"] == coordinates
    assert facts_of(tmp_path / "chains-2.safetensors") == {}


@pytest.mark.parametrize(
    ("kind", "iteration"),
    [
        ("point estimate", 115),
        ("variational", 45),
        pytest.param("point estimate", 25, marks=pytest.mark.slow),
        pytest.param("inverse gamma", 80, marks=pytest.mark.slow),
    ],
)
def test_cancelled_run_resumes_where_it_was(tmp_path, problems, without_break, kind, iteration):
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=1000)
    with pytest.raises(Cancelled):
        run(problems[kind], checkpoint=checkpoint, progress=ended_after(iteration, Cancelled))
    updates = []
    assert_same(
        run(problems[kind], checkpoint=checkpoint, progress=updates.append), without_break[kind]
    )
    assert updates[0].done > iteration and updates[-1].done == updates[-1].total == 130


def test_groups_in_separate_processes_resume(tmp_path, problems, without_break, monkeypatch):
    monkeypatch.setattr("bandgap.inference.network.sampler.PROCESSES_FROM", 0)
    monkeypatch.setattr("bandgap.inference.network.sampler.cores", lambda: 2)
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=1000)
    with pytest.raises(Cancelled):
        run(problems["point estimate"], checkpoint=checkpoint, progress=ended_after(1, Cancelled))
    assert {path.name for path in tmp_path.iterdir()} == {
        "chains-1.safetensors",
        "chains-2.safetensors",
    }
    assert_same(
        run(problems["point estimate"], checkpoint=checkpoint), without_break["point estimate"]
    )


def test_finished_run_is_read_from_its_files(tmp_path, problems, without_break):
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=30)
    assert_same(run(problems["variational"], checkpoint=checkpoint), without_break["variational"])
    updates = []
    assert_same(
        run(problems["variational"], checkpoint=checkpoint, progress=updates.append),
        without_break["variational"],
    )
    assert [(u.done, u.total) for u in updates] == [(130, 130)]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"seed": 4}, "seed is [3, 0] there and [4, 0] here"),
        ({"config": dataclasses.replace(CONFIG, angle=0.5)}, "settings is {'angle': 0.6,"),
        ({"config": dataclasses.replace(CONFIG, draws=30)}, "settings is {'angle': 0.6,"),
        ({"problem": "other"}, "problem is '"),
    ],
    ids=["seed", "settings", "length", "problem"],
)
def test_files_of_another_run_are_refused(tmp_path, problems, changed, text):
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=10)
    with pytest.raises(Killed):
        run(problems["point estimate"], checkpoint=checkpoint, progress=ended_after(20, Killed))
    net, prior = problems["point estimate"]
    if "problem" in changed:
        y = net.y.clone()
        y[0] = torch.nextafter(y[0], y[0] + 1)  # one label, by its last bit
        changed = {"problem": (dataclasses.replace(net, y=y), prior)}
    settings = {"problem": (net, prior)} | changed
    with pytest.raises(ArtifactError, match=re.escape(f"belongs to another run: {text}")):
        run(settings.pop("problem"), checkpoint=checkpoint, **settings)


def test_content_differs_by_every_field_and_every_bit(problems):
    net, prior = problems["point estimate"]
    same = content_of(net, prior)
    assert content_of(dataclasses.replace(net), prior) == same
    y = net.y.clone()
    y[-1] = torch.nextafter(y[-1], y[-1] - 1)
    changed = [dataclasses.replace(net, y=y), dataclasses.replace(net, constant=2.0)]
    contents = {content_of(changed_net, prior) for changed_net in changed}
    contents.add(content_of(net, dataclasses.replace(prior, lam=9.0)))
    assert len(contents) == 3 and same not in contents

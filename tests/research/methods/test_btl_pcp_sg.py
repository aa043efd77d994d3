"""Transfer by mini-batches: settings, checkpoints, pruning, and every sampler."""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.networks.perceptron import layers_of
from bandgap.research.methods.btl_pcp_sg import BtlPcpSgConfig, fit
from bandgap.research.shared.stochastic_start import SgSampler, sampler_for
from bandgap.research.stochastic_gradient.samplers import CONFIGS
from bandgap.transfer.shared.method import Fitting

SHORT = SgSampler(chains=2, warmup=12, draws=24, keep=8, batch_size=10, search=12)


def run(source, data, *, seed=0, **settings):
    checkpoint = settings.pop("checkpoint", None)
    progress = settings.pop("progress", lambda update: None)
    config = BtlPcpSgConfig(**({"sampler": SHORT} | settings))
    return fit(
        source, data, config, Fitting(seed, device="cpu", progress=progress, checkpoint=checkpoint)
    )


@pytest.mark.parametrize("name", CONFIGS)
def test_every_sampler_serves_by_its_name(source_of, target, name):
    sampler = SgSampler(name, chains=2, warmup=30, draws=24, keep=8, batch_size=10, search=12)
    posterior = run(source_of(), target, sampler=sampler)
    means = posterior.mean_draws_eV(target.features[:5])
    assert means.shape == (2, 4, 5) and np.isfinite(means).all()
    warnings_text = " ".join(posterior.diagnostics.warnings)
    assert ("biased by construction" in warnings_text) == (name == "asgld")


class Killed(RuntimeError):
    """As a power cut."""


@pytest.mark.parametrize(
    "phase, done", [("searching for a start", 7), ("warm-up", 4), ("sampling", 20)]
)
def test_killed_transfer_goes_on_bit_for_bit(source_of, target, tmp_path, monkeypatch, phase, done):
    monkeypatch.setattr("bandgap.research.stochastic_gradient.run.REPORT_EVERY_S", 0.0)
    source = source_of()
    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=5)

    def kill(update):
        if update.phase == phase and update.done >= done:
            raise Killed

    with pytest.raises(Killed):
        run(source, target, checkpoint=checkpoint, progress=kill)
    updates = []
    again = run(source, target, checkpoint=checkpoint, progress=updates.append)
    uninterrupted = run(source, target)
    assert (
        again.mean_draws_eV(target.features) == uninterrupted.mean_draws_eV(target.features)
    ).all()
    assert (again.sigma == uninterrupted.sigma).all() and (again.tau == uninterrupted.tau).all()
    searched = any(u.phase == "searching for a start" for u in updates)
    assert searched == (phase == "searching for a start")


HALVED = SgSampler(chains=4, warmup=12, draws=24, keep=8, batch_size=10, search=12, halve=True)


@pytest.mark.slow
def test_halve_with_too_long_a_step_warns(source_of, target):
    """Eight times the step that the widening asks for."""
    step = run(source_of(), target, sampler=SHORT).diagnostics.figures["step"]
    sampler = replace(HALVED, warmup=60, draws=1500, step=8 * step)
    warnings_text = " ".join(run(source_of(), target, sampler=sampler).diagnostics.warnings)
    assert (
        "With half the step" in warnings_text and "Shorten the step until it stays" in warnings_text
    )


def test_chains_with_more_noise_than_the_labels_have_are_left_out(source_of, target):
    """Where all chains diverge they restart: the step at which only some do depends on rounding."""
    step = run(source_of(), target, sampler=SHORT).diagnostics.figures["step"]
    for factor in range(16, 25):
        sampler = replace(HALVED, halve=False, warmup=60, draws=200, step=factor * step)
        posterior = run(source_of(), target, sampler=sampler)
        figures = posterior.diagnostics.figures
        if figures["divergences"] > 0:
            break
    most = np.e * target.gaps_eV.std()
    assert figures["divergences"] > 0 and figures["chains"] + figures["divergences"] == 4
    assert posterior.n_chains == figures["chains"] and (posterior.sigma_eV < most).all()
    assert "chains diverged and were left out" in " ".join(posterior.diagnostics.warnings)


@pytest.mark.statistical
def test_control_variate_at_the_start_leaves_the_posterior(source_of, target):
    longer = SgSampler(chains=4, warmup=100, draws=500, keep=200, batch_size=10, search=100)
    means = [
        run(source_of(), target, sampler=replace(longer, control=control)).mean_draws_eV(
            target.features[:8]
        )
        for control in (False, True)
    ]
    spread = means[0].std((0, 1))
    assert (np.abs(means[0].mean((0, 1)) - means[1].mean((0, 1))) < 0.5 * spread).all()


LONGER = SgSampler(chains=2, warmup=60, draws=24, keep=8, batch_size=10, search=60)


def test_pruned_share_is_exact_after_rebirth_and_stays_with_the_source(source_of, target):
    """Weights of every hidden layer are pruned, down to one weight.

    They differ from those of a single pruning.
    """
    source = source_of()
    posterior = run(source, target, prune_share=0.5, sampler=LONGER)
    moved = posterior.upper[0] - layers_of(source.params)[1]
    assert (moved[..., -1] != 0).all()  # biases
    for entries in (posterior.coordinates, moved[..., :-1]):
        zeros = entries == 0
        assert (zeros == zeros[:, :1]).all()
        assert (zeros.flatten(2).sum(2) == round(0.5 * zeros[0, 0].numel())).all()
    figures = posterior.diagnostics.figures
    assert 0 < figures["reborn_share"] < 0.5
    assert figures["zero_share"] == pytest.approx(0.5, abs=0.1)
    unpruned = run(source, target, sampler=LONGER)
    assert float((unpruned.coordinates == 0).double().mean()) == 0
    assert "reborn_share" not in unpruned.diagnostics.figures


def test_step_follows_from_the_widening_and_from_stability():
    """Batch noise c = 79: h c / 2 = widening; with little noise a quarter of the stable step."""
    sampler = SgSampler(widening=0.05)
    assert sampler_for(sampler, curvature=50.0, noise=79.0).step == pytest.approx(
        0.05 * 2 * 0.05 / 79
    )
    assert sampler_for(sampler, curvature=50.0, noise=0.0).step == pytest.approx(0.25 * 2 / 50)
    plain = sampler_for(SgSampler("sgld", widening=0.05), curvature=50.0, noise=79.0)
    assert plain.step == pytest.approx(2 * 0.05 / 79)
    assert sampler_for(SgSampler("sgld", step=0.3), curvature=50.0, noise=79.0).step == 0.3
    adaptive = sampler_for(
        SgSampler("psgld", widening=0.05), curvature=50.0, noise=79.0, slope=0.01
    )
    # Its metric is at most 1 / damping.
    assert adaptive.step / adaptive.damping == pytest.approx(plain.step)


@pytest.mark.parametrize(
    "settings, text",
    [
        ({"keep": 3}, "4 chains, 3 draws kept. Accepted: at least one kept draw for every chain"),
        ({"halve": True, "chains": 3}, "halve with 3 chains. Accepted: at least 4"),
    ],
    ids=["keep", "halve"],
)
def test_settings_that_cannot_be_together_are_refused(settings, text):
    with pytest.raises(ConfigError, match=text):
        SgSampler(**settings)

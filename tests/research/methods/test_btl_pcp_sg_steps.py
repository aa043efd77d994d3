"""Steps by mini-batches: from the curvature at the chains, shorter after a divergence."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import BandgapError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.research.methods.btl_pcp_sg import BtlPcpSgConfig, fit
from bandgap.research.shared.stochastic_start import SgSampler
from bandgap.transfer import TargetData
from bandgap.transfer.shared.method import Fitting
from tests.statistical.by_library import source_of as source_with
from tests.unit.inference.network.problems import plain, raw

SHORT = SgSampler(chains=2, warmup=40, draws=24, keep=8, batch_size=10, search=40)


def run(
    source,
    data,
    sampler,
    *,
    seed=0,
    device="cpu",
    checkpoint=None,
    progress=lambda update: None,
    share=0.0,
):
    config = BtlPcpSgConfig(sampler=sampler, prune_share=share)
    return fit(
        source, data, config, Fitting(seed, device=device, progress=progress, checkpoint=checkpoint)
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 2])
def test_chains_stay_on_few_labels_with_little_noise(seed):
    """60 rows of 40 features, noise 2 % of the labels' spread, hidden layers of 32 and 16.

    Away from the modes the curvature of the posterior is up to a hundred times as large. With
    frames and steps from the modes alone, a chain of each of these seeds diverged while settling.
    """
    theta_hat, x, _ = raw(60, 40, hidden=(32, 16), seed=seed)
    rng = np.random.default_rng(seed + 1000)
    theta = [layer + 0.3 * torch.from_numpy(rng.normal(size=layer.shape)) for layer in theta_hat]
    f = plain(theta, x).numpy()
    data = TargetData(x.numpy().astype(np.float32), f + 0.02 * f.std() * rng.normal(size=60))
    posterior = run(
        source_with(theta_hat),
        data,
        SgSampler(warmup=400, draws=200, keep=40, search=300),
        seed=seed,
    )
    figures = posterior.diagnostics.figures
    assert figures["divergences"] == 0 and figures["chains"] == 4
    fitted = posterior.mean_draws_eV(data.features).mean((0, 1))
    assert np.sqrt(np.mean((fitted - data.gaps_eV) ** 2)) < 0.8 * data.gaps_eV.std()


def test_chains_that_diverge_restart_with_half_the_step(source_of, target, tmp_path, monkeypatch):
    """A run that is killed then resumes from its last attempt, to the same draws."""
    monkeypatch.setattr("bandgap.research.stochastic_gradient.run.REPORT_EVERY_S", 0.0)
    source = source_of()
    curvature = run(source, target, SHORT, seed=1).diagnostics.figures["largest_curvature"]
    # One halving is enough for this seed, so that the result does not depend on rounding.
    far = replace(SHORT, step=4.0 / curvature)
    uninterrupted = run(source, target, far, seed=1)
    halvings = np.log2(far.step / uninterrupted.diagnostics.figures["step"])
    assert any(
        "were restarted, the last time" in words for words in uninterrupted.diagnostics.warnings
    )
    assert halvings in (1, 2, 3) and np.isfinite(uninterrupted.mean_draws_eV(target.features)).all()

    checkpoint = Checkpoint(tmp_path / "chains.safetensors", every=5)

    def kill(update):
        if update.phase == "sampling" and update.done >= 60:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, target, far, seed=1, checkpoint=checkpoint, progress=kill)
    updates = []
    again = run(source, target, far, seed=1, checkpoint=checkpoint, progress=updates.append)
    assert (
        updates[-1].phase == "sampling"
        and min(u.done for u in updates if u.phase == "sampling") >= 60
    )
    assert not {"searching for a start", "settling"} & {u.phase for u in updates}
    assert (
        again.mean_draws_eV(target.features) == uninterrupted.mean_draws_eV(target.features)
    ).all()
    assert again.diagnostics.figures["step"] == uninterrupted.diagnostics.figures["step"]


def test_step_that_is_too_long_by_far_is_refused(source_of, target):
    with pytest.raises(
        BandgapError, match=r"all chains diverged, down to a step of 125\. Set a smaller step"
    ):
        run(source_of(), target, replace(SHORT, step=1000.0))


@pytest.mark.parametrize("far, halved", [(3.0, True), (1e6, False)])
def test_chains_settle_with_half_the_step_where_they_run_away(
    source_of, target, monkeypatch, far, halved
):
    """`LARGEST_STABLE_SHARE` is the share of the largest stable step.

    Three times that step diverges at first, a million times always.
    """
    monkeypatch.setattr("bandgap.research.shared.stochastic_start.LARGEST_STABLE_SHARE", far)
    sampler = replace(SHORT, warmup=400, batch_size=40)
    if halved:
        assert np.isfinite(run(source_of(), target, sampler).mean_draws_eV(target.features)).all()
    else:
        with pytest.raises(
            BandgapError,
            match="chains diverged while they settled, 4 times, each with half the step",
        ):
            run(source_of(), target, sampler)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU here")
def test_chains_run_on_a_gpu(source_of, target):
    """Paths differ: eigenvectors, along which random numbers are drawn, have other signs."""
    posterior = run(source_of(), target, replace(SHORT, warmup=400, draws=400), device="cuda")
    assert (
        posterior.diagnostics.figures["chains"] == 2 and posterior.coordinates.device.type == "cpu"
    )
    fitted = posterior.mean_draws_eV(target.features).mean((0, 1))
    assert np.sqrt(np.mean((fitted - target.gaps_eV) ** 2)) < 0.7 * target.gaps_eV.std()

"""Monte-Carlo dropout: draws are masked networks, training uses masks, noise is a choice."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.networks.perceptron import NetworkConfig, forward, init_params
from bandgap.networks.standardise import Standardiser
from bandgap.networks.training import TrainingConfig
from bandgap.research.methods.mc_dropout import (
    McDropoutConfig,
    dropped_layer,
    fit,
    masked_posterior,
)
from bandgap.transfer import fine_tune
from bandgap.transfer.shared.method import Fitting

TRAINING = TrainingConfig(max_epochs=8, batch_size=8, learning_rate=3e-3)
CONFIG = McDropoutConfig("source", "source", passes=40, training=TRAINING)
P = 5


@pytest.mark.parametrize("hidden", [(6,), (6, 4), (6, 4, 3)])
def test_every_draw_is_the_network_with_its_mask_on_the_inputs_of_the_layer(hidden):
    """Before the last hidden layer, or on the only one."""
    params = init_params(NetworkConfig(P, hidden), generator=torch.Generator().manual_seed(0))
    params = {k: v + 0.1 for k, v in params.items()}
    layer = dropped_layer(len(hidden) + 1)
    assert layer == {1: 2, 2: 2, 3: 3}[len(hidden)]
    width = params[f"weight.{layer}"].shape[1]
    masks = (torch.rand(7, width, generator=torch.Generator().manual_seed(1)) > 0.3).float() / 0.7
    scale = Standardiser(np.zeros(P), np.ones(P), 2.0, 3.0)
    posterior = masked_posterior(params, masks, layer=layer, sigma=0.5, standardiser=scale, seed=0)
    x = np.random.default_rng(2).normal(size=(9, P)).astype(np.float32)
    predicted = posterior.mean_draws_eV(x)
    assert predicted.shape == (1, 7, 9)
    for mask, values in zip(masks, predicted[0], strict=True):
        masked = params | {f"weight.{layer}": params[f"weight.{layer}"] * mask}
        expected = 2.0 + 3.0 * forward(masked, torch.from_numpy(x)).double().numpy()
        np.testing.assert_allclose(values, expected, rtol=0, atol=1e-5)


def test_masks_drop_the_share_that_was_asked_for(source_of, target):
    posterior = fit(
        source_of(hidden=(40, 4)),
        target,
        dataclasses.replace(CONFIG, dropout=0.3),
        Fitting(0, device="cpu"),
    )
    # Of 1,600: 0.011, four times.
    assert posterior.diagnostics.figures["kept_share"] == pytest.approx(0.7, abs=0.05)
    columns = posterior.upper[0][0, :, 0, :-1]
    assert ((columns == 0).float().mean() - 0.3).abs() < 0.05
    assert (posterior.upper[0][0, :, :, -1] == posterior.upper[0][0, 0, :, -1]).all()  # biases stay


@pytest.mark.parametrize("hidden", [(6,), (6, 4)])
def test_training_meets_masks(source_of, target, hidden):
    """The same seed gives other weights without dropout, the same with hardly any."""
    source = source_of(hidden=hidden)
    plain = fine_tune.fit(
        source,
        target,
        fine_tune.FineTuneConfig("source", "source", TRAINING),
        Fitting(0, device="cpu"),
    )
    dropped, hardly = (
        fit(source, target, dataclasses.replace(CONFIG, dropout=p), Fitting(0, device="cpu"))
        for p in (0.4, 1e-9)
    )
    assert not torch.allclose(dropped.theta_hat_1, plain.theta_hat_1, atol=1e-4)
    assert hardly.mean_draws_eV(target.features).std(1).max() < 1e-6
    assert (
        np.abs(
            hardly.mean_draws_eV(target.features)[0, 0] - plain.mean_draws_eV(target.features)[0, 0]
        ).max()
        < 0.3
    )


def test_noise_is_that_of_the_held_out_rows_or_none(source_of, target):
    source = source_of()
    held_out, none = (
        fit(source, target, dataclasses.replace(CONFIG, noise=kind), Fitting(0, device="cpu"))
        for kind in ("held_out", "none")
    )
    assert 0.1 < held_out.sigma_eV[0, 0] < 1.0
    assert none.sigma_eV.max() < 1e-5
    np.testing.assert_array_equal(
        held_out.mean_draws_eV(target.features), none.mean_draws_eV(target.features)
    )

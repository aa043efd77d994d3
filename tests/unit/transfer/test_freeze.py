"""Freezing keeps the hidden layers and fits a penalised least-squares output layer."""

import numpy as np
import torch

from bandgap.networks.training import TrainingConfig
from bandgap.transfer import TargetData
from bandgap.transfer.freeze import FreezeConfig, fit
from bandgap.transfer.shared.method import Fitting


def test_hidden_layers_are_the_sources_bit_for_bit_and_the_output_layer_is_not(source_of, target):
    source = source_of()
    posterior = fit(source, target, FreezeConfig(), Fitting(0, device="cpu"))
    layers = [posterior.theta_hat_1, *(layer[0, 0] for layer in posterior.upper)]
    source_layers = [
        torch.equal(
            layer, torch.cat([source.params[f"weight.{i}"], source.params[f"bias.{i}"][:, None]], 1)
        )
        for i, layer in enumerate(layers, start=1)
    ]
    assert source_layers == [True, True, False]


def test_output_layer_is_the_penalised_least_squares_of_the_training_rows(source_of):
    """Hidden units x and -x against the closed form.

    The minimum of mean (h w - y)^2 + l2 |w|^2, bias included, is (h'h / n + l2)^-1 h'y / n.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=(60, 5)).astype(np.float32)
    y = (
        x.astype(np.float64) @ np.array([1.0, -0.5, 0.3, 0.0, 0.8])
        + 0.4
        + 0.3 * rng.normal(size=60)
    )
    order = torch.randperm(60, generator=torch.Generator().manual_seed(4)).numpy()
    held_out = order[:12]
    rows = order[12:]
    h = np.hstack([np.maximum(x, 0), np.maximum(-x, 0), np.ones((60, 1))]).astype(np.float64)
    expected = np.linalg.solve(
        h[rows].T @ h[rows] / 48 + 0.05 * np.eye(11), h[rows].T @ y[rows] / 48
    )
    y[held_out] = h[held_out] @ expected

    source = source_of(
        {
            "weight.1": torch.cat([torch.eye(5), -torch.eye(5)]),
            "bias.1": torch.zeros(10),
            "weight.2": torch.full((1, 10), 2.0),
            "bias.2": torch.full((1,), -2.0),
        },
        hidden=(10,),
    )
    training = TrainingConfig(
        learning_rate=3e-2,
        l1=0.0,
        l2=0.05,
        batch_size=60,
        max_epochs=3000,
        patience=300,
        plateau_epochs=100,
    )
    posterior = fit(
        source,
        TargetData(x, y),
        FreezeConfig("source", "source", training),
        Fitting(4, device="cpu"),
    )
    # Float32.
    np.testing.assert_allclose(posterior.upper[0][0, 0, 0].numpy(), expected, rtol=0, atol=1e-4)
    assert posterior.sigma[0, 0] < 1e-4

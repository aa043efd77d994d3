"""Without transfer only the shape of the source's network matters."""

import pytest
import torch

from bandgap.networks.perceptron import NetworkConfig, init_params
from bandgap.networks.standardise import fit_standardiser
from bandgap.networks.training import TrainingConfig
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.target_only import TargetOnlyConfig, fit

CONFIG = TargetOnlyConfig(TrainingConfig(batch_size=8, max_epochs=20, learning_rate=3e-3))


def test_network_has_the_shape_of_the_sources(source_of, target):
    posterior = fit(source_of(hidden=(7, 3)), target, CONFIG, Fitting(0, device="cpu"))
    shapes = [
        tuple(posterior.theta_hat_1.shape),
        *(tuple(layer.shape[2:]) for layer in posterior.upper),
    ]
    assert shapes == [(7, 6), (3, 8), (1, 4)]


def test_scales_are_those_of_the_targets_training_rows(source_of, target):
    scale = fit(source_of(), target, CONFIG, Fitting(0, device="cpu")).standardiser
    expected = fit_standardiser(target.features, target.gaps_eV)
    assert (scale.x_mean == expected.x_mean).all() and (scale.x_scale == expected.x_scale).all()
    assert scale.y_mean_eV == pytest.approx(target.gaps_eV.mean())
    assert scale.y_sd_eV == pytest.approx(target.gaps_eV.std())


def test_training_starts_at_fresh_glorot_weights(source_of, target):
    still = TargetOnlyConfig(TrainingConfig(max_epochs=1, learning_rate=1e-12))
    posterior = fit(source_of(), target, still, Fitting(5, device="cpu"))
    start = init_params(NetworkConfig(5, (6, 4)), generator=torch.Generator().manual_seed(5))
    torch.testing.assert_close(posterior.theta_hat_1[:, :-1], start["weight.1"], rtol=0, atol=1e-7)
    torch.testing.assert_close(
        posterior.upper[1][0, 0, :, :-1], start["weight.3"], rtol=0, atol=1e-7
    )

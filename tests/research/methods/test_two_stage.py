"""Two stages with common held-out rows; the better stage is the result."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.networks.training import TrainingConfig
from bandgap.research.methods.two_stage import TwoStageConfig, fit
from bandgap.transfer.freeze import FreezeConfig
from bandgap.transfer.freeze import fit as fit_freeze
from bandgap.transfer.shared.method import Fitting

OUTPUT = TrainingConfig(learning_rate=1e-2, batch_size=8, max_epochs=40, patience=10)
ALL = TrainingConfig(learning_rate=3e-3, batch_size=8, max_epochs=40, patience=10)
STILL = dataclasses.replace(ALL, learning_rate=1e-12, max_epochs=1)
RUINOUS = dataclasses.replace(ALL, learning_rate=100.0, max_epochs=1)


def two_stage(source, target, *, all_layers=ALL, seed=0, **more):
    config = TwoStageConfig(output_layer=OUTPUT, all_layers=all_layers)
    return fit(source, target, config, Fitting(seed, device="cpu", **more))


def frozen(source, target, *, seed=0):
    fitting = Fitting(seed, device="cpu")
    return fit_freeze(source, target, FreezeConfig(training=OUTPUT), fitting)


def test_harmful_second_stage_gives_the_result_of_freezing(source_of, target):
    source = source_of()
    stages, expected = two_stage(source, target, all_layers=RUINOUS), frozen(source, target)
    assert torch.equal(stages.theta_hat_1, expected.theta_hat_1)
    assert all(torch.equal(a, b) for a, b in zip(stages.upper, expected.upper, strict=True))
    assert (stages.sigma == expected.sigma).all()


def test_held_out_rows_are_never_predicted_worse_than_by_freezing(source_of, target):
    source = source_of()
    pairs = [
        (two_stage(source, target, seed=s).sigma, frozen(source, target, seed=s).sigma)
        for s in range(4)
    ]
    assert all(both <= first for both, first in pairs)
    assert any(both < 0.8 * first for both, first in pairs)


def test_second_stage_trains_all_layers(source_of, target):
    source = source_of()
    stages, first = two_stage(source, target), frozen(source, target)
    assert stages.sigma < first.sigma
    assert not torch.equal(stages.theta_hat_1, first.theta_hat_1)
    assert not any(torch.equal(a, b) for a, b in zip(stages.upper, first.upper, strict=True))


def test_both_stages_hold_the_same_rows_out(source_of, target):
    """A second stage that does not move starts with the last validation error of the first."""
    updates = []
    two_stage(source_of(), target, all_layers=STILL, progress=updates.append)
    errors = {
        phase: [u.values["validation_mse"] for u in updates if u.phase == phase]
        for phase in ("training the output layer", "training all layers")
    }
    assert errors["training all layers"] == pytest.approx(
        [min(errors["training the output layer"])], rel=1e-5
    )


def test_noise_is_the_root_mean_square_error_of_the_held_out_rows(source_of, target):
    """The held-out fifth is the first of the permutation that the generator draws."""
    posterior = two_stage(source_of(), target, seed=7)
    held_out = torch.randperm(40, generator=torch.Generator().manual_seed(7))[:8].numpy()
    errors = target.gaps_eV[held_out] - posterior.mean_draws_eV(target.features[held_out])[0, 0]
    assert posterior.sigma_eV[0, 0] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)


def test_share_of_the_rate_changes_the_second_stage_alone(source_of, target):
    def fitted(share):
        config = TwoStageConfig(output_layer=OUTPUT, all_layers=ALL, hidden_rate_share=share)
        updates = []
        result = fit(source_of(), target, config, Fitting(0, device="cpu", progress=updates.append))
        return result, [u.values for u in updates if u.phase == "training the output layer"]

    plain, first_stage = fitted(1.0)
    slower, same_first_stage = fitted(0.3)
    assert first_stage == same_first_stage
    assert torch.equal(plain.theta_hat_1, two_stage(source_of(), target).theta_hat_1)
    assert not torch.equal(plain.theta_hat_1, slower.theta_hat_1)

"""Fine-tuning is one draw; its noise is that of the rows held out for early stopping."""

import numpy as np
import pytest
import torch

from bandgap.datasets.table import learnable
from bandgap.networks.training import TrainingConfig
from bandgap.sources.stored import load_source, source_predictions_eV
from bandgap.transfer import TargetData
from bandgap.transfer.fine_tune import FineTuneConfig, fit
from bandgap.transfer.shared.method import Fitting


@pytest.fixture(scope="module")
def source(source_folder):
    return load_source(source_folder)


@pytest.fixture(scope="module")
def data(world, source):
    table = learnable(world.records, world.gaps_eV, descriptor=source.descriptor)
    return TargetData(table.features, table.gaps_eV)


def test_posterior_is_one_draw_without_scales(source, data):
    posterior = fit(
        source,
        data,
        FineTuneConfig(training=TrainingConfig(max_epochs=3)),
        Fitting(0, device="cpu"),
    )
    assert (posterior.n_chains, posterior.n_draws) == (1, 1)
    assert posterior.layer_weights is None and posterior.tau is None
    assert posterior.diagnostics.warnings == ()


def test_noise_is_the_root_mean_square_error_of_the_held_out_rows(source, data):
    """The held-out fifth is the first of the permutation that the generator draws."""
    posterior = fit(
        source,
        data,
        FineTuneConfig(training=TrainingConfig(max_epochs=20)),
        Fitting(7, device="cpu"),
    )
    held_out = torch.randperm(24, generator=torch.Generator().manual_seed(7))[:5].numpy()
    errors = data.gaps_eV[held_out] - posterior.mean_draws_eV(data.features[held_out])[0, 0]
    assert posterior.sigma_eV[0, 0] == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-4)


def test_hidden_layers_move_less_at_a_smaller_share_of_the_rate(source, data):
    """The first steps of Adam are as long as the learning rate."""
    start = source.params["weight.1"]
    training = TrainingConfig(max_epochs=1, l1=0.0, l2=0.0)
    moves = [
        (
            fit(
                source,
                data,
                FineTuneConfig(training=training, hidden_rate_share=share),
                Fitting(0, device="cpu"),
            ).theta_hat_1[:, :-1]
            - start
        ).abs()
        for share in (1.0, 0.1)
    ]
    assert float(moves[1].max()) == pytest.approx(0.1 * float(moves[0].max()), rel=0.01)


def test_without_learning_predictions_are_those_of_the_source(source, data):
    training = TrainingConfig(max_epochs=1, learning_rate=1e-12)
    posterior = fit(
        source, data, FineTuneConfig("source", "source", training), Fitting(0, device="cpu")
    )
    predicted = posterior.mean_draws_eV(data.features)[0, 0]
    np.testing.assert_allclose(predicted, source_predictions_eV(source, data.features), atol=1e-4)

"""Training: the best epoch is returned, seeds reproduce it, and wrong inputs are refused."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import Cancelled
from bandgap.networks.perceptron import NetworkConfig, forward, init_params
from bandgap.networks.training import HalfErrors, RowSplit, TrainingConfig, split_rows, train

CONFIG = TrainingConfig(max_epochs=40, batch_size=16, learning_rate=5e-3, patience=10)


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(60, 3, generator=generator)
    y = torch.tanh(x[:, 0]) - 0.5 * x[:, 1] + 0.3 * torch.randn(60, generator=generator)
    return init_params(NetworkConfig(3, (16, 8)), generator=generator), x, y


def fit(problem, *, config=CONFIG, seed=1, **more):
    start, x, y = problem
    return train(start, x, y, config=config, generator=torch.Generator().manual_seed(seed), **more)


def test_weights_are_those_of_the_best_epoch(problem):
    """With twelve rows and a large learning rate, the validation error rises after its minimum."""
    start, x, y = problem
    trained = fit(
        (start, x[:12], y[:12]), config=dataclasses.replace(CONFIG, learning_rate=0.05, l2=0.0)
    )
    errors = [epoch.validation for epoch in trained.history]
    error = float(trained.validation_residuals.square().mean())
    assert errors[-1] > min(errors) * 1.05
    assert error == pytest.approx(min(errors), rel=1e-5)


def test_validation_residuals_are_those_of_the_returned_weights(problem):
    """The held-out rows are the first fifth of the generator's permutation."""
    _, x, y = problem
    trained = fit(problem, seed=8)
    held_out = torch.randperm(60, generator=torch.Generator().manual_seed(8))[:12]
    torch.testing.assert_close(
        trained.validation_residuals, y[held_out] - forward(trained.params, x[held_out])
    )


def test_training_ends_after_patience_epochs_without_a_smaller_error(problem):
    config = dataclasses.replace(CONFIG, max_epochs=500, patience=5)
    errors = [epoch.validation for epoch in fit(problem, config=config).history]
    assert len(errors) < 500
    assert len(errors) - 1 - int(np.argmin(errors)) == 5


def test_penalty_shrinks_weights(problem):
    loose, tight = (
        fit(problem, config=dataclasses.replace(CONFIG, l2=value)) for value in (0.0, 0.1)
    )
    size = [sum(float((p**2).sum()) for p in t.params.values()) for t in (loose, tight)]
    assert size[1] < 0.7 * size[0]


def test_frozen_layers_are_bitwise_unchanged_and_the_others_learn(problem):
    trained = fit(problem, frozen=(1, 2))
    is_same = {name: torch.equal(value, problem[0][name]) for name, value in trained.params.items()}
    assert [name for name, same in is_same.items() if not same] == ["weight.3", "bias.3"]
    assert trained.history[-1].train < trained.history[0].train


def test_layer_with_a_share_of_the_rate_moves_by_this_share(problem):
    """The first step of Adam is the learning rate for every weight, here without penalties."""
    config = dataclasses.replace(CONFIG, max_epochs=1, batch_size=48, l1=0.0, l2=0.0)
    start = problem[0]
    trained = fit(problem, config=config, rate_shares={1: 0.01})
    moves = {name: float((trained.params[name] - start[name]).abs().max()) for name in start}
    assert moves["weight.1"] == pytest.approx(0.01 * CONFIG.learning_rate, rel=0.01)
    assert moves["weight.2"] == pytest.approx(CONFIG.learning_rate, rel=0.01)


def test_given_split_is_used(problem):
    """In one epoch, labels of held-out rows change no weight, only the residuals."""
    start, x, y = problem
    split = RowSplit(torch.arange(10, 60), torch.arange(10))
    config = dataclasses.replace(CONFIG, max_epochs=1)
    changed = y.clone()
    changed[:10] += 100.0
    first, second = (fit((start, x, labels), config=config, split=split) for labels in (y, changed))
    assert all(torch.equal(first.params[name], second.params[name]) for name in first.params)
    torch.testing.assert_close(
        second.validation_residuals - first.validation_residuals, torch.full((10,), 100.0)
    )


def test_split_drawn_before_the_training_is_the_one_that_it_draws(problem):
    start, x, y = problem
    generator = torch.Generator().manual_seed(1)
    split = split_rows(60, share=CONFIG.validation_share, generator=generator)
    with_split = train(start, x, y, config=CONFIG, generator=generator, split=split)
    without = fit(problem)
    assert with_split.history == without.history
    assert all(torch.equal(with_split.params[name], without.params[name]) for name in start)


def test_cancel_ends_training(problem):
    updates = []

    def cancel(update):
        updates.append(update)
        if update.done == 3:
            raise Cancelled("cancelled")

    with pytest.raises(Cancelled):
        fit(problem, progress=cancel)
    assert [(u.done, u.total) for u in updates] == [(1, 40), (2, 40), (3, 40)]
    assert updates[0].values["validation_mse"] > 0


def test_three_rows_are_enough_to_hold_one_out():
    split = split_rows(3, share=0.1, generator=torch.Generator().manual_seed(0))
    assert sorted([*split.training.tolist(), *split.held_out.tolist()]) == [0, 1, 2]
    assert len(split.held_out) == 1


def test_each_half_of_the_held_out_rows_is_measured_at_the_epoch_of_the_other():
    errors = HalfErrors()
    for first, second in ((1.0, 4.0), (0.0, 9.0), (2.0, 1.0)):
        errors.add(torch.tensor([first, first, second, second, second]))
    assert errors.second == 9.0
    assert errors.both == (9.0 + 2.0) / 2


def test_one_held_out_row_has_no_error_that_it_did_not_choose():
    errors = HalfErrors()
    errors.add(torch.tensor([1.0]))
    assert np.isnan(errors.second) and np.isnan(errors.both)

"""Training on several source sets: separate outputs, equal weight, dropout, schedule."""

import dataclasses

import pytest
import torch

from bandgap.networks.joint_training import JointTrainingConfig, train_jointly
from bandgap.networks.perceptron import NetworkConfig, forward, init_params

CONFIG = JointTrainingConfig(
    steps=400, batch_size=32, warmup_steps=20, learning_rate=1e-2, dropout=0.0
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def labelled_rows(n, *, sign, seed):
    x = torch.randn(n, 5, generator=generator(seed))
    return x, sign * torch.tanh(x[:, 0]) + 0.1 * torch.randn(n, generator=generator(seed + 100))


def start(outputs=2, seed=0):
    return init_params(NetworkConfig(5, (16, 8), outputs), generator=generator(seed))


@pytest.fixture(scope="module")
def sets():
    """Return a large set and a small one with gaps of opposite sign, which need two outputs."""
    return [labelled_rows(600, sign=1.0, seed=1), labelled_rows(60, sign=-1.0, seed=2)]


@pytest.fixture(scope="module")
def trained(sets):
    return train_jointly(start(), sets, config=CONFIG, generator=generator())


def test_every_set_is_learned_by_its_own_output(trained):
    for k, sign in enumerate((1.0, -1.0)):
        x, y = labelled_rows(300, sign=sign, seed=7 + k)
        errors = ((forward(trained.params, x) - y[:, None]) ** 2).mean(0)
        assert errors[k] < 0.2 * y.var() < errors[1 - k]


def test_held_out_rows_are_of_every_set_and_give_its_error(trained, sets):
    for k, ((x, y), split) in enumerate(zip(sets, trained.splits, strict=True)):
        assert len(split.held_out) == round(0.05 * len(y))
        error = ((forward(trained.params, x[split.held_out])[:, k] - y[split.held_out]) ** 2).mean()
        assert trained.validation_mse[k] == pytest.approx(float(error), rel=1e-5)
    assert len(trained.history) == 20
    assert trained.history[-1].train < trained.history[0].train


def test_dropout_keeps_the_mean_and_drops_its_share():
    # With these weights every unit is active.
    params = {name: value.abs() for name, value in start().items()}
    x = torch.ones(20000, 5)
    values = forward(params, x, dropout=0.3, generator=generator())
    expected = forward(params, x[:1])[0]
    error = values.std(0) / 20000**0.5
    # False alarm below 1e-6.
    assert ((values.mean(0) - expected).abs() < 5 * error).all()
    assert (forward(params, x[:9], dropout=0.0) == forward(params, x[:9])).all()


def moved(x):
    """Return the rows in other features: the informative columns are swapped."""
    return x[:, [3, 1, 2, 0, 4]]


def share_unexplained(params, x, y):
    return float(((forward(params, x) - y) ** 2).mean() / y.var())


def test_rows_are_learned_in_their_features_and_in_the_alternative():
    rows = labelled_rows(600, sign=1.0, seed=1)
    x, y = labelled_rows(300, sign=1.0, seed=7)
    rows[0][:, 3] = 0.0
    x[:, 3] = 0.0
    both, alone = (
        train_jointly(
            start(1), [rows], config=CONFIG, generator=generator(), alternatives=[alternative]
        ).params
        for alternative in (moved(rows[0]), None)
    )
    assert share_unexplained(both, x, y) < 0.2
    assert share_unexplained(both, moved(x), y) < 0.2
    assert share_unexplained(alone, moved(x), y) > 0.8


def test_held_out_row_is_held_out_in_the_alternative_too(sets):
    """A row of NaN makes the weights NaN as soon as one step uses it."""
    # Every row of the small set is used several times, in either features.
    config = dataclasses.replace(CONFIG, steps=60)
    x, _ = sets[1]
    split = train_jointly(start(), sets, config=config, generator=generator()).splits[1]
    for rows, is_nan in ((split.held_out, False), (split.training[:3], True)):
        alternative = x.clone()
        alternative[rows] = torch.nan
        trained = train_jointly(
            start(), sets, config=config, generator=generator(), alternatives=[None, alternative]
        )
        assert bool(trained.params["weight.1"].isnan().any()) == is_nan
        assert (trained.splits[1].held_out == split.held_out).all()


def test_errors_are_those_of_the_features_and_not_of_the_alternative(sets):
    alternatives = [x + 0.1 for x, _ in sets]
    trained = train_jointly(
        start(), sets, config=CONFIG, generator=generator(), alternatives=alternatives
    )
    for k, ((x, y), split) in enumerate(zip(sets, trained.splits, strict=True)):
        predictions = forward(trained.params, x[split.held_out])[:, k]
        error = ((predictions - y[split.held_out]) ** 2).mean()
        assert trained.validation_mse[k] == pytest.approx(float(error), rel=1e-5)


def test_training_without_alternatives_draws_no_random_numbers_for_them(sets):
    config = dataclasses.replace(CONFIG, steps=30, dropout=0.2)
    plain, none, other = (
        train_jointly(start(), sets, config=config, generator=generator(), alternatives=a)
        for a in ((), (None, None), (None, sets[1][0]))
    )
    weights = plain.params["weight.1"]
    assert (weights == none.params["weight.1"]).all()
    assert not torch.allclose(weights, other.params["weight.1"])

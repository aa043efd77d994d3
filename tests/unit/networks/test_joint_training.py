"""Training on several source sets at once: outputs of their own, equal weight, dropout, schedule."""

import dataclasses

import pytest
import torch

from bandgap.foundation.errors import Cancelled, ConfigError, InputError
from bandgap.networks.joint_training import JointTrainingConfig, train_jointly
from bandgap.networks.perceptron import NetworkConfig, forward, init_params

CONFIG = JointTrainingConfig(
    steps=400, batch_size=32, warmup_steps=20, learning_rate=1e-2, dropout=0.0
)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def made(n, *, sign, seed):
    x = torch.randn(n, 5, generator=generator(seed))
    return x, sign * torch.tanh(x[:, 0]) + 0.1 * torch.randn(n, generator=generator(seed + 100))


def start(outputs=2, seed=0):
    return init_params(NetworkConfig(5, (16, 8), outputs), generator=generator(seed))


@pytest.fixture(scope="module")
def sets():
    """A large set and a small one whose gaps have the other sign: no single output could serve both."""
    return [made(600, sign=1.0, seed=1), made(60, sign=-1.0, seed=2)]


@pytest.fixture(scope="module")
def trained(sets):
    return train_jointly(start(), sets, config=CONFIG, generator=generator())


def test_every_set_is_learned_by_its_own_output(trained):
    for k, sign in enumerate((1.0, -1.0)):
        x, y = made(300, sign=sign, seed=7 + k)
        errors = ((forward(trained.params, x) - y[:, None]) ** 2).mean(0)
        assert errors[k] < 0.2 * y.var() < errors[1 - k]


def test_held_out_rows_are_of_every_set_and_give_its_error(trained, sets):
    for k, ((x, y), split) in enumerate(zip(sets, trained.splits, strict=True)):
        assert len(split.held_out) == round(0.05 * len(y))
        error = ((forward(trained.params, x[split.held_out])[:, k] - y[split.held_out]) ** 2).mean()
        assert trained.validation_mse[k] == pytest.approx(float(error), rel=1e-5)
    assert len(trained.history) == 20 and trained.history[-1].train < trained.history[0].train


def test_dropout_keeps_the_mean_and_leaves_out_its_share():
    params = start()
    params = {name: value.abs() for name, value in params.items()}  # so that every unit is active
    x = torch.ones(20000, 5)
    kept = forward(params, x, dropout=0.3, generator=generator())
    sure = forward(params, x[:1])[0]
    error = kept.std(0) / 20000**0.5
    assert ((kept.mean(0) - sure).abs() < 5 * error).all()  # false alarm below 1e-6
    assert (forward(params, x[:9], dropout=0.0) == forward(params, x[:9])).all()


def test_seed_repeats(sets):
    config = dataclasses.replace(CONFIG, steps=30, dropout=0.2)
    first, again, other = (
        train_jointly(start(), sets, config=config, generator=generator(s)).params["weight.1"]
        for s in (0, 0, 1)
    )
    assert (first == again).all() and not torch.allclose(first, other)


def moved(x):
    """The same rows in other features: what told their gap is now in another column."""
    return x[:, [3, 1, 2, 0, 4]]


def share_unexplained(params, x, y):
    return float(((forward(params, x) - y) ** 2).mean() / y.var())


def test_rows_are_learned_in_their_features_and_in_the_alternative():
    rows, (x, y) = made(600, sign=1.0, seed=1), made(300, sign=1.0, seed=7)
    rows[0][:, 3] = x[:, 3] = 0.0
    both, alone = (
        train_jointly(
            start(1), [rows], config=CONFIG, generator=generator(), alternatives=[other]
        ).params
        for other in (moved(rows[0]), None)
    )
    assert share_unexplained(both, x, y) < 0.2
    assert share_unexplained(both, moved(x), y) < 0.2
    assert share_unexplained(alone, moved(x), y) > 0.8


def test_row_that_is_held_out_is_so_in_the_alternative_too(sets):
    """A row without numbers spoils the weights as soon as one step takes it."""
    config = dataclasses.replace(
        CONFIG, steps=60
    )  # every row of the small set comes several times, in either features
    x, _ = sets[1]
    split = train_jointly(start(), sets, config=config, generator=generator()).splits[1]
    for rows, spoiled in ((split.held_out, False), (split.training[:3], True)):
        other = x.clone()
        other[rows] = torch.nan
        made = train_jointly(
            start(), sets, config=config, generator=generator(), alternatives=[None, other]
        )
        assert bool(made.params["weight.1"].isnan().any()) == spoiled
        assert (made.splits[1].held_out == split.held_out).all()


def test_errors_are_those_of_the_features_and_not_of_the_alternative(sets):
    other = [x + 0.1 for x, _ in sets]
    made = train_jointly(start(), sets, config=CONFIG, generator=generator(), alternatives=other)
    for k, ((x, y), split) in enumerate(zip(sets, made.splits, strict=True)):
        error = ((forward(made.params, x[split.held_out])[:, k] - y[split.held_out]) ** 2).mean()
        assert made.validation_mse[k] == pytest.approx(float(error), rel=1e-5)


def test_training_without_alternatives_draws_nothing_for_them(sets):
    config = dataclasses.replace(CONFIG, steps=30, dropout=0.2)
    plain, none, other = (
        train_jointly(start(), sets, config=config, generator=generator(), alternatives=a).params[
            "weight.1"
        ]
        for a in ((), (None, None), (None, sets[1][0]))
    )
    assert (plain == none).all() and not torch.allclose(plain, other)


@pytest.mark.parametrize(
    "wrong", [lambda x: [x], lambda x: [x[:9], None], lambda x: [None, None, None]]
)
def test_alternatives_of_other_shapes_are_refused(sets, wrong):
    with pytest.raises(
        InputError,
        match=r"features of shapes \[\(600, 5\), \(60, 5\)\], their alternatives .* as many",
    ):
        train_jointly(
            start(), sets, config=CONFIG, generator=generator(), alternatives=wrong(sets[0][0])
        )


def test_cancel_ends_it(sets):
    def cancel(update):
        raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        train_jointly(start(), sets, config=CONFIG, generator=generator(), progress=cancel)


def test_other_number_of_outputs_is_refused(sets):
    with pytest.raises(
        InputError, match="2 source sets but a network with 3 outputs. Give one output for each"
    ):
        train_jointly(start(3), sets, config=CONFIG, generator=generator())


@pytest.mark.parametrize(
    "wrong", [{"steps": 0}, {"dropout": 1.0}, {"validation_share": 0.0}, {"learning_rate": 0.0}]
)
def test_settings_outside_are_refused(wrong):
    with pytest.raises(
        ConfigError, match="joint training: .* Accepted: whole numbers from 1, shares inside"
    ):
        JointTrainingConfig(**wrong)


def test_negative_decay_is_refused():
    with pytest.raises(ConfigError, match="weight decay -1. Accepted: 0 or more"):
        JointTrainingConfig(weight_decay=-1)

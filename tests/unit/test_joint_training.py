"""Training on several source sets at once: outputs of their own, equal weight, dropout, schedule."""

import dataclasses

import pytest
import torch

from bandgap.errors import Cancelled, ConfigError, InputError
from bandgap.joint_training import JointTrainingConfig, train_jointly
from bandgap.networks import NetworkConfig, forward, init_params

CONFIG = JointTrainingConfig(steps=400, batch_size=32, warmup_steps=20, learning_rate=1e-2, dropout=0.0)


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
        train_jointly(start(), sets, config=config, generator=generator(s)).params["weight.1"] for s in (0, 0, 1)
    )
    assert (first == again).all() and not torch.allclose(first, other)


def test_cancel_ends_it(sets):
    def cancel(update):
        raise Cancelled("enough")

    with pytest.raises(Cancelled, match="enough"):
        train_jointly(start(), sets, config=CONFIG, generator=generator(), progress=cancel)


def test_other_number_of_outputs_is_refused(sets):
    with pytest.raises(InputError, match="2 source sets but a network with 3 outputs. Give one output for each"):
        train_jointly(start(3), sets, config=CONFIG, generator=generator())


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"dropout": 1.0}, {"validation_share": 0.0}, {"learning_rate": 0.0}])
def test_settings_outside_are_refused(wrong):
    with pytest.raises(ConfigError, match="joint training: .* Accepted: whole numbers from 1, shares inside"):
        JointTrainingConfig(**wrong)


def test_negative_decay_is_refused():
    with pytest.raises(ConfigError, match="weight decay -1. Accepted: 0 or more"):
        JointTrainingConfig(weight_decay=-1)

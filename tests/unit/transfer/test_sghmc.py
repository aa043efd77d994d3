"""SGHMC: chains and cycles become chains and draws; variance outside the row space."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.penalties import L2SP, ZeroMean
from bandgap.inference.batch.rows import Samples, first_layer
from bandgap.inference.batch.training import Cycles, train_stack
from bandgap.transfer import sghmc
from bandgap.transfer.sghmc import SghmcConfig, SghmcRecipe, noise_variance, outside_sd, training_of
from bandgap.transfer.shared.folds import start_of
from bandgap.transfer.shared.stack_plan import Members

QUICK = SghmcConfig(chains=2, cycles=3, epochs=4, batch_size=8)


def test_every_cycle_of_every_chain_leaves_a_draw(source_of, target):
    posterior = sghmc.fit(source_of(), target, QUICK, seed=0, device="cpu")
    assert (posterior.n_chains, posterior.n_draws) == (2, 3)
    every = np.ones(40, dtype=bool)
    at = start_of(
        source_of(),
        target,
        trained=every,
        statistics="auto",
        gap_scale="calibrated",
        coordinates="full",
    )
    expected = outside_sd(QUICK, n_rows=40, n_all=40, variance=noise_variance(at))
    np.testing.assert_allclose(posterior.scale_1, np.tile(expected, (2, 1)), rtol=1e-6)


def test_chains_that_diverge_restart_with_a_quarter_of_the_rate(source_of, target):
    fast = dataclasses.replace(QUICK, learning_rate=3.0)
    posterior = sghmc.fit(source_of(), target, fast, seed=0, device="cpu")
    (warning,) = posterior.diagnostics.warnings
    last_rate = float(warning.removesuffix(".").split(" the last time with ")[1])
    assert warning.startswith("Chains diverged at a learning rate of 3 and were restarted")
    assert last_rate in (3.0 / 4, 3.0 / 16, 3.0 / 64)
    slow = sghmc.fit(
        source_of(),
        target,
        dataclasses.replace(QUICK, learning_rate=last_rate),
        seed=0,
        device="cpu",
    )
    assert torch.equal(posterior.coordinates, slow.coordinates) and slow.diagnostics.warnings == ()
    with pytest.raises(
        ConfigError, match="chains diverged at learning rates from 1e\\+06 down to 15625"
    ):
        sghmc.fit(
            source_of(), target, dataclasses.replace(QUICK, learning_rate=1e6), seed=0, device="cpu"
        )


def test_energy_has_the_noise_of_the_probe(source_of, target):
    every = np.ones(40, dtype=bool)
    at = start_of(
        source_of(),
        target,
        trained=every,
        statistics="auto",
        gap_scale="calibrated",
        coordinates="full",
    )
    sample = SghmcRecipe().sample(at, 0, value=0.01, seed=0)
    assert (sample.omega == 2).all() and sample.variance == at.probe.residual_variance
    members = Members(torch.tensor([3.0]), torch.tensor([40]), torch.tensor([0.5]), [])
    assert SghmcRecipe().penalty(members).strength.tolist() == [1.5]


def test_part_outside_the_row_space_has_the_spread_of_full_chains():
    """12 rows, 40 inputs, 60 chains in full coordinates: within 4 standard errors."""
    config = SghmcConfig(
        cycles=2, epochs=5, batch_size=4, learning_rate=0.01, temperature=0.5, strength=0.3
    )
    rng = np.random.default_rng(0)
    chains = 60
    x = rng.normal(size=(12, 40))
    theta = torch.from_numpy(0.1 * rng.normal(size=(4, 41)))
    full = first_layer(theta, x, trained=np.ones(12, dtype=bool), coordinates="full")
    small = first_layer(theta, x, trained=np.ones(12, dtype=bool), coordinates="row_space")
    samples = Samples(
        layer=np.zeros(chains, dtype=int),
        omega=np.full((chains, 12), 2.0),
        labels=np.tile(rng.normal(size=12), (chains, 1)),
        heads=np.tile(0.3 * rng.normal(size=5), (chains, 1)),
        numbers=np.arange(chains),
        folds=np.full(chains, -1),
        n_rows=np.full(chains, 12),
        variances=np.full(chains, 0.7),
    )
    ends = train_stack(
        [full],
        [],
        samples,
        config=training_of(config),
        seed=0,
        device=torch.device("cpu"),
        penalty=L2SP(torch.full((chains,), 0.7 * config.strength), []),
        cycles=Cycles(config.cycles, config.temperature),
    )
    expected = outside_sd(config, n_rows=12, n_all=12, variance=0.7)
    for weights, sd in zip(ends, expected, strict=True):
        first = weights[0].double()
        outside = first - small.basis @ (small.basis.T @ first)
        count = chains * (41 - small.basis.shape[1]) * 4
        assert abs(float((outside**2).sum()) / count / sd**2 - 1) < 4 * np.sqrt(2 / count)


def test_zero_mean_prior_pulls_weights_that_no_row_moves_to_zero():
    """12 rows, 40 inputs, 60 chains: outside the row space the law is exactly normal.

    Its mean is a factor times the source's weights, its spread that of the prior around the source:
    both within 4 standard errors.
    """
    config = SghmcConfig(
        cycles=2,
        epochs=5,
        batch_size=4,
        learning_rate=0.01,
        temperature=0.02,
        strength=3.0,
        prior="zero_mean",
    )
    rng = np.random.default_rng(0)
    chains = 60
    variance = 0.7
    x = rng.normal(size=(12, 40))
    theta = torch.from_numpy(0.1 * rng.normal(size=(4, 41)))
    every = np.ones(12, dtype=bool)
    full = first_layer(theta, x, trained=every, coordinates="full")
    basis = first_layer(theta, x, trained=every, coordinates="row_space").basis
    samples = Samples(
        layer=np.zeros(chains, dtype=int),
        omega=np.full((chains, 12), 2.0),
        labels=np.tile(rng.normal(size=12), (chains, 1)),
        heads=np.tile(0.3 * rng.normal(size=5), (chains, 1)),
        numbers=np.arange(chains),
        folds=np.full(chains, -1),
        n_rows=np.full(chains, 12),
        variances=np.full(chains, variance),
    )
    ends = train_stack(
        [full],
        [],
        samples,
        config=training_of(config),
        seed=0,
        device=torch.device("cpu"),
        penalty=ZeroMean(torch.full((chains,), variance * config.strength), theta.T.float()),
        cycles=Cycles(config.cycles, config.temperature),
    )
    sds = outside_sd(config, n_rows=12, n_all=12, variance=variance)
    steps = 15
    factor = 1.0
    velocity = 0.0
    start = theta.T - basis @ (basis.T @ theta.T)
    for weights, sd in zip(ends, sds, strict=True):
        for step in range(steps):
            rate = 0.5 * config.learning_rate * (1 + math.cos(math.pi * step / steps))
            velocity = config.momentum * velocity - rate * config.strength * variance * factor
            factor += velocity
        moved = weights[0].double() + theta.T
        outside = moved - basis @ (basis.T @ moved)
        along = float((outside * start).sum()) / float((start**2).sum()) / chains
        assert abs(along - factor) < 4 * sd / float(start.norm()) / math.sqrt(chains)
        spread = outside - factor * start
        count = chains * (41 - basis.shape[1]) * 4
        assert abs(float((spread**2).sum()) / count / sd**2 - 1) < 4 * np.sqrt(2 / count)
    assert abs(factor) < 0.7  # the prior has moved them


def test_a_stronger_prior_around_zero_makes_smaller_hidden_weights(source_of, target):
    norms = []
    for strength in (0.0, 50.0):
        config = dataclasses.replace(QUICK, strength=strength, prior="zero_mean")
        posterior = sghmc.fit(source_of(), target, config, seed=0, device="cpu")
        assert (posterior.scale_1 == 0).all()  # all weights are coordinates
        first = posterior.theta_hat_1 + posterior.coordinates
        norms.append([first.norm(), *(layer.norm() for layer in posterior.upper[:-1])])
    weak, strong = np.array(norms)
    assert (strong < 0.9 * weak).all()


def test_an_unknown_prior_is_refused():
    with pytest.raises(ConfigError, match="sghmc: prior 'flat'. Accepted: l2sp, zero_mean"):
        SghmcConfig(prior="flat")


def test_temperature_of_zero_leaves_nothing_outside():
    assert (outside_sd(SghmcConfig(temperature=0.0), n_rows=40, n_all=40, variance=1.0) == 0).all()


@pytest.mark.parametrize(
    "settings", [{"chains": 0}, {"cycles": 0}, {"temperature": -1.0}, {"strength": -1.0}]
)
def test_settings_that_cannot_be_are_refused(settings):
    with pytest.raises(
        ConfigError, match=r"sghmc: .*Accepted: whole numbers from 1, numbers from 0"
    ):
        SghmcConfig(**settings)

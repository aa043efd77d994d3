"""SGHMC: chains and cycles become chains and draws; variance outside the row space."""

import dataclasses

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.inference.batch.penalties import Isotropic
from bandgap.inference.batch.rows import Samples, first_layer
from bandgap.inference.batch.training import Cycles, train_stack
from bandgap.networks.swag import Snapshots
from bandgap.research.methods import sghmc
from bandgap.research.methods.sghmc import (
    SghmcConfig,
    SghmcRecipe,
    noise_variance,
    outside_sd,
    recipe_of,
    training_of,
)
from bandgap.transfer.shared.folds import start_of
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.shared.stack_plan import Members
from tests.transfers import with_snapshots

QUICK = SghmcConfig(chains=2, cycles=3, epochs=4, batch_size=8)


def test_every_cycle_of_every_chain_leaves_a_draw(source_of, target):
    posterior = sghmc.fit(source_of(), target, QUICK, Fitting(0, device="cpu"))
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
    posterior = sghmc.fit(source_of(), target, fast, Fitting(0, device="cpu"))
    (warning,) = posterior.diagnostics.warnings
    last_rate = float(warning.removesuffix(".").split(" the last time with ")[1])
    assert warning.startswith("Chains diverged at a learning rate of 3 and were restarted")
    assert last_rate in (3.0 / 4, 3.0 / 16, 3.0 / 64)
    slow = sghmc.fit(
        source_of(),
        target,
        dataclasses.replace(QUICK, learning_rate=last_rate),
        Fitting(0, device="cpu"),
    )
    assert torch.equal(posterior.coordinates, slow.coordinates) and slow.diagnostics.warnings == ()
    with pytest.raises(
        ConfigError, match="chains diverged at learning rates from 1e\\+06 down to 15625"
    ):
        sghmc.fit(
            source_of(),
            target,
            dataclasses.replace(QUICK, learning_rate=1e6),
            Fitting(0, device="cpu"),
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
        penalty=Isotropic(torch.full((chains,), config.strength), [0.0]),
        cycles=Cycles(config.cycles, config.temperature),
    )
    expected = outside_sd(config, n_rows=12, n_all=12, variance=0.7)
    for weights, sd in zip(ends, expected, strict=True):
        first = weights[0].double()
        outside = first - small.basis @ (small.basis.T @ first)
        count = chains * (41 - small.basis.shape[1]) * 4
        assert abs(float((outside**2).sum()) / count / sd**2 - 1) < 4 * np.sqrt(2 / count)


@pytest.mark.parametrize("prior", ["l2sp", "zero_mean", "ptyl"])
def test_chains_of_a_linear_model_have_the_law_of_its_conjugate_posterior(source_of, prior):
    """A hidden unit that never rests, below a head a = 100,000: y = a (x, 1) theta + noise of s^2.

    Such a head and its intercept hardly move, as the steps are short. With the prior N(mu, s^2 V),
    theta is N(mean, T (s^2 / n) precision^-1) at temperature T, precision = a^2 Z'Z / n +
    V^-1 / n. Means of 60 chains along the eigenvectors are within 4.5 standard errors; so are
    variances of those of the steps, which approach the posterior's as cycles become longer.
    """
    n, chains, variance, temperature = 12, 60, 0.7, 1.0
    head, unit = 1e5, 1e-5
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2)) * [0.1, 1.0]
    z = np.hstack([x, np.ones((n, 1))])
    theta = torch.tensor([[0.02, 0.03, 0.5]], dtype=torch.float64)
    y = head * z @ [0.05, -0.01, 0.48] + rng.normal(size=n)
    config = SghmcConfig(
        prior=prior,
        epochs=300,
        cycles=1,
        batch_size=n,
        learning_rate=2e-10,
        temperature=temperature,
        strength=0.005 / unit**2,
        gamma=1.0,
        eps=unit**2,
    )
    source = with_snapshots(source_of(hidden=(1,)))
    spread = unit * torch.tensor([[2.0, 1.0, 0.0], [-2.0, 1.0, 1.0], [0.0, -2.0, -1.0]])
    snapshots = Snapshots(
        {"weight.1": torch.tensor([[0.03, 0.01]]), "bias.1": torch.tensor([0.45])},
        {"weight.1": torch.tensor([[1.0, 3.0]]) * unit**2, "bias.1": torch.tensor([2.0]) * unit**2},
        {"weight.1": spread[:, None, :2], "bias.1": spread[:, 2:]},
    )
    params = {"weight.1": theta[:, :2].float(), "bias.1": theta[:, 2].float()}
    source = dataclasses.replace(source, params={**source.params, **params}, snapshots=snapshots)
    members = Members(torch.full((chains,), config.strength), torch.full((chains,), n), [])
    samples = Samples(
        layer=np.zeros(chains, dtype=int),
        omega=np.full((chains, n), 2.0),
        labels=np.tile(y, (chains, 1)),
        heads=np.tile([head, 0.0], (chains, 1)),
        numbers=np.arange(chains),
        folds=np.full(chains, -1),
        n_rows=np.full(chains, n),
        variances=np.full(chains, variance),
    )
    every = np.ones(n, dtype=bool)
    coordinates = training_of(config).coordinates
    layer = first_layer(theta, x, trained=every, coordinates=coordinates)
    (end,) = train_stack(
        [layer],
        [],
        samples,
        config=training_of(config),
        seed=0,
        device=torch.device("cpu"),
        penalty=recipe_of(source, config).penalty(members),
        cycles=Cycles(1, temperature),
    )
    moved = end[0].double()[..., 0]
    drawn = (theta + (moved if layer.basis is None else moved @ layer.basis.T)).numpy()
    prior_precision = np.eye(3) * config.strength
    centre = theta[0].numpy() if prior == "l2sp" else np.zeros(3)
    if prior == "ptyl":
        swag = unit**2 * np.diag([0.5, 1.5, 1.0]) + (spread.T @ spread).double().numpy() / 4
        prior_precision = np.linalg.inv(swag + unit**2 * np.eye(3)) / n
        centre = np.array([0.03, 0.01, 0.45])
    precision = head**2 * z.T @ z / n + prior_precision
    mean = np.linalg.solve(precision, head * z.T @ y / n + prior_precision @ centre)
    values, vectors = np.linalg.eigh(precision)
    sds = [
        [
            outside_sd(
                dataclasses.replace(config, strength=float(value), epochs=epochs),
                n_rows=n,
                n_all=n,
                variance=variance,
            ).item()
            for value in values
        ]
        for epochs in (config.epochs, 20 * config.epochs)
    ]
    scores = (drawn - mean) @ vectors / sds[0]
    assert np.abs(scores.mean(0)).max() * np.sqrt(chains) < 4.5
    assert np.abs(scores.var(0) - 1).max() < 4.5 * np.sqrt(2 / chains)
    np.testing.assert_allclose(sds[1], np.sqrt(temperature * variance / n / values), rtol=0.15)

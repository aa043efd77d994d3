"""Ensembles: members differ by the order of rows or by their output layers; L2SP."""

from dataclasses import replace

import numpy as np
import torch

from bandgap.inference.batch.training import StackTraining
from bandgap.research.methods import l2sp, ptyl
from bandgap.research.methods.l2sp import L2SPConfig
from bandgap.research.methods.ptyl import PTYLConfig
from bandgap.transfer import ensemble
from bandgap.transfer.ensemble import EnsembleConfig
from bandgap.transfer.shared.folds import start_of
from bandgap.transfer.shared.method import Fitting
from bandgap.transfer.shared.stack_plan import EqualWeightsRecipe
from tests.transfers import with_snapshots

TRAINING = StackTraining(precision="float64", epochs=5, batch_size=8, learning_rate=3e-3)
CONFIG = EnsembleConfig(members=3, fold_members=1, training=TRAINING)


def test_rows_have_their_labels_and_the_weight_of_ordinary_fine_tuning(source_of, target):
    """Weights of mean 2 make the loss half the mean squared error (`inference.batch.kernels`)."""
    every = np.ones(40, dtype=bool)
    at = start_of(
        source_of(),
        target,
        trained=every,
        statistics="auto",
        gap_scale="calibrated",
        coordinates="full",
    )
    sample = EqualWeightsRecipe().sample(at, 5, value=0.0, seed=0)
    assert (
        (sample.omega == 2).all()
        and (sample.labels == at.y).all()
        and (sample.head == at.probe.head).all()
    )


def test_members_differ_by_the_order_of_their_rows(source_of, target):
    means = ensemble.fit(source_of(), target, CONFIG, Fitting(0, device="cpu")).mean_draws_eV(
        target.features
    )[0]
    assert 0 < means.std(0).mean() < 0.05


def test_fresh_heads_spread_members_more(source_of, target):
    spread = [
        ensemble.fit(
            source_of(), target, replace(CONFIG, diversity=diversity), Fitting(0, device="cpu")
        )
        .mean_draws_eV(target.features)
        .std(1)
        .mean()
        for diversity in ("order", "fresh_head")
    ]
    assert spread[1] > 3 * spread[0]


def test_order_is_the_only_difference(source_of, target):
    """One batch an epoch leaves nothing to order: all members are the same."""
    config = replace(CONFIG, training=replace(TRAINING, batch_size=100))
    means = ensemble.fit(source_of(), target, config, Fitting(0, device="cpu")).mean_draws_eV(
        target.features
    )[0]
    np.testing.assert_allclose(means, means[[0, 0, 0]], atol=1e-5)


def test_pull_keeps_hidden_layers_near_the_source(source_of, target):
    config = L2SPConfig(members=2, fold_members=1, training=replace(TRAINING, optimiser="sgd"))
    moved = [
        float(
            l2sp.fit(
                source_of(), target, replace(config, strengths=(w,)), Fitting(0, device="cpu")
            ).coordinates.norm()
        )
        for w in (0.0, 1.0, 30.0)
    ]
    assert moved[0] > moved[1] > moved[2] > 0


def test_held_out_rows_choose_the_strength(source_of, target):
    config = L2SPConfig(members=2, fold_members=1, strengths=(0.01, 1.0), training=TRAINING)
    posterior = l2sp.fit(source_of(), target, config, Fitting(0, device="cpu"))
    assert set(posterior.diagnostics.figures) == {"strength", "nll_strength_0.01", "nll_strength_1"}
    assert posterior.diagnostics.figures["strength"] in (0.01, 1.0)


def test_no_strength_is_l2sp_without_a_pull(source_of, target):
    plain = ensemble.fit(source_of(), target, CONFIG, Fitting(0, device="cpu"))
    none = l2sp.fit(
        source_of(),
        target,
        L2SPConfig(members=3, fold_members=1, strengths=(0.0,), training=TRAINING),
        Fitting(0, device="cpu"),
    )
    assert torch.equal(plain.coordinates, none.coordinates)
    assert (plain.sigma == none.sigma).all()


def test_tight_prior_brings_hidden_layers_to_the_mean_of_the_snapshots(source_of, target):
    source = with_snapshots(source_of())
    training = replace(TRAINING, optimiser="sgd", learning_rate=1e-3, epochs=60)
    tight, loose = (
        ptyl.fit(
            source,
            target,
            PTYLConfig(members=1, gammas=(1e-6,), eps=eps, training=training),
            Fitting(0, device="cpu"),
        )
        for eps in (1e-3, 1e6)
    )
    mean = torch.cat(
        [source.snapshots.mean["weight.1"], source.snapshots.mean["bias.1"][:, None]], 1
    )

    def distance(posterior):
        return float((posterior.theta_hat_1 + posterior.coordinates[0, 0] - mean).norm())

    assert distance(tight) < 0.05 * distance(loose)  # the data pull a little


def test_prior_takes_full_coordinates_whatever_the_settings_say(source_of, target):
    config = PTYLConfig(
        members=1, gammas=(1.0,), training=replace(TRAINING, coordinates="row_space")
    )
    posterior = ptyl.fit(with_snapshots(source_of()), target, config, Fitting(0, device="cpu"))
    assert torch.equal(posterior.basis, torch.eye(6))

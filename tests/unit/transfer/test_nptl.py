"""NPTL: samples, their independence, limits in alpha, and the choice by held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.foundation.progress import no_progress
from bandgap.inference.batch.bootstrap import block_weights, stream
from bandgap.inference.batch.training import StackTraining
from bandgap.transfer import nptl
from bandgap.transfer.nptl import BootstrapRecipe, NptlConfig, drawn_rows, plan_of, recipe_of
from bandgap.transfer.shared.folds import held_out_masks, start_of
from bandgap.transfer.shared.method import Fitting, TargetData
from bandgap.transfer.shared.stack_plan import Setting
from bandgap.transfer.shared.stacked import fit_stacked

EXACT = StackTraining(precision="float64", epochs=5, batch_size=8, learning_rate=3e-3)
QUICK = NptlConfig(samples=3, alphas=(1.0,), choice_samples=1, blocks=5, training=EXACT)
EVERY = np.ones(40, dtype=bool)


def start(source, target):
    return start_of(
        source,
        target,
        trained=EVERY,
        statistics="source",
        gap_scale="calibrated",
        coordinates="full",
    )


def fitted(source, target, config):
    return nptl.fit(source, target, config, Fitting(7, device="cpu"))


def test_sample_collapses_rows_and_probed_rows_of_its_own_stream(source_of, target):
    at = start(source_of(), target)
    sample = BootstrapRecipe(10).sample(at, 3, value=40.0, seed=7)
    w = block_weights(40, blocks=10, alpha=40.0, rng=stream(7, 3, "weights"))
    probed = at.probe.predict(at.hidden)
    np.testing.assert_allclose(sample.omega, w.data + w.pseudo)
    np.testing.assert_allclose(sample.omega * sample.labels, w.data * at.y + w.pseudo * probed)
    np.testing.assert_allclose(sample.head, at.probe.head)


def test_alpha_of_zero_never_looks_at_the_probes_values(source_of, target):
    at = start(source_of(), target)
    sample = BootstrapRecipe(10).sample(at, 0, value=0.0, seed=7)
    np.testing.assert_allclose(sample.labels, at.y, atol=1e-12)


def test_noisy_pseudo_labels_have_the_probes_residual_variance(source_of, target):
    """At a large alpha labels are pseudo labels: variance within 4 standard errors."""
    at = start(source_of(), target)
    labels = np.stack(
        [BootstrapRecipe(10, "noise").sample(at, m, value=1e8, seed=7).labels for m in range(100)]
    )
    ratio = np.mean((labels - at.probe.predict(at.hidden)) ** 2) / at.probe.residual_variance
    assert abs(ratio - 1) < 4 * np.sqrt(2 / labels.size)


def test_fresh_heads_differ_from_sample_to_sample_and_repeat(source_of, target):
    at = start(source_of(), target)
    heads = [
        BootstrapRecipe(10, start="fresh_head").sample(at, m, value=1.0, seed=7).head
        for m in (0, 1, 0)
    ]
    assert (heads[0] == heads[2]).all() and not np.allclose(heads[0], heads[1])
    assert np.abs(heads[0]).max() <= np.sqrt(6 / 5) and heads[0][-1] == 0


@pytest.mark.parametrize("alphas", [(1.0,), (0.0, 50.0)], ids=["fixed alpha", "chosen alpha"])
def test_sample_is_the_same_whatever_the_number_of_samples(source_of, target, alphas):
    stacks = []
    for samples in (3, 5):
        config = replace(QUICK, samples=samples, alphas=alphas)
        stacks.append(
            fit_stacked(
                source_of(),
                target,
                recipe_of(config),
                plan_of(config),
                Fitting(7, device="cpu", progress=no_progress),
            )
        )
    assert stacks[0].value == stacks[1].value
    for small, many in zip(stacks[0].weights[0], stacks[1].weights[0], strict=True):
        torch.testing.assert_close(small, many[:3], rtol=0, atol=1e-9)


def test_posterior_that_is_extended_is_the_one_with_more_samples(source_of, target):
    x = target.features[:6]
    small, many = (fitted(source_of(), target, replace(QUICK, samples=s)) for s in (2, 5))
    extended = nptl.extend(small, source_of(), target, QUICK, samples=5, device="cpu")
    assert extended.n_draws == 5
    np.testing.assert_allclose(extended.mean_draws_eV(x), many.mean_draws_eV(x), rtol=0, atol=1e-6)
    assert (extended.sigma == many.sigma).all()


def test_very_large_alpha_keeps_every_sample_at_the_probe(source_of, target):
    """SGD, since Adam turns the smallest gradient into a full step."""
    training = replace(EXACT, optimiser="sgd", epochs=20)
    source = source_of()
    posterior = fitted(source, target, replace(QUICK, alphas=(1e8,), training=training))
    at = start_of(
        source, target, trained=EVERY, statistics="auto", gap_scale="calibrated", coordinates="full"
    )
    probed = at.standardiser.gaps_eV(at.probe.predict(at.hidden))
    np.testing.assert_allclose(
        posterior.mean_draws_eV(target.features)[0], np.tile(probed, (3, 1)), atol=1e-3
    )
    assert posterior.diagnostics.figures["prior_share"] == pytest.approx(1.0, abs=1e-6)


def test_small_alpha_leaves_more_spread_than_a_large_one(source_of, target):
    spread = [
        fitted(source_of(), target, replace(QUICK, samples=8, alphas=(alpha,)))
        .mean_draws_eV(target.features)
        .std(1)
        .mean()
        for alpha in (0.0, 1e4)
    ]
    assert spread[0] > 3 * spread[1]


def test_rows_that_choose_alpha_and_noise_are_not_trained_on(source_of, target):
    config = replace(QUICK, alphas=(0.0, 10.0), sigma="val")
    is_held_out = ~held_out_masks(40, rule="val", seed=7)[0]
    moved = TargetData(target.features, np.where(is_held_out, target.gaps_eV + 3.0, target.gaps_eV))
    # alpha must not change with the labels, or the networks would: one value fixes it
    fixed = replace(config, alphas=(10.0,))
    first, second = (fitted(source_of(), data, fixed) for data in (target, moved))
    assert torch.equal(first.coordinates, second.coordinates)
    assert second.sigma[0, 0] > 2 * first.sigma[0, 0]
    assert set(fitted(source_of(), target, config).diagnostics.figures) == {
        "alpha",
        "prior_share",
        "nll_alpha_0",
        "nll_alpha_10",
    }


@pytest.mark.parametrize(
    "values, index", [((1.0, 10.0), 0), ((0.0, 100.0), 0), ((1000.0,), 0), ((0.0, 1.0), 1)]
)
def test_default_of_a_grid_is_the_value_next_to_it(values, index):
    assert Setting("alpha", values, 1.0).default_index == index


def test_drawn_pseudo_observations_have_the_priors_share_of_the_weight(source_of, target):
    """alpha = n gives the base measure half of the weight; 400 samples, 4 standard errors."""
    at = start(source_of(), target)
    recipe = BootstrapRecipe(10, "drawn")
    samples = [recipe.sample(at, m, value=40.0, seed=7) for m in range(400)]
    omega = np.stack([sample.omega for sample in samples])
    assert omega.sum(1) == pytest.approx(np.full(400, 80.0))
    total = np.stack([sample.omega * sample.labels for sample in samples])
    expected = at.y + at.probe.predict(at.hidden)
    error = total.std(0, ddof=1) / 20
    # A false alarm in one of 400 runs over 40 rows.
    assert (np.abs(total.mean(0) - expected) < 4 * error).all()


def test_two_alphas_have_the_same_random_weights_of_the_data():
    """Pseudo-observations of 0: weight times label is the weight of the row, but for the total."""

    def weights_of_rows(alpha):
        rng = stream(7, 0, "weights")
        omega, labels = drawn_rows(np.ones(20), np.zeros(20), 0.0, alpha=alpha, rng=rng)
        return omega * labels / (omega * labels).sum()

    # 500 and 10,000 pseudo-observations.
    np.testing.assert_allclose(weights_of_rows(10.0), weights_of_rows(1000.0), rtol=1e-9)

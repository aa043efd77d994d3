"""The EP step of the prior: exact cases, its two orders, and the bound on the precision."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from bandgap.research.assumed_density.belief import (
    belief_around,
    flattened,
    fresh_belief,
    with_average,
)
from bandgap.research.assumed_density.moments import Moments
from bandgap.research.assumed_density.noise import noise_step
from bandgap.research.assumed_density.passes import take_in
from bandgap.research.assumed_density.prior_sites import refine_prior


def rows(n=40, p=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, p))
    return x, np.tanh(x[:, 0]) + 0.1 * rng.normal(size=n)


def learned(*, average=False, passes=3, seed=0):
    rng = np.random.default_rng(seed)
    belief = fresh_belief((3, 8, 1), rng=rng)
    belief = with_average(belief, belief, n=40) if average else belief
    for _ in range(passes):
        belief, _ = take_in(belief, *rows(), rng=rng)
    return belief


@pytest.mark.parametrize("order", ["one by one", "together"])
def test_posterior_stays_the_product_of_its_sites(order):
    """The step leaves the part of q without the prior's factors unchanged."""
    before = learned()
    after = refine_prior(before, order=order)
    cavities = []
    for belief in (before, after):
        m = flattened(belief.weights.means)
        v = flattened(belief.weights.variances)
        cavities.append((1 / v - belief.prior.precision, m / v - belief.prior.shift))
    np.testing.assert_allclose(cavities[1], cavities[0], rtol=1e-8, atol=1e-8)
    assert after.precisions[0].shape == pytest.approx(6.0 + after.prior.shapes.sum(), rel=1e-10)
    assert after.precisions[0].rate == pytest.approx(6.0 + after.prior.rates.sum(), rel=1e-10)
    assert after.precisions[0].shape > 6.0


def test_step_of_one_weight_is_that_of_a_row_with_the_prior_precision_as_noise():
    before = learned()
    after = refine_prior(before, order="one by one")
    m, v = (flattened(part)[0] for part in (before.weights.means, before.weights.variances))
    vc = 1 / (1 / v - before.prior.precision[0])
    mc = vc * (m / v - before.prior.shift[0])
    mean, variance, share, a, b = torch.tensor([mc, vc, 1.0, 6.0, 6.0], dtype=torch.float64)
    moments = mean.requires_grad_(), variance.requires_grad_()
    log_z, a, b = noise_step(torch.zeros(()), Moments(*moments, share), a, b)
    g, bend = (part.item() for part in torch.autograd.grad(log_z, moments))
    assert flattened(after.weights.means)[0] == pytest.approx(mc + vc * g, rel=1e-12)
    assert flattened(after.weights.variances)[0] == pytest.approx(
        vc - vc**2 * (g**2 - 2 * bend), rel=1e-12
    )
    assert (after.prior.shapes[0], after.prior.rates[0]) == pytest.approx(
        (a.item() - 6.0, b.item() - 6.0), rel=1e-10
    )


def test_both_orders_come_to_the_same_prior():
    """The same data and draws, eight steps each."""
    sizes = {}
    for order in ("one by one", "together"):
        belief = learned(passes=1)
        rng = np.random.default_rng(1)
        for _ in range(8):
            belief = refine_prior(belief, order=order)
            belief, _ = take_in(belief, *rows(), rng=rng)
        sizes[order] = belief.precisions[0].shape / belief.precisions[0].rate
    assert sizes["together"] == pytest.approx(sizes["one by one"], rel=0.1)


def test_every_layer_has_its_own_prior_precision_about_its_centre():
    """A layer whose weights moved far has a smaller precision, one that stayed a larger one."""
    rng = np.random.default_rng(0)
    belief = belief_around([rng.normal(size=(6, 4)), rng.normal(size=(1, 7))], (0.1, 0.1))
    far = tuple(m + shift for m, shift in zip(belief.weights.means, (0.01, 0.6), strict=True))
    sure = tuple(np.full_like(m, 1e-3) for m in far)
    moved = refine_prior(
        replace(belief, weights=replace(belief.weights, means=far, variances=sure))
    )
    first, second = (g.shape / g.rate for g in moved.precisions)
    assert first > 10.0 > second


def test_shape_of_the_prior_precision_stays_at_its_start_or_above():
    """Without the bound, passes that count no row twice drive A below A0, weights to infinity."""
    rng = np.random.default_rng(0)
    belief = fresh_belief((3, 8, 1), rng=rng)
    belief = with_average(belief, belief, n=15)
    x, y = rows(n=15)
    for _ in range(60):
        belief, _ = take_in(belief, x, y, rng=rng)
        belief = refine_prior(belief)
        assert belief.precisions[0].shape >= 6.0
    assert np.abs(flattened(belief.weights.means)).max() < 50.0

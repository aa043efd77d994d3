"""Weights of the posterior bootstrap (totals, blocks, moments, limits) and collapsed rows."""

import numpy as np
import pytest

from bandgap.inference.batch.bootstrap import PairedWeights, block_weights, collapse, stream

SHAPES = pytest.mark.parametrize("n, blocks", [(20, 10), (23, 10), (7, 10), (12, 12), (5, 2)])
ALPHAS = pytest.mark.parametrize("alpha", [0.0, 1e-12, 1e-5, 1.0, 30.0, 1e4, 1e8])
REPEATS = 2000


def weights(n, blocks, alpha, sample=0):
    return block_weights(n, blocks=blocks, alpha=alpha, rng=stream(0, sample, "weights"))


@SHAPES
@ALPHAS
def test_weights_are_finite_not_negative_and_sum_to_twice_the_rows(n, blocks, alpha):
    for sample in range(30):
        w = weights(n, blocks, alpha, sample)
        both = np.concatenate([w.data, w.pseudo])
        assert np.isfinite(both).all() and (both >= 0).all()
        assert both.sum() == pytest.approx(2 * n, rel=1e-12)


@SHAPES
def test_blocks_differ_in_size_by_one_row_at_most(n, blocks):
    w = weights(n, blocks, 100.0)
    for half in (w.data, w.pseudo):
        sizes = np.unique(half, return_counts=True)[1]
        assert len(sizes) == min(n, blocks)
        assert sizes.max() - sizes.min() == (1 if n % min(n, blocks) else 0)


def test_rows_and_pseudo_rows_have_separate_maps_for_every_sample():
    def map_of(values):
        return np.unique(values, return_inverse=True)[1]

    first, second = weights(40, 4, 40.0), weights(40, 4, 40.0, sample=1)
    same_block = [
        np.equal.outer(map_of(half), map_of(half))
        for half in (first.data, first.pseudo, second.data)
    ]
    assert (same_block[0] != same_block[1]).any() and (same_block[0] != same_block[2]).any()


@pytest.mark.parametrize(
    "n, blocks, alpha", [(20, 10, 20.0), (20, 10, 1.0), (30, 5, 90.0), (12, 100, 6.0)]
)
def test_moments_are_those_of_the_dirichlet_distribution(n, blocks, alpha):
    """Means, variances and the data's share are within 4 Monte-Carlo standard errors.

    The standard error of a variance is that by fourth moments.
    """
    size = min(n, blocks)
    a = alpha / n
    drawn = [weights(n, blocks, alpha, sample) for sample in range(REPEATS)]
    first, pseudo = (np.array([getattr(w, half)[0] for w in drawn]) for half in ("data", "pseudo"))
    total = size * (1 + a)
    for values, mean in ((first, 2 / (1 + a)), (pseudo, 2 * a / (1 + a))):
        share = mean / (2 * size)
        variance = 4 * size**2 * share * (1 - share) / (total + 1)
        assert abs(values.mean() - mean) < 4 * np.sqrt(variance / REPEATS)
        squares = (values - mean) ** 2
        assert abs(squares.mean() - variance) < 4 * squares.std() / np.sqrt(REPEATS)
    shares = np.array([w.data.sum() / (2 * n) for w in drawn])
    spread = np.sqrt(a) / (1 + a) / np.sqrt(size * (1 + a) + 1)  # of Beta(L, L a)
    assert abs(shares.mean() - 1 / (1 + a)) < 4 * spread / np.sqrt(REPEATS)
    squares = (shares - 1 / (1 + a)) ** 2
    assert abs(squares.mean() - spread**2) < 4 * squares.std() / np.sqrt(REPEATS)


def test_alpha_of_zero_gives_pseudo_rows_exactly_no_weight():
    w = weights(20, 10, 0.0)
    assert (w.pseudo == 0).all() and w.data.sum() == pytest.approx(40)


def test_very_large_alpha_gives_pseudo_rows_all_weight_evenly():
    w = weights(20, 10, 1e8)
    assert w.data.max() < 1e-4
    np.testing.assert_allclose(w.pseudo, 2.0, rtol=0.01)


def test_small_alpha_gives_weights_that_a_gamma_variate_in_float32_would_not_have():
    """At alpha / n = 1e-5 log weights are far below the smallest float, with rare large spikes."""
    largest = np.array([weights(100, 10, 1e-3, sample).pseudo.max() for sample in range(2000)])
    assert (largest < 1e-30).mean() > 0.9
    assert largest.max() > 1e-3


def test_all_alphas_see_the_same_random_numbers():
    near = weights(30, 10, 30.0)
    far = weights(30, 10, 30.0 * (1 + 1e-9))
    np.testing.assert_allclose(near.pseudo, far.pseudo, rtol=1e-6)
    small = weights(30, 10, 0.0)
    large = weights(30, 10, 300.0)
    np.testing.assert_allclose(
        small.data / small.data.sum(), large.data / large.data.sum(), rtol=1e-9
    )


def test_streams_of_samples_purposes_and_folds_are_all_different_and_repeat():
    draws = [
        stream(seed, sample, name, fold=fold).random()
        for seed in (0, 1)
        for sample in (0, 1)
        for name in ("weights", "order")
        for fold in (None, 0, 1)
    ]
    assert len(set(draws)) == len(draws)
    assert stream(1, 2, "head").random() == stream(1, 2, "head").random()


def test_collapsed_rows_have_the_loss_of_both_kinds_up_to_a_constant():
    rng = np.random.default_rng(0)
    y = rng.normal(size=9)
    pseudo = rng.normal(size=9)
    w = rng.uniform(size=9)
    wt = rng.uniform(size=9)
    w[0] = wt[0] = w[1] = wt[2] = 0.0
    omega, t = collapse(y, pseudo, PairedWeights(w, wt))

    def difference(f):
        return np.sum(w * (y - f) ** 2 + wt * (pseudo - f) ** 2) - np.sum(omega * (t - f) ** 2)

    assert difference(rng.normal(size=9)) == pytest.approx(difference(rng.normal(size=9)))
    assert (omega[0], t[0], t[1], t[2]) == (0.0, pseudo[0], pseudo[1], y[2])

"""Mixtures of normal distributions: quantiles against root finding and closed forms, and the
standard deviation.
"""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from bandgap.predictions.mixtures import draw_quantiles, mixture_quantiles, mixture_sd
from bandgap.predictions.smooth_mixtures import smooth_quantiles
from bandgap.predictions.table import LEVELS

RNG = np.random.default_rng(17)
DRAWS = RNG.normal(2.0, 0.3, (60, 3))
NOISE = RNG.uniform(0.1, 0.2, 60)


@pytest.mark.parametrize(
    ("means", "sds"),
    [
        pytest.param(RNG.normal(3, 0.3, (200, 2)), RNG.gamma(50, 0.01, 200), id="posterior-like"),
        pytest.param(
            np.where(RNG.random((200, 2)) < 0.3, 0.0, 5.0),
            RNG.gamma(2, 0.3, (200, 2)) + 0.01,
            id="bimodal",
        ),
        pytest.param(
            RNG.standard_cauchy((200, 2)), RNG.gamma(1, 0.1, 200) + 0.05, id="heavy-tailed"
        ),
        pytest.param(np.array([[0.0, 1.0], [1e-9, 1e4]]), np.array([1.0, 1e-3]), id="scales-apart"),
    ],
)
def test_mixture_quantiles_agree_with_scalar_root_finding(means, sds):
    spreads = np.broadcast_to(sds[:, None], means.shape) if sds.ndim == 1 else sds
    # None where the staircase is flat.
    probabilities = np.array([0.001, 0.0263, 0.3012, 0.7716, 0.9763])
    quantiles = mixture_quantiles(means, sds, probabilities)
    for j in range(2):
        for k, p in enumerate(probabilities):
            root = brentq(
                lambda x, p=p, j=j: norm.cdf(x, means[:, j], spreads[:, j]).mean() - p,
                -1e6,
                1e6,
                xtol=1e-12,
            )
            assert quantiles[k, j] == pytest.approx(root, abs=1e-9, rel=1e-14)


def cdf(x, means, sds):
    return ndtr((x - means) / sds).mean()


@pytest.mark.parametrize(
    ("spread", "shape", "draws", "least"),
    [
        pytest.param(0.3, 60.0, 400, 20, id="posterior-like"),
        pytest.param(2.0, 60.0, 400, 15, id="means far apart"),
        pytest.param(0.3, 4.0, 50, 1, id="widths that differ"),
        pytest.param(0.0, 1e9, 7, 20, id="equal components"),
    ],
)
def test_smooth_quantiles_have_the_requested_probabilities_to_1e9(spread, shape, draws, least):
    """Against the sum of distribution functions; where it is flat the quantile itself is uncertain
    to its rounding.
    """
    rng = np.random.default_rng(3)
    means = rng.normal(3.0, spread, (draws, 20))
    sds = rng.gamma(shape, 0.4 / shape, (draws, 20))
    quantiles = smooth_quantiles(means, sds, np.asarray(LEVELS), n_needed=len(LEVELS))
    smooth = np.flatnonzero(np.isfinite(quantiles).all(axis=0))
    assert smooth.size >= least  # those with a very narrow component are left to the other way
    for j in smooth:
        for level, quantile in zip(LEVELS[::11], quantiles[::11, j], strict=True):
            root = brentq(
                lambda x, p=level, j=j: cdf(x, means[:, j], sds[:, j]) - p,
                -99,
                99,
                xtol=1e-13,
                rtol=1e-14,
            )
            assert abs(quantile - root) < 1e-9


def test_smooth_and_uneven_quantiles_agree_and_have_separate_columns():
    rng = np.random.default_rng(5)
    means = rng.normal(2.0, 0.3, (100, 4))
    sds = np.full((100, 4), 0.3)
    sds[0, 2] = 1e-5  # one component that no node would see
    assert list(
        np.isnan(smooth_quantiles(means, sds, np.array([0.9, 0.2, 0.5]), n_needed=3)).all(axis=0)
    ) == [
        0,
        0,
        1,
        0,
    ]
    quantiles = mixture_quantiles(means, sds, [0.9, 0.2, 0.5])
    for j in range(4):
        for p, quantile in zip((0.9, 0.2, 0.5), quantiles[:, j], strict=True):
            assert cdf(quantile, means[:, j], sds[:, j]) == pytest.approx(p, abs=1e-9)


def test_smooth_quantiles_components_that_underflow_at_first_nodes_are_included():
    """At the lowest node the upper component's density is 1e-340, below the smallest number, and
    grows from there.
    """
    means = np.array([[0.0], [9.0], [18.0], [27.0], [36.0], [38.5]])
    sds = np.full((6, 1), 1.0)
    quantiles = smooth_quantiles(means, sds, np.array([0.02, 0.08, 0.9, 0.99]), n_needed=4)[:, 0]
    for p, quantile in zip((0.02, 0.08, 0.9, 0.99), quantiles, strict=True):
        assert cdf(quantile, means[:, 0], sds[:, 0]) == pytest.approx(p, abs=1e-10)


@pytest.mark.parametrize("draws", [1, 2, 7, 100, 401])
def test_draw_quantiles_equal_numpy_bit_for_bit(draws):
    values = np.random.default_rng(draws).normal(3.0, 0.3, (draws, 11))
    np.testing.assert_array_equal(
        draw_quantiles(values, LEVELS), np.quantile(values, LEVELS, axis=0)
    )
    assert draw_quantiles(values[:, :0], LEVELS).shape == (len(LEVELS), 0)


def test_mixture_quantiles_one_draw_is_the_normal_distribution():
    quantiles = mixture_quantiles([[2.0, -1.0]], [0.5], LEVELS)
    np.testing.assert_allclose(
        quantiles, np.array([2.0, -1.0]) + 0.5 * norm.ppf(LEVELS)[:, None], atol=1e-9
    )


def test_mixture_quantiles_between_separated_components_fall_in_the_empty_gap():
    quantiles = mixture_quantiles([[0.0], [1.0]], [1e-3, 1e-3], [0.25, 0.5, 0.75])[:, 0]
    np.testing.assert_allclose(quantiles, [0.0, 0.5, 1.0], atol=1e-9)  # by symmetry


@pytest.mark.parametrize(
    "sds", [NOISE, np.tile(NOISE[:, None], (1, 3))], ids=["one a draw", "one a structure"]
)
def test_mixture_sd_is_that_of_a_large_sample(sds):
    sample = DRAWS[:, :, None] + NOISE[:, None, None] * np.random.default_rng(1).standard_normal(
        (60, 3, 20_000)
    )
    expected = sample.transpose(1, 0, 2).reshape(3, -1).std(axis=1)
    # Its standard error is 7e-4.
    np.testing.assert_allclose(mixture_sd(DRAWS, sds), expected, rtol=5e-3)

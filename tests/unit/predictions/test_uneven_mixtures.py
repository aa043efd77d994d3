"""Quantiles of mixtures that are not smooth, to 1e-9: against sums of 40 digits, closed forms and
the smooth ones.
"""

import mpmath as mp
import numpy as np
import pytest

from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.predictions.smooth_mixtures import smooth_quantiles
from bandgap.predictions.table import LEVELS
from bandgap.predictions.uneven_mixtures import uneven_quantiles

RNG = np.random.default_rng(11)
ALL = (1e-12, 0.001, *LEVELS[::12], 0.5, 0.999, 1.0 - 1e-12)


def missing(x, means, sds, probability):
    """D (F(x) - p): D p and the numbers of components at the left are added to tails, never to what
    is nearly one.
    """
    n_below = 0
    tails = mp.mpf(0)
    for mean, sd in zip(means, sds, strict=True):
        z = (x - mp.mpf(float(mean))) / (mp.mpf(float(sd)) * mp.sqrt(2))
        n_below += int(z >= 0)
        tails += -mp.erfc(z) / 2 if z >= 0 else mp.erfc(-z) / 2
    return (n_below - len(means) * mp.mpf(float(probability))) + tails


@pytest.mark.parametrize(
    ("means", "sds"),
    [
        pytest.param([0.0, 1.0], [1e-3, 1e-3], id="narrow, far apart"),
        pytest.param([0.0, 1.0], [1e-3, 3e-2], id="a gap between widths"),
        pytest.param(RNG.permutation(np.arange(40.0)), np.full(40, 1e-4), id="a staircase"),
        pytest.param(
            RNG.permutation(np.arange(25.0)) / 50,
            RNG.gamma(2, 1e-3, 25),
            id="a staircase of widths",
        ),
        pytest.param(np.full(7, 2.0), np.full(7, 0.3), id="equal components"),
        pytest.param(np.full(7, 2.0), np.geomspace(1e-6, 10, 7), id="equal means"),
        pytest.param([2.0], [0.3], id="one component"),
        pytest.param(
            RNG.normal(3, 0.5, 50), 10 ** RNG.uniform(-6, 3, 50), id="nine orders of widths"
        ),
        pytest.param(RNG.standard_cauchy(50), RNG.gamma(1, 0.1, 50) + 0.01, id="heavy tails"),
        pytest.param(
            RNG.normal(3, 0.5, 50), np.append(np.full(49, 0.3), 1e-5), id="one narrow component"
        ),
        pytest.param([0.0, 1e-9], [1.0, 1e-3], id="means that almost agree"),
    ],
)
def test_uneven_quantiles_equal_sums_with_40_digits(means, sds):
    """The root lies within 1e-9 of what is found: D (F - p) has one sign below and the
    other above.
    """
    columns = np.asarray(means)[:, None], np.asarray(sds)[:, None]
    quantiles = uneven_quantiles(*columns, np.asarray(ALL))[:, 0]
    with mp.workdps(40):
        for probability, quantile in zip(ALL, quantiles, strict=True):
            around = [mp.mpf(float(quantile)) + step for step in (mp.mpf("-1e-9"), mp.mpf("1e-9"))]
            below, above = (missing(x, means, sds, probability) for x in around)
            assert below < 0 < above, (probability, quantile)


def test_uneven_quantiles_in_an_empty_gap_share_it_by_the_widths():
    """Half of the probability on either side: the tails are equal where both z are."""
    quantiles = uneven_quantiles(
        np.array([[0.0], [1.0]]), np.array([[1e-3], [3e-2]]), np.array([0.5])
    )
    assert quantiles[0, 0] == pytest.approx(1 / 31, abs=1e-12)


def test_uneven_quantiles_do_not_depend_on_the_order_of_components_and_probabilities():
    means = RNG.standard_cauchy((60, 3))
    sds = RNG.gamma(2, 0.1, (60, 3)) + 0.01
    shuffled = RNG.permutation(60)
    levels = RNG.permutation(len(LEVELS))
    quantiles = uneven_quantiles(means[shuffled], sds[shuffled], np.asarray(LEVELS)[levels])
    np.testing.assert_array_equal(
        quantiles, uneven_quantiles(means, sds, np.asarray(LEVELS))[levels]
    )


def test_smooth_columns_do_not_depend_on_uneven_columns():
    rng = np.random.default_rng(5)
    means = rng.normal(2.0, 0.3, (100, 5))
    sds = np.full((100, 5), 0.3)
    sds[0, 2] = 1e-5
    probabilities = np.asarray(LEVELS)
    uneven = mixture_quantiles(means, sds, probabilities)
    smooth = smooth_quantiles(means, sds, probabilities, n_needed=probabilities.size)
    np.testing.assert_array_equal(np.isnan(smooth).all(axis=0), [False, False, True, False, False])
    np.testing.assert_array_equal(uneven[:, [0, 1, 3, 4]], smooth[:, [0, 1, 3, 4]])
    np.testing.assert_array_equal(
        uneven[:, [2]], uneven_quantiles(means[:, [2]], sds[:, [2]], probabilities)
    )

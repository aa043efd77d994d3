"""The noise of a mixture of networks and the choice among settings, by rows that were left out."""

import numpy as np
import pytest

from bandgap.evaluation.metrics import nll_mixture, rmse
from bandgap.transfer.shared.folds import choose, fit_sigma, row_nll


def rows(n=60, networks=4, *, spread=0.2, noise=0.5, seed=0):
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    return truth + noise * rng.normal(size=n), truth + spread * rng.normal(size=(networks, n))


def test_density_of_rows_is_that_of_the_mixture():
    y, means = rows()
    assert row_nll(y, means, sigma=0.4).mean() == pytest.approx(
        nll_mixture(y, means, sds=np.full(4, 0.4))
    )


@pytest.mark.parametrize("spread", [0.01, 0.2, 0.5])
def test_sigma_is_the_best_of_a_fine_grid(spread):
    y, means = rows(spread=spread)
    grid = np.geomspace(0.05, 2.0, 4000)
    best = grid[np.argmin([row_nll(y, means, sigma=s).mean() for s in grid])]
    assert fit_sigma(y, means) == pytest.approx(best, rel=2e-3)


def test_sigma_of_one_network_is_its_root_mean_square_error_and_less_for_several():
    y, means = rows(spread=0.5, networks=20)
    assert fit_sigma(y, means[:1]) == pytest.approx(rmse(y, means[0]), rel=1e-4)
    assert fit_sigma(y, means) < rmse(y, means.mean(0))


def test_networks_that_meet_every_row_leave_the_least_sigma():
    y = np.arange(5.0)
    assert fit_sigma(y, y[None]) == pytest.approx(1e-3 * y.std(), rel=1e-3)


@pytest.mark.parametrize("gain, expected_index", [(0.3, 1), (0.0, 0)])
def test_default_is_left_only_for_a_gain_beyond_its_standard_error(gain, expected_index):
    """The second setting is nearer to the truth by `gain`.

    At 0 it is as good, and never exactly equal by chance.
    """
    y, means = rows(n=200, spread=0.4)
    other = (1 - gain) * means + gain * y + 1e-3 * np.random.default_rng(5).normal(size=means.shape)
    index, sigmas, scores = choose(y, np.stack([means, other]), default=0)
    assert index == expected_index
    assert sigmas[0] == fit_sigma(y, means)
    assert scores[0] == pytest.approx(row_nll(y, means, sigma=sigmas[0]).mean())
    assert choose(y, np.stack([means, other])[::-1], default=1)[0] == 1 - expected_index

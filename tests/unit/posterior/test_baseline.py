"""The line of a baseline added to the posterior of the rest: its mean exactly, its uncertainty in
draws and widths.
"""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.networks.standardise import Standardiser
from bandgap.posterior import (
    Baseline,
    BaselinePosterior,
    Diagnostics,
    GaussianProcessPosterior,
    LastLayerPosterior,
    PosteriorMixture,
    mix,
)
from bandgap.posterior.training_rows import TrainingRows
from tests.storing import read_again

P = 3
LINE = Baseline(P, slope=0.8, slope_sd=0.3, centre_eV=2.0)


def rest_of(*, chains=2, draws=5, seed=0):
    """Draws of the output weights over four hidden units of three features."""
    rng = np.random.default_rng(seed)
    hidden = {
        "weight.1": rng.normal(size=(4, P)).astype(np.float32),
        "bias.1": np.ones(4, np.float32),
    }
    return LastLayerPosterior(
        standardiser=Standardiser(np.zeros(P), np.ones(P), 4.0, 1.5),
        hidden=hidden,
        output=rng.normal(size=(chains, draws, 5)),
        sigma=rng.uniform(0.1, 0.3, (chains, draws)),
        seed=seed,
        diagnostics=Diagnostics({"rhat_max": 1.01}, ("be careful.",)),
    )


def process():
    """A Gaussian process, whose components are not its draws of the mean."""
    x = np.random.default_rng(5).normal(size=(6, P))
    kernel = 0.4 * np.eye(6)
    return GaussianProcessPosterior(
        TrainingRows.of(x), np.ones(6), np.linalg.cholesky(kernel), 0.3, 1.0, 0.1, 4.0, 1.0
    )


@pytest.fixture
def rows():
    """Four structures: three features, the baseline, and two levels that are not looked at."""
    return np.random.default_rng(1).normal(2.0, 1.0, (4, P + 3)).astype(np.float32)


@pytest.mark.parametrize(
    "residual", [rest_of(), process()], ids=["draws with noise", "components of their own"]
)
def test_mean_is_the_sum_of_residual_and_line(residual, rows):
    posterior = BaselinePosterior(residual, LINE, 0)
    distance = rows[:, P].astype(float) - 2.0
    residual_draws, draws = (
        p.predictive_draws(x) for p, x in ((residual, rows[:, :P]), (posterior, rows))
    )
    np.testing.assert_allclose(
        draws.means_eV.mean((0, 1)), residual_draws.means_eV.mean((0, 1)) + 0.8 * distance
    )
    np.testing.assert_allclose(draws.centres_eV, residual_draws.centres_eV + 0.8 * distance)
    assert (draws.means_eV == posterior.mean_draws_eV(rows)).all()


def test_uncertain_slope_widens_with_the_distance_from_the_centre(rows):
    posterior = BaselinePosterior(rest_of(), LINE, 0)
    distance = rows[:, P].astype(float) - 2.0
    residual_draws = rest_of().predictive_draws(rows[:, :P])
    draws = posterior.predictive_draws(rows)
    expected = residual_draws.sds_eV[:, None] ** 2 + (0.3 * distance) ** 2
    np.testing.assert_allclose(draws.sds_eV**2, expected)


def test_draws_of_the_line_have_the_spread_of_its_slope(rows):
    residual = rest_of(chains=4, draws=500)
    line = BaselinePosterior(residual, LINE, 0).mean_draws_eV(rows) - residual.mean_draws_eV(
        rows[:, :P]
    )
    slopes = line / (rows[:, P].astype(float) - 2.0)
    # One slope for all structures.
    np.testing.assert_allclose(slopes, np.broadcast_to(slopes[..., :1], slopes.shape))
    assert slopes[..., 0].mean() == pytest.approx(0.8) and slopes[..., 0].std() == pytest.approx(
        0.3, rel=0.01
    )
    # No chain has the low ones alone.
    assert np.abs(slopes[..., 0].mean(1) - 0.8).max() < 5 * 0.3 / np.sqrt(500)


def test_single_draw_stays_at_the_mean_of_the_slope(rows):
    """A point estimate must not be moved at random."""
    residual = rest_of(chains=1, draws=1)
    line = BaselinePosterior(residual, LINE, 0).mean_draws_eV(rows) - residual.mean_draws_eV(
        rows[:, :P]
    )
    np.testing.assert_allclose(line[0, 0], 0.8 * (rows[:, P].astype(float) - 2.0))


def test_prediction_of_a_structure_does_not_depend_on_the_other_structures(rows):
    posterior = BaselinePosterior(rest_of(), LINE, 0)
    np.testing.assert_allclose(
        posterior.mean_draws_eV(rows)[..., 2:3], posterior.mean_draws_eV(rows[2:3])
    )


def test_mixture_of_lines_is_stored_and_has_the_components_of_all(rows):
    other = replace(LINE, slope=0.6)
    both = mix([BaselinePosterior(rest_of(seed=s), line, s) for s, line in ((0, LINE), (1, other))])
    again = read_again(both)
    assert isinstance(again, PosteriorMixture) and again.n_members == 2
    draws = again.predictive_draws(rows)
    assert draws.means_eV.shape == (4, 5, 4) and draws.sds_eV.shape == (20, 4)
    np.testing.assert_array_equal(draws.means_eV, both.predictive_draws(rows).means_eV)

"""Figures of layers, chains and chosen settings: what is drawn is the data."""

import numpy as np
import pytest

from bandgap import plots
from bandgap.foundation.quantities import Quantity

RNG = np.random.default_rng(0)
LAYERS = ["layer 1", "layer 2", "output layer"]


def test_layer_weights_draw_the_prior_that_they_are_given() -> None:
    prior = RNG.dirichlet([20, 1, 1], 800)
    fig = plots.layer_weights(RNG.dirichlet([1, 1, 8], 400), layers=LAYERS, prior_draws=prior)
    dashed = next(trace for trace in fig.data if trace.name == "prior, layer 1")
    assert dashed.x[int(np.argmax(dashed.y))] == pytest.approx(0.93, abs=0.06)


def test_draws_density_shows_prior_beside_posterior() -> None:
    fig = plots.draws_density(
        RNG.lognormal(0, 0.1, 400),
        quantity=Quantity.TAU,
        log=True,
        prior_draws=RNG.lognormal(1.5, 0.2, 400),
    )
    posterior, prior = fig.data
    assert prior.line.color == plots.PRIOR and prior.line.dash == "dash"
    assert posterior.x[int(np.argmax(posterior.y))] == pytest.approx(1.0, rel=0.15)
    assert prior.x[int(np.argmax(prior.y))] == pytest.approx(np.exp(1.5), rel=0.2)


def test_ternary_puts_the_output_layer_on_top_and_posterior_over_prior() -> None:
    c = RNG.dirichlet([1, 2, 9], 1000)
    fig = plots.ternary(c, layers=LAYERS, prior=RNG.dirichlet([1, 1, 1], 50))
    prior, posterior = fig.data
    assert len(prior.a) == 50 and len(posterior.a) == 400
    np.testing.assert_allclose(np.stack([posterior.b, posterior.c, posterior.a], 1)[0], c[0])
    assert fig.layout.ternary.aaxis.title.text == "output layer"
    assert prior.marker.symbol != posterior.marker.symbol


def test_layer_scales_draw_medians_and_intervals_top_down() -> None:
    draws = np.exp(RNG.normal([0.0, 2.0, -3.0], 0.1, (500, 3)))
    fig = plots.layer_scales(draws, layers=LAYERS, title="tau", prior=np.ones((10, 3)))
    posterior = next(trace for trace in fig.data if trace.name == "after (posterior)")
    np.testing.assert_allclose(posterior.x, np.median(draws, axis=0))
    assert list(np.diff(posterior.y)) == pytest.approx([-1, -1])
    np.testing.assert_allclose(posterior.customdata, np.quantile(draws, [0.025, 0.975], axis=0).T)
    assert fig.layout.xaxis.type == "log" and fig.layout.xaxis.title.text == "tau"


def test_traces_thin_long_chains_and_keep_both_ends() -> None:
    draws = np.arange(2000.0).reshape(2, 1000)
    fig = plots.traces(draws, label="log tau")
    assert len(fig.data) == 2 and len(fig.data[0].x) == 500
    assert (fig.data[1].y[0], fig.data[1].y[-1]) == (1000.0, 1999.0)
    assert fig.layout.yaxis.title.text == "log tau"


def test_rank_counts_are_even_for_equal_chains_and_uneven_for_one_that_is_off() -> None:
    same = RNG.normal(size=(4, 1000))
    counts = plots.rank_counts(same, bins=10)
    assert counts.shape == (4, 10) and np.all(counts.sum(axis=1) == 1000)
    assert np.abs(counts - 100).max() < 50  # five standard deviations of 9.5
    off = plots.rank_counts(same + np.array([[3.0], [0], [0], [0]]), bins=10)
    assert off[0, -1] > 300 and off[0, 0] < 20


def test_energies_draw_a_narrow_change_where_the_chain_creeps() -> None:
    creeping = np.cumsum(RNG.normal(0, 0.1, (2, 500)), axis=1)
    energy, change = plots.energies(creeping).data
    assert max(change.y) > 3 * max(energy.y)
    assert energy.line.dash != change.line.dash


def test_feature_changes_stand_largest_first_with_their_error() -> None:
    fig = plots.feature_changes([0.9, -0.4], [0.1, 0.2], [1.0, 0.1], features=[7, 3])
    (points,) = fig.data
    assert list(points.y) == ["feature 7", "feature 3"] and list(points.error_x.array) == [0.1, 0.2]
    assert list(points.marker.color) == [1.0, 0.1]
    assert "eV" in fig.layout.xaxis.title.text


def test_validation_curve_marks_the_chosen_value() -> None:
    fig = plots.validation_curve([0, 1, 10], [1.2, 1.0, 1.1], name="alpha", selected=1)
    curve, mark = fig.data
    assert list(curve.x) == ["0", "1", "10"] and list(curve.y) == [1.2, 1.0, 1.1]
    assert list(mark.x) == ["1"] and list(mark.y) == [1.0]

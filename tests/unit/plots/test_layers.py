"""Figures of layers and chains: what is drawn is the data."""

import numpy as np
import pytest

from bandgap import plots

RNG = np.random.default_rng(0)
LAYERS = ["layer 1", "layer 2", "output layer"]


def test_layer_weights_draw_the_prior_that_they_are_given() -> None:
    prior = RNG.dirichlet([20, 1, 1], 800)
    fig = plots.layer_weights(RNG.dirichlet([1, 1, 8], 400), layers=LAYERS, prior_draws=prior)
    dashed = next(trace for trace in fig.data if trace.name == "prior, layer 1")
    assert dashed.x[int(np.argmax(dashed.y))] == pytest.approx(0.93, abs=0.06)


def test_traces_thin_long_chains_and_keep_both_ends() -> None:
    draws = np.arange(2000.0).reshape(2, 1000)
    fig = plots.traces(draws, label="log tau")
    assert len(fig.data) == 2 and len(fig.data[0].x) == 500
    assert (fig.data[1].y[0], fig.data[1].y[-1]) == (1000.0, 1999.0)
    assert fig.layout.yaxis.title.text == "log tau"

"""Ridge transfer: the ridge estimate with conjugate intervals, to the source or to zero."""

import dataclasses

import numpy as np
import pytest

from bandgap.inference.last_layer.spectral_regression import (
    least_cross_validation,
    spectral_regression,
)
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.transfer import TargetData
from bandgap.transfer.last_layer_ridge import LastLayerRidgeConfig, fit
from bandgap.transfer.shared.last_layer_problem import last_layer_problem
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.last_layers import UNCHANGED, P, Q, hidden_of, lookup_source, target_of

CONFIG = LastLayerRidgeConfig(**UNCHANGED, draws=2000)
SIGMAS = (
    4.5  # of the largest of about 20 comparisons: a false alarm in 7,000 runs; the seeds are fixed
)
CHANGE = np.linspace(-0.5, 0.5, Q)


@pytest.mark.parametrize("about", ["source", "target"])
def test_draws_have_the_law_of_the_ridge_estimate_at_the_penalty(source_of, about):
    source = lookup_source(source_of)
    data = target_of(source, change=CHANGE)
    posterior = fit(
        source, data, dataclasses.replace(CONFIG, about=about), Fitting(0, device="cpu")
    )
    penalty = posterior.diagnostics.figures["penalty"]
    sd = source.features.sd
    h = hidden_of(data.features)
    n = len(data.gaps_eV)
    b = source.params["weight.2"].double().numpy()[0] if about == "source" else np.zeros(Q)
    z = data.gaps_eV - h @ b
    wide = (h - h.mean(0)) / sd
    unit = z.std()
    inverse = np.linalg.inv(wide.T @ wide + penalty * np.eye(Q))
    change = inverse @ wide.T @ (z - z.mean())
    rate = 0.1 * unit**2 + 0.5 * ((z - z.mean()) @ (z - z.mean()) - change @ wide.T @ z)
    variance = rate / (0.1 + 0.5 * (n - 1) - 1)
    x = np.random.default_rng(4).normal(size=(9, P)).astype(np.float32)
    new = (hidden_of(x) - h.mean(0)) / sd
    mean = hidden_of(x) @ b + z.mean() + new @ change
    spread = np.sqrt(variance * (1 / n + np.einsum("ij,jk,ik->i", new, inverse, new)))
    draws = posterior.mean_draws_eV(x).reshape(-1, 9)
    assert (np.abs(draws.mean(0) - mean) < SIGMAS * spread / np.sqrt(len(draws)) + 1e-6).all()
    squares = (draws - mean) ** 2
    assert (
        np.abs(squares.mean(0) - spread**2) < SIGMAS * squares.std(0) / np.sqrt(len(draws))
    ).all()
    sigma2 = posterior.sigma_eV**2
    assert abs(sigma2.mean() - variance) < SIGMAS * sigma2.std() / np.sqrt(sigma2.size)


def test_penalty_is_the_one_of_least_cross_validation(source_of):
    source = lookup_source(source_of)
    data = target_of(source, change=CHANGE)
    figures = fit(source, data, CONFIG, Fitting(0, device="cpu")).diagnostics.figures
    problem = last_layer_problem(
        source, data, statistics="source", gap_scale="source", exact_source=True
    )
    penalty = least_cross_validation(spectral_regression(problem.regression))
    assert figures["penalty"] == pytest.approx(1 / penalty.x)
    assert (
        figures["effective_parameters"] == pytest.approx(penalty.degrees)
        and 1 < penalty.degrees < Q + 1
    )


def test_intervals_stay_of_the_size_of_the_gaps_where_each_row_stands_twice(source_of):
    source = lookup_source(source_of)
    data = target_of(source, n=60, change=CHANGE)
    n_rows = Q // 2  # rows that leave directions of the features free
    twice = TargetData(
        np.concatenate([data.features[:n_rows]] * 2), np.concatenate([data.gaps_eV[:n_rows]] * 2)
    )
    posterior = fit(source, twice, CONFIG, Fitting(0, device="cpu"))
    draws = posterior.predictive_draws(data.features[n_rows:])
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.025, 0.975])
    spread = data.gaps_eV[:n_rows].std()
    assert np.median(high - low) < 15 * spread

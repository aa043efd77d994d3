"""Least squares of the output layer: classical intervals, and too few rows for them."""

import numpy as np
import pytest
from scipy import stats

from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.research.methods.last_layer_ols import LastLayerOlsConfig, fit, least_squares
from bandgap.transfer.shared.method import Fitting
from tests.unit.transfer.last_layers import UNCHANGED, P, Q, hidden_of, lookup_source, target_of

CONFIG = LastLayerOlsConfig(**UNCHANGED, draws=5000)


def test_intervals_are_the_classical_ones(source_of):
    source = lookup_source(source_of)
    data = target_of(source, n=25)
    posterior = fit(source, data, CONFIG, Fitting(0, device="cpu"))
    x = np.random.default_rng(2).normal(size=(6, P)).astype(np.float32)
    draws = posterior.predictive_draws(x)
    low, high = mixture_quantiles(draws.centres_eV, draws.sds_eV, [0.025, 0.975])
    wide = np.hstack([np.ones((25, 1)), hidden_of(data.features)])
    new = np.hstack([np.ones((6, 1)), hidden_of(x)])
    beta = np.linalg.lstsq(wide, data.gaps_eV, rcond=None)[0]
    degrees = 25 - Q - 1
    s = np.sqrt(((data.gaps_eV - wide @ beta) ** 2).sum() / degrees)
    leverage = np.einsum("ij,jk,ik->i", new, np.linalg.inv(wide.T @ wide), new)
    half = stats.t.ppf(0.975, degrees) * s * np.sqrt(1 + leverage)
    # 20,000 draws.
    np.testing.assert_allclose(0.5 * (low + high), new @ beta, rtol=0, atol=0.06 * half.max())
    np.testing.assert_allclose(0.5 * (high - low), half, rtol=0.03)
    figures = posterior.diagnostics.figures
    assert (
        figures["rank"] == Q
        and figures["rows_left"] == degrees
        and not posterior.diagnostics.warnings
    )


def test_columns_that_say_the_same_count_once(source_of):
    rng = np.random.default_rng(3)
    h = rng.normal(size=(20, 4))
    h[:, 3] = h[:, 0]
    y = rng.normal(size=20)
    solution = least_squares(h, y, rcond=1e-10)
    single = least_squares(h[:, :3], y, rcond=1e-10)
    assert solution.spread.shape == (4, 3) and solution.degrees_of_freedom == 16
    assert solution.weights[0] == pytest.approx(
        solution.weights[3]
    ) and solution.residual == pytest.approx(single.residual)


def test_small_singular_values_can_be_left_out():
    h = np.random.default_rng(4).normal(size=(20, 3)) * np.array([1.0, 1.0, 1e-4])
    assert least_squares(h, np.arange(20.0), rcond=1e-10).degrees_of_freedom == 16
    assert least_squares(h, np.arange(20.0), rcond=1e-2).degrees_of_freedom == 17


def test_no_more_rows_than_parameters_give_the_least_norm_and_the_errors_of_rows_left_out(
    source_of,
):
    """The noise is that of refits without each row, by the pseudoinverse."""
    source = lookup_source(source_of)
    data = target_of(source, n=8)
    posterior = fit(source, data, CONFIG, Fitting(0, device="cpu"))
    h, y = hidden_of(data.features), data.gaps_eV
    beta = np.linalg.pinv(h - h.mean(0)) @ (y - y.mean())
    np.testing.assert_allclose(posterior.output[0, 0, :-1], beta, rtol=0, atol=1e-4)
    np.testing.assert_allclose(posterior.mean_draws_eV(data.features)[0, 0], y, rtol=0, atol=1e-4)
    errors = []
    for i in range(8):
        other_rows = np.arange(8) != i
        centre = h[other_rows].mean(0)
        level = y[other_rows].mean()
        errors.append(
            y[i]
            - level
            - (h[i] - centre) @ np.linalg.pinv(h[other_rows] - centre) @ (y[other_rows] - level)
        )
    assert posterior.sigma_eV[0, 0] == pytest.approx(np.sqrt(np.mean(np.square(errors))), rel=1e-3)
    assert (
        "as many parameters (8) as there are rows (8): no classical interval exists"
        in posterior.diagnostics.warnings[0]
    )


def test_rows_that_are_all_the_same_give_their_mean():
    solution = least_squares(np.ones((6, 3)), np.arange(6.0), rcond=1e-10)
    assert not solution.weights.any() and solution.level == 2.5 and solution.degrees_of_freedom == 5
    assert solution.residual == pytest.approx(17.5)

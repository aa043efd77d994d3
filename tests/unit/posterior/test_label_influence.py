"""The influence of a label, against predictions without the label."""

from dataclasses import replace

import numpy as np
import pytest

from bandgap.inference.gaussian_process.label_weights import weights_and_changes
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import LastLayerPosterior, PooledPosterior, PosteriorMixture
from bandgap.posterior.label_influence import (
    has_few_draws,
    influence_of_draws,
    label_influence,
)
from bandgap.transfer import TargetData, get_method
from bandgap.transfer.shared.method import Fitting

P = 4
N = 40
NEW = np.random.default_rng(5).normal(size=(6, P)).astype(np.float32)


@pytest.fixture(scope="module")
def data() -> TargetData:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(N, P)).astype(np.float32)
    return TargetData(x, 3.0 + np.tanh(x[:, 0]) + 0.5 * x[:, 1] + 0.1 * rng.normal(size=N))


def fitted(method: str, data: TargetData):
    entry = get_method(method)
    return entry.fit(None, data, entry.config(), Fitting(0))


def influence_on_new(posterior, data: TargetData):
    return label_influence(posterior, NEW, training=data.features, gaps_eV=data.gaps_eV)


def test_changes_of_a_gaussian_process_are_those_of_the_mean_without_the_label() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(15, 2))
    squares = ((x[:, None] - x) ** 2).sum(axis=2)
    kernel = np.exp(-0.5 * squares)
    covariance = kernel[3:, 3:] + 0.05 * np.eye(12)
    cross = kernel[:3, 3:]
    y = rng.normal(size=12)
    weights, changes = weights_and_changes(cross, covariance, y)
    mean = cross @ np.linalg.solve(covariance, y)
    assert weights @ y == pytest.approx(mean)
    for i in range(12):
        kept_rows = np.arange(12) != i
        without = cross[:, kept_rows] @ np.linalg.solve(
            covariance[np.ix_(kept_rows, kept_rows)], y[kept_rows]
        )
        assert changes[:, i] == pytest.approx(mean - without)


@pytest.mark.parametrize("method", ["gaussian_process", "kernel_ridge", "parts_gp"])
def test_weights_of_a_kernel_method_give_its_prediction(data, method) -> None:
    posterior = fitted(method, data) if method != "parts_gp" else _parts_gp(data)
    influence = influence_on_new(posterior, data)
    level = data.gaps_eV.mean()
    predicted = posterior.mean_draws_eV(NEW).mean(axis=(0, 1))
    # kernel ridge: its intercepts are means without a fold; parts_gp: 16 normal scores
    tolerance = 1e-3 if method == "gaussian_process" else 0.02
    assert level + influence.weights @ (data.gaps_eV - level) == pytest.approx(
        predicted, abs=tolerance
    )
    assert influence.way == "kernel"
    assert not influence.errors_eV.any()


def _parts_gp(data: TargetData):
    """A Gaussian process of two blocks with few draws of its scales."""
    from bandgap.posterior import PartsGPPosterior

    start = PartsGPPosterior.before_draws(
        data.features, data.gaps_eV, parts=[slice(0, 2), slice(2, 4)], seed=0
    )
    theta = np.array([[0.0, 1.0, 1.0, -1.2], [0.3, 0.8, 1.4, -1.0]])
    return start.with_draws(theta, start.diagnostics)


def test_changes_of_kernel_ridge_are_those_of_a_fit_with_a_neutral_label(data) -> None:
    """A label that equals its prediction by the others changes nothing."""
    posterior = fitted("kernel_ridge", data)
    influence = influence_on_new(posterior, data)
    i = int(np.abs(influence.changes_eV[0]).argmax())
    shift = -influence.changes_eV[0, i] / influence.weights[0, i]
    gaps = data.gaps_eV.copy()
    gaps[i] += shift  # to the prediction by the others, averaged over folds
    expected = influence.changes_eV[0, i]
    models = posterior.models
    moved = _with_label(models, data.gaps_eV, gaps)
    before, after = (m.predict_eV(NEW[:1]).mean() for m in (models, moved))
    assert before - after == pytest.approx(expected, rel=1e-3)


def _with_label(models, old_gaps, gaps):
    """Return fold models with other labels and the same lengths, penalties and intercepts."""
    between = models.rows.own_distances("cityblock")
    coefficients = np.zeros_like(models.coefficients)
    for k, (length, a, intercept) in enumerate(
        zip(models.lengths, models.coefficients, models.intercepts, strict=True)
    ):
        members = np.flatnonzero(a)
        kernel = np.exp(-between[np.ix_(members, members)] / length)
        y = old_gaps[members] - intercept
        penalty = a[members] @ (y - kernel @ a[members]) / (a[members] @ a[members])
        full = kernel + penalty * np.eye(members.size)
        coefficients[k, members] = np.linalg.solve(full, gaps[members] - intercept)
    return replace(models, coefficients=coefficients)


def test_influence_by_draws_is_exact_for_a_linear_model() -> None:
    """Draws of a conjugate model with fixed noise, 40,000, against refits without each label."""
    rng = np.random.default_rng(2)
    sigma = 0.3
    x = rng.normal(size=(20, 3))
    y = x @ [1.0, -0.5, 0.2] + sigma * rng.normal(size=20)
    y[4] += 2.0  # a wrong label
    new = rng.normal(size=(4, 3))

    def mean_and_covariance(rows):
        precision = x[rows].T @ x[rows] / sigma**2 + np.eye(3)
        covariance = np.linalg.inv(precision)
        return covariance @ x[rows].T @ y[rows] / sigma**2, covariance

    everything = np.ones(20, dtype=bool)
    mean, covariance = mean_and_covariance(everything)
    draws = rng.multivariate_normal(mean, covariance, size=40_000)
    influence = influence_of_draws(
        draws @ new.T, draws @ x.T, sigma_eV=np.full(40_000, sigma), gaps_eV=y
    )
    exact = new @ covariance @ x.T / sigma**2
    assert influence.weights == pytest.approx(exact, abs=0.02)
    for i in range(20):
        kept_rows = everything.copy()
        kept_rows[i] = False
        change = new @ (mean - mean_and_covariance(kept_rows)[0])
        # six standard errors: 80 comparisons, a false alarm in 10 million runs
        assert (np.abs(influence.changes_eV[:, i] - change) < 6 * influence.errors_eV[:, i]).all()
    assert np.abs(influence.changes_eV).max(axis=0).argmax() == 4


def test_mixture_averages_its_members_and_a_pool_tells_what_it_includes(data) -> None:
    gaussian, ridge, forest = (
        fitted(method, data) for method in ("gaussian_process", "kernel_ridge", "random_forest")
    )
    of_gaussian = influence_on_new(gaussian, data)
    of_ridge = influence_on_new(ridge, data)
    assert influence_on_new(forest, data) is None
    mixture = influence_on_new(PosteriorMixture((gaussian, gaussian)), data)
    assert mixture.weights == pytest.approx(of_gaussian.weights)
    assert mixture.share == pytest.approx(1.0)
    names = ("gaussian_process", "kernel_ridge", "random_forest")
    members = (gaussian, ridge, forest)
    pool = PooledPosterior(members, names, np.array([0.5, 0.3, 0.2]), 1.0)
    pooled = influence_on_new(pool, data)
    assert pooled.share == pytest.approx(0.8)
    expected = 0.5 * of_gaussian.changes_eV + 0.3 * of_ridge.changes_eV
    assert pooled.changes_eV == pytest.approx(expected)
    without = label_influence(
        pool,
        NEW,
        training=data.features,
        gaps_eV=data.gaps_eV,
        excluded=("kernel_ridge",),
    )
    assert without.share == pytest.approx(0.5)


def test_few_draws_of_an_output_layer_give_no_weights(data) -> None:
    rng = np.random.default_rng(3)
    hidden = {"weight.1": np.eye(P), "bias.1": np.zeros(P)}
    plain = Standardiser(np.zeros(P), np.ones(P), 0.0, 1.0)

    def posterior(draws: int) -> LastLayerPosterior:
        output = rng.normal(size=(2, draws, P + 1))
        return LastLayerPosterior(plain, hidden, output, np.full((2, draws), 0.1), seed=0)

    assert influence_on_new(posterior(49), data) is None
    assert has_few_draws(posterior(49))
    assert influence_on_new(posterior(50), data) is not None
    assert not has_few_draws(posterior(50))
    gaussian = fitted("gaussian_process", data)
    assert not has_few_draws(gaussian)
    pool = PooledPosterior((gaussian, posterior(49)), ("g", "ridge"), np.array([0.5, 0.5]), 1.0)
    assert has_few_draws(pool)

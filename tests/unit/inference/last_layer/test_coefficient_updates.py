"""Updates leave the law of coefficients and noise variance, given prior variances, invariant."""

import numpy as np
import pytest

from bandgap.inference.last_layer.coefficient_draws import JITTER, GramForm, RowForm, form_of
from bandgap.inference.last_layer.coefficient_updates import (
    EVERY,
    LEAST,
    HalvesUpdate,
    JointUpdate,
    update_of,
)
from bandgap.inference.last_layer.noise_variance import NoisePrior, Response
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from tests.unit.inference.last_layer.regressions import reduced

PRIOR = NoisePrior(3.0, 2.0)
KINDS = {"rows": (5, JointUpdate), "joint": (14, JointUpdate), "halves": (14, HalvesUpdate)}
VARIANCES = np.geomspace(0.02, 5.0, 7)


def made_update(kind):
    n, cls = KINDS[kind]
    problem = reduced(n=n, p=7 if kind != "rows" else 9)
    variances = VARIANCES if kind != "rows" else np.geomspace(0.02, 5.0, 9)
    update = HalvesUpdate(problem) if cls is HalvesUpdate else JointUpdate(form_of(problem))
    return problem, variances, update, Response(problem.square, problem.n, PRIOR)


def exact(problem, variances):
    """Mean and covariance of delta given sigma^2, shape and rate of sigma^2, by an inverse."""
    inverse = np.linalg.inv(problem.gram + np.diag(1 / variances))
    mean = inverse @ problem.moment
    return (
        mean,
        inverse,
        PRIOR.shape + problem.n / 2,
        PRIOR.scale + (problem.square - problem.moment @ mean) / 2,
    )


def draw_block(problem, variances, delta, block, rng):
    """Draw sigma^2 and the coefficients `block` given the remaining, in place."""
    remaining = np.setdiff1d(np.arange(delta.size), block)
    a = problem.gram[np.ix_(block, block)] + np.diag(1 / variances[block])
    r = problem.moment[block] - problem.gram[np.ix_(block, remaining)] @ delta[remaining]
    best = delta.copy()
    best[block] = np.linalg.solve(a, r)
    misfit = problem.square - 2 * problem.moment @ best + best @ problem.gram @ best
    rate = PRIOR.scale + 0.5 * (misfit + (best**2 / variances).sum())
    shape = PRIOR.shape + 0.5 * (problem.n + remaining.size)
    sigma2 = rate / rng.standard_gamma(shape)
    lower = np.linalg.cholesky(a)
    noise = np.linalg.solve(lower.T, rng.standard_normal(block.size))
    delta[block] = best[block] + np.sqrt(sigma2) * noise
    return sigma2


@pytest.mark.parametrize("kind", ["joint", "halves"])
def test_update_is_that_of_explicit_algebra_with_the_same_random_numbers(kind):
    problem, variances, update, response = made_update(kind)
    delta = np.linspace(-1.0, 2.0, 7)
    result = update.update(delta.copy(), variances, response, np.random.default_rng(12))
    rng = np.random.default_rng(12)
    expected = delta.copy()
    if kind == "joint":
        sigma2 = draw_block(problem, variances, expected, np.arange(7), rng)
    else:
        order = rng.permutation(7)
        draw_block(problem, variances, expected, np.sort(order[:3]), rng)
        sigma2 = draw_block(problem, variances, expected, np.sort(order[3:]), rng)
    np.testing.assert_allclose(result.delta, expected, rtol=0, atol=1e-10)
    assert result.sigma2 == pytest.approx(sigma2, rel=1e-10)
    assert result.fitted == pytest.approx(expected @ problem.gram @ expected, rel=1e-9)


def test_halves_forget_where_they_started():
    """50 updates reach the law from a start 100 standard deviations away; halves change twice."""
    problem, variances, update, response = made_update("halves")
    rng = np.random.default_rng(2)
    delta = np.full(7, 30.0)
    for _ in range(50):
        delta = update.update(delta, variances, response, rng).delta
    mean, inverse, shape, rate = exact(problem, variances)
    sd = np.sqrt(np.diag(inverse) * rate / (shape - 1))
    assert (np.abs(delta - mean) < 6 * sd).all()


@pytest.mark.parametrize("kind", KINDS)
def test_fitted_is_the_square_of_the_draw_in_the_gram_matrix(kind):
    problem, variances, update, response = made_update(kind)
    rng = np.random.default_rng(3)
    delta = np.ones_like(variances)
    for _ in range(3):
        drawn = update.update(delta, variances, response, rng)
        delta = drawn.delta
        assert drawn.fitted == pytest.approx(delta @ problem.gram @ delta, rel=1e-9)


def test_fitted_leaves_out_what_was_added_to_factorise():
    """A Gram matrix of rank 3 under a flat prior is singular to rounding and gets a jitter."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 24))
    problem = reduce_regression(x, x[:, 0] + rng.normal(size=40))
    form = GramForm(problem)
    form.factor(np.full(24, 1e30))
    delta = form.draw(1.0, rng)
    added = JITTER * np.diag(problem.gram).mean()
    assert added * delta @ delta > 1.0  # large enough to be noticed
    # The terms that cancel are known to 1e-10.
    assert form.fitted == pytest.approx(delta @ problem.gram @ delta, rel=1e-4)


def test_halves_change_every_few_updates():
    _, variances, update, response = made_update("halves")
    rng = np.random.default_rng(5)
    delta = np.zeros(7)
    draws = []
    for _ in range(3 * EVERY):
        delta = update.update(delta, variances, response, rng).delta
        draws.append(tuple(update.halves[0]))
    changes = [i for i in range(1, len(draws)) if draws[i] != draws[i - 1]]
    assert set(changes) <= {EVERY, 2 * EVERY} and changes
    assert sorted([*update.halves[0], *update.halves[1]]) == list(range(7))


@pytest.mark.parametrize(
    ("n", "p", "kind", "form"),
    [
        (20, LEAST - 1, JointUpdate, RowForm),
        (LEAST, LEAST - 1, JointUpdate, GramForm),
        (LEAST, LEAST, HalvesUpdate, GramForm),
        (20, LEAST, JointUpdate, RowForm),
    ],
    ids=["few rows", "few columns", "large", "large, few rows"],
)
def test_large_gram_matrices_are_updated_in_halves(n, p, kind, form):
    update = update_of(reduced(n=n, p=p, source=False))
    assert type(update) is kind and type(update.form) is form

"""Both forms draw from the same normal law, with zero, duplicated or many columns too."""

import numpy as np
import pytest

from bandgap.inference.last_layer.coefficient_draws import GramForm, RowForm, form_of
from bandgap.inference.last_layer.reduced_regression import reduce_regression
from tests.unit.inference.last_layer.regressions import make_regression, reduced

FORMS = pytest.mark.parametrize("kind", [GramForm, RowForm])
DRAWS = 8_000
SIGMAS = (
    4.5  # of the largest of about 40 comparisons: a false alarm in 4,000 runs; the seeds are fixed
)
SIGMA = 0.8


@pytest.fixture
def problem():
    return reduced(n=5, p=9)


@FORMS
def test_explained_square_is_that_of_the_explicit_inverse(kind, problem):
    variances = np.geomspace(1e-3, 1e3, 9)
    expected = problem.moment @ np.linalg.solve(
        problem.gram + np.diag(1 / variances), problem.moment
    )
    assert kind(problem).factor(variances) == pytest.approx(expected, rel=1e-9)


@FORMS
def test_draws_have_the_mean_and_covariance_of_the_normal_law(kind, problem):
    form = kind(problem)
    rng = np.random.default_rng(3)
    variances = np.geomspace(0.05, 20.0, 9)
    form.factor(variances)
    draws = np.array([form.draw(SIGMA, rng) for _ in range(DRAWS)])
    inverse = np.linalg.inv(problem.gram + np.diag(1 / variances))
    mean = inverse @ problem.moment
    covariance = SIGMA**2 * inverse
    assert (np.abs(draws.mean(0) - mean) < SIGMAS * np.sqrt(np.diag(covariance) / DRAWS)).all()
    products = (draws - mean)[:, :, None] * (draws - mean)[:, None, :]
    assert (np.abs(products.mean(0) - covariance) < SIGMAS * products.std(0) / np.sqrt(DRAWS)).all()


@FORMS
def test_products_with_the_gram_matrix_and_tail_squares(kind, problem):
    form = kind(problem)
    rng = np.random.default_rng(4)
    v = rng.normal(size=9)
    order = rng.permutation(9)
    np.testing.assert_allclose(form.gram_times(v), problem.gram @ v, rtol=0, atol=1e-10)
    np.testing.assert_allclose(form.diagonal, np.diag(problem.gram), rtol=0, atol=1e-10)
    expected = []
    for m in range(10):
        tail = v.copy()
        tail[order[:m]] = 0.0
        expected.append(tail @ problem.gram @ tail)
    np.testing.assert_allclose(form.tail_squares(v, order), expected, rtol=0, atol=1e-10)


@FORMS
@pytest.mark.parametrize("case", ["dead", "doubled", "huge variances", "tiny variances"])
def test_draws_are_finite_for_a_gram_matrix_without_information(kind, case):
    x, z, s1 = make_regression(5, 9)
    if case == "dead":
        x[:, 4] = 0.0
    if case == "doubled":
        x[:, 5] = x[:, 4]
    form = kind(reduce_regression(x, z, source_covariance=s1))
    form.factor(np.full(9, {"huge variances": 1e200, "tiny variances": 1e-250}.get(case, 1e10)))
    rng = np.random.default_rng(5)
    assert np.isfinite([form.draw(SIGMA, rng) for _ in range(20)]).all()


def test_form_factorises_again_for_new_variances(problem):
    form = GramForm(problem)
    first = form.factor(np.full(9, 1.0))
    form.factor(np.full(9, 50.0))
    assert form.factor(np.full(9, 1.0)) == first


@pytest.mark.parametrize(("n", "kind"), [(5, RowForm), (6, GramForm)])
def test_few_rows_take_the_form_by_rows(n, kind):
    assert type(form_of(reduced(n=n, p=9))) is kind

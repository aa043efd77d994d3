"""Studies of fields and solves: simulated fields, exact gradients, and studies at smoke scale."""

import math

import numpy as np
import pytest

from bandgap.research.unbiased_solves.conjugate_gradients import KernelMatrix
from bandgap.research.unbiased_solves.gradient import gradient_estimate
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.likelihood import Theta
from benchmarks.studies import fields, unbiased_solves
from benchmarks.studies.registry import STUDIES


def test_simulated_field_has_the_correlation_of_its_law():
    """400 fields: standard errors of correlations are at most 0.05."""
    rng = np.random.default_rng(2)
    drawn = np.array(
        [fields.stationary_field(7, rho=2.0, nu=0.5, rng=rng).ravel() for _ in range(400)]
    )
    covariance = drawn.T @ drawn / 400
    # Neighbours of the first site along both axes.
    for other in (1, 7):
        assert covariance[0, other] == pytest.approx(math.exp(-0.5), abs=0.25)
    assert covariance.diagonal().mean() == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize(
    ("step", "move", "expected"), [(0.01, 50.0, 0.01), (0.01, 150.0, 0.005), (1.0, 3.0, 0.25)]
)
def test_first_step_is_halved_until_it_moves_by_less_than_one(step, move, expected):
    assert fields.halved(step, move) == pytest.approx(expected)


class TestUnbiasedSolves:
    @pytest.fixture
    def problem(self):
        rng = np.random.default_rng(0)
        points = rng.random((30, 2))
        return points, Theta(1.0, 0.3, 1.5, 0.2), rng.standard_normal(30)

    def test_exact_gradient_is_that_of_the_dense_likelihood(self, problem):
        points, theta, y = problem
        gradient = unbiased_solves.exact_gradient(KernelMatrix(points, theta), y)
        sites = DenseSites(points, np.zeros((30, 0)), y)
        expected = sites.terms(None, theta, np.zeros(0)).grad_log_theta[[0, 1, 3]]
        np.testing.assert_allclose(gradient, expected, rtol=1e-6)

    def test_complete_solver_has_the_exact_mean_and_a_short_one_a_bias(self, problem):
        """300 gradients, three means: a false alarm in 5,000 runs at 4 standard errors."""
        points, theta, y = problem
        kernel = KernelMatrix(points, theta)
        exact = unbiased_solves.exact_gradient(kernel, y)
        scores = {}
        for name in (unbiased_solves.COMPLETE, "CG, 5 products"):
            rng = np.random.default_rng(1)
            solver = unbiased_solves.SOLVERS[name]
            drawn = np.array(
                [gradient_estimate(kernel, y, solver, rng).gradient for _ in range(300)]
            )
            error = drawn.std(0, ddof=1) / math.sqrt(300)
            scores[name] = np.abs((drawn.mean(0) - exact) / error).max()
        assert scores[unbiased_solves.COMPLETE] < 4.0 < scores["CG, 5 products"]


FIELDS = ("ulisse", "table-4.1", "table-C.1", "table-2.1", "table-2.3", "hamcmc-2")
DEMO = ("figure-2.3", "table-3.6", "nptl-1", "nptl-4", "nptl-6")


@pytest.mark.parametrize(
    "name",
    [
        FIELDS[0],
        *(pytest.param(name, marks=pytest.mark.slow) for name in (*FIELDS[1:], *DEMO)),
    ],
)
def test_smoke_scale_runs(name):
    study = next(study for study in STUDIES if study.name == name)
    result = study.run("smoke", 0)
    assert result.statements
    assert all(math.isfinite(number.value) for number in result.rows)
    if name in FIELDS:
        assert {number.table for number in result.rows} - {""} == set(study.tables)

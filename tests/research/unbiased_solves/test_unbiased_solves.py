"""Series cut at random against enumeration, and the gradient from unbiased solves against dense
matrices.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.inference.checkpoints import Checkpoint
from bandgap.inference.divergence import DivergedError
from bandgap.research.unbiased_solves import conjugate_gradients
from bandgap.research.unbiased_solves.budget import budget_of
from bandgap.research.unbiased_solves.conjugate_gradients import (
    KernelMatrix,
    increments_of,
    pivoted_cholesky,
    solve,
    unbiased_solve,
)
from bandgap.research.unbiased_solves.gradient import gradient_estimate, trace_information
from bandgap.research.unbiased_solves.langevin import (
    Problem,
    UlisseConfig,
    sample_by_smaller_steps,
    sample_ulisse,
)
from bandgap.research.unbiased_solves.series import Truncation, mean_square_error
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.likelihood import Theta
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import LogNormal, Priors, Target
from tests.research.vecchia.samples import covariance_of, field

THETA = Theta(1.2, 1.5, 1.5, 0.3)
READINGS = ("geometric", "quadratic")
every_reading = pytest.mark.parametrize("reading", READINGS)


@pytest.fixture(scope="module")
def data():
    return field(30, 2, THETA, seed=1, covariates=1)


@pytest.fixture(scope="module")
def kernel(data):
    return KernelMatrix(data[0], THETA)


def chance_of_stop(truncation, terms):
    """Probability (terms,) that each term is the last one that is kept, by the rule to
    go on alone.
    """
    result = np.zeros(terms)
    reached = 1.0
    for last in range(1, terms + 1):
        i = last + 1 - truncation.always
        on = (
            1.0
            if i <= 0
            else np.exp(-truncation.beta * (1 if truncation.reading == "geometric" else i))
        )
        on = on if last < terms else 0.0
        result[last - 1] = reached * (1 - on)
        reached = reached * on
    return result


@every_reading
def test_mean_over_all_stops_is_the_solution(data, kernel, reading, monkeypatch):
    """To 1e-10, of a series that goes on until nothing is left of it (a run's own ends at a
    residual of 1e-10).
    """
    monkeypatch.setattr(conjugate_gradients, "TOLERANCE", 1e-14)
    cut = Truncation(beta=0.1, always=3, reading=reading, most=40)
    increments = increments_of(kernel, data[2], terms=40)
    weighted = np.cumsum(increments / cut.inclusion(len(increments))[:, None], axis=0)
    chances = chance_of_stop(cut, len(increments))
    solution = np.linalg.solve(covariance_of(data[0], THETA), data[2])
    assert chances.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(
        chances @ weighted, solution, rtol=0, atol=1e-10 * np.abs(solution).max()
    )
    error = chances @ ((weighted - increments.sum(0)) ** 2).sum(1)
    assert mean_square_error(increments, cut) == pytest.approx(error, rel=1e-8)


@every_reading
def test_stops_have_the_probabilities_of_the_weights(reading):
    """20,000 stops: 5 standard errors at each of ten terms, once in 100,000 seeds by chance."""
    cut = Truncation(beta=0.2, always=2, reading=reading, most=50)
    rng = np.random.default_rng(0)
    stops = np.array([cut.stop(rng) for _ in range(20_000)])
    expected = cut.inclusion(12)
    shares = np.array([(stops >= term).mean() for term in range(1, 13)])
    assert (np.abs(shares - expected) <= 5 * np.sqrt(expected * (1 - expected) / 20_000)).all()


@every_reading
def test_random_solve_equals_the_weighted_series_at_its_stop(data, kernel, reading):
    cut = Truncation(beta=0.1, always=3, reading=reading, most=40)
    for seed in range(5):
        stop = cut.stop(np.random.default_rng(seed))
        estimate = unbiased_solve(kernel, data[2], cut, np.random.default_rng(seed))
        increments = increments_of(kernel, data[2], terms=stop)
        expected = (increments / cut.inclusion(len(increments))[:, None]).sum(0)
        np.testing.assert_allclose(estimate.solution, expected, rtol=1e-10, atol=1e-12)


def test_complete_solves_agree_with_dense_ones_with_any_preconditioner(data, kernel):
    dense = np.linalg.solve(covariance_of(data[0], THETA), data[2])
    plain, quick = (
        solve(kernel, data[2], terms=200, precondition=p) for p in (None, kernel.preconditioner(12))
    )
    for solved in (plain, quick):
        np.testing.assert_allclose(solved.solution, dense, rtol=1e-7, atol=1e-9)
    assert quick.terms < plain.terms
    factor = pivoted_cholesky(kernel, 30)
    np.testing.assert_allclose(
        factor @ factor.T + THETA.tau2 * np.eye(30), covariance_of(data[0], THETA), atol=1e-8
    )


def test_products_in_chunks_equal_those_of_a_stored_matrix(kernel, data, monkeypatch):
    v = np.arange(30.0)
    products = [kernel(v), kernel.slope(0, v), kernel.slope(1, v)]
    monkeypatch.setattr("bandgap.research.unbiased_solves.conjugate_gradients.STORED_ROWS", 0)
    monkeypatch.setattr("bandgap.research.unbiased_solves.conjugate_gradients.CHUNK", 7)
    fresh = KernelMatrix(data[0], THETA)
    for stored, chunks in zip(
        products, [fresh(v), fresh.slope(0, v), fresh.slope(1, v)], strict=True
    ):
        np.testing.assert_allclose(chunks, stored, rtol=1e-12)


@pytest.mark.parametrize(
    ("draws", "bias_errors"), [(2_000, 3), pytest.param(20_000, 10, marks=pytest.mark.statistical)]
)
def test_gradient_is_unbiased_with_two_solves_and_has_the_derived_bias_with_one(
    data, kernel, draws, bias_errors
):
    """The mean is within 4 standard errors (exceeded in one of 5,000 seeds); the bias is
    `bias_errors` of them.
    """
    y = data[2]
    cut = Truncation(beta=0.15, always=2, most=60)
    exact = DenseSites(*data).terms(None, THETA, np.zeros(1)).grad_log_theta[[0, 1, 3]]
    increments = increments_of(kernel, y, terms=60)
    place = np.arange(len(increments))
    extra = 1.0 / cut.inclusion(len(increments))[np.minimum(place[:, None], place)] - 1.0
    slopes = [np.array([kernel.slope(j, d) for d in increments]) for j in (0, 1, 3)]
    bias = np.array([0.5 * ((increments @ s.T) * extra).sum() for s in slopes])
    for solves, expected in ((2, exact), (1, exact + bias)):
        rng = np.random.default_rng(solves)
        estimates = np.array(
            [gradient_estimate(kernel, y, cut, rng, solves=solves).gradient for _ in range(draws)]
        )
        error = estimates.std(axis=0) / np.sqrt(len(estimates))
        assert (np.abs(estimates.mean(axis=0) - expected) < 4 * error).all()
        if solves == 1:
            assert (np.abs(estimates.mean(axis=0) - exact) > bias_errors * error).any()


def test_metric_is_the_fisher_information(data, kernel):
    block = np.ix_([0, 1, 3], [0, 1, 3])
    exact = DenseSites(*data).terms(None, THETA, np.zeros(1)).fisher_log_theta
    exact = exact[block] if exact.shape[0] == 4 else exact
    information = trace_information(kernel, probes=400, terms=60, rng=np.random.default_rng(0))
    sd = np.sqrt(np.diag(exact))
    np.testing.assert_allclose(information / np.outer(sd, sd), exact / np.outer(sd, sd), atol=0.2)
    one = trace_information(kernel, probes=1, terms=60, rng=np.random.default_rng(0))
    assert np.linalg.eigvalsh(one).min() > 0


def test_budget_is_reported_and_weights_that_outgrow_the_series_are_refused(data, kernel):
    cut = Truncation(beta=0.05, always=5)
    budget = budget_of(kernel, data[2], cut, steps=100, probes=1)
    assert budget.products == pytest.approx(3 * cut.inclusion(1000).sum() + 4)
    assert budget.total == pytest.approx(100 * budget.products)
    assert "100 steps with at most about" in str(budget) and "30 x 30 matrix" in str(budget)
    smooth = KernelMatrix(data[0], Theta(1.2, 3.0, 2.5, 1e-4))
    with pytest.raises(InputError, match="Give a smaller beta, more terms that are always kept"):
        budget_of(
            smooth,
            data[2],
            Truncation(beta=0.5, always=0, reading="quadratic"),
            steps=100,
            probes=1,
        )
    assert (
        budget_of(
            smooth, data[2], cut, steps=9, probes=1, precondition=smooth.preconditioner(30)
        ).scatter
        < 0.1
    )


def test_chains_make_no_more_products_than_the_budget_and_not_far_fewer(monkeypatch):
    """Counted where they are made, from the sentence on; series end by chance, so many steps are
    compared.
    """
    counted = Counter()
    messages = []
    for name in ("__call__", "slope"):

        def counting(self, *args, _name=name, _method=getattr(KernelMatrix, name)):
            counted[_name] += args[0] != 3 if _name == "slope" else 1
            return _method(self, *args)

        monkeypatch.setattr(KernelMatrix, name, counting)

    def note(update):
        if update.message:
            messages.append((update.message, counted.total()))

    points, rows, y = field(200, 2, THETA, seed=2, covariates=2)
    problem = Problem(
        points, rows, y, Priors(*(LogNormal(float(np.log(value)), 0.3) for value in THETA))
    )
    config = UlisseConfig(chains=2, warmup=25, draws=100)
    draws = sample_ulisse(problem, THETA, config, seed=0, progress=note)
    ((sentence, before),) = messages
    assert f"{draws.figures['products_planned']:,.0f} in all with the metric" in sentence
    assert 0.6 < (counted.total() - before) / draws.figures["products_planned"] < 1.0


def scattered(scale):
    """Observations whose spread is `scale` times what the start says: the first steps are long
    ones.
    """
    points, rows, y = field(40, 2, THETA, seed=2, covariates=1)
    return Problem(
        points, rows, scale * y, Priors(*(LogNormal(float(np.log(value)), 9.0) for value in THETA))
    )


def test_diverged_chains_restart_with_smaller_steps(tmp_path):
    problem = scattered(6.0)
    config = UlisseConfig(step=0.4, warmup=10, draws=40)
    with pytest.raises(DivergedError, match="all 2 chains diverged at a step of 0.4"):
        sample_ulisse(problem, THETA, config, seed=0)
    checkpoint = Checkpoint(tmp_path / "chains.safetensors")
    draws = sample_by_smaller_steps(problem, THETA, config, seed=0, checkpoint=checkpoint)
    alone = sample_ulisse(problem, THETA, replace(config, step=0.2, probes=2), seed=0)
    assert (draws.eta == alone.eta).all() and draws.warnings == alone.warnings
    assert (
        sample_by_smaller_steps(problem, THETA, config, seed=0, checkpoint=checkpoint).eta
        == draws.eta
    ).all()


def test_chains_that_diverge_at_every_step_leave_the_start_and_say_so():
    problem = scattered(30.0)
    draws = sample_by_smaller_steps(
        problem, THETA, UlisseConfig(step=0.4, warmup=10, draws=40), seed=0
    )
    np.testing.assert_allclose(np.exp(draws.eta), [[[THETA.sigma2, THETA.rho, THETA.tau2]]])
    inverse = np.linalg.inv(covariance_of(problem.points, THETA))
    precision = problem.covariates.T @ inverse @ problem.covariates
    np.testing.assert_allclose(draws.precision_beta, precision, rtol=1e-6)
    best = np.linalg.solve(precision, problem.covariates.T @ inverse @ problem.y)
    np.testing.assert_allclose(draws.beta[0, 0], best, rtol=1e-6)
    assert draws.warnings == (
        "All chains diverged, down to a step of 0.05: the scales are fixed at their most probable "
        "values.",
    )


@pytest.mark.slow
def test_chains_of_unbiased_solves_agree_with_metropolis_on_the_exact_likelihood():
    points, rows, y = field(60, 2, THETA, seed=2, covariates=1)
    priors = Priors(*(LogNormal(float(np.log(v)), 0.5) for v in THETA))
    target = Target(DenseSites(points, rows, y), priors, nu=1.5)
    mode = find_mode(target, target.eta(THETA))
    slow = sample_metropolis(target, mode, MetropolisConfig(draws=1000), seed=0).eta.reshape(-1, 3)
    config = UlisseConfig(
        step=0.05, chains=4, warmup=100, draws=1500, probes=2, truncation=Truncation(always=8)
    )
    messages = []
    fast = sample_ulisse(
        Problem(points, rows, y, priors),
        target.theta(mode.eta),
        config,
        seed=0,
        progress=messages.append,
    ).eta.reshape(-1, 3)
    sd = slow.std(0)
    assert "products of a 60 x 60 matrix" in messages[0].message
    assert (np.abs(fast.mean(0) - slow.mean(0)) < 0.35 * sd).all()
    assert ((fast.std(0) / sd > 0.8) & (fast.std(0) / sd < 1.25)).all()


@pytest.mark.parametrize(
    ("kind", "settings"),
    [(Truncation, {"always": 5, "most": 5}), (UlisseConfig, {"draws": 10, "thin": 3})],
)
def test_settings_that_cannot_be_together_are_refused(kind, settings):
    with pytest.raises(ConfigError, match="Accepted: (most above always|draws a multiple of thin)"):
        kind(**settings)

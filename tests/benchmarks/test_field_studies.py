"""Studies of fields and solves: the batched likelihood against the package, priors, smoke scale."""

import math

import numpy as np
import pytest
import torch

from bandgap.research.unbiased_solves.conjugate_gradients import KernelMatrix
from bandgap.research.unbiased_solves.series import Truncation
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.drift import drift, metric_slopes
from bandgap.research.vecchia.likelihood import Blocks, Theta
from bandgap.research.vecchia.ordering import earlier_neighbours
from bandgap.research.vecchia.target import Target
from benchmarks.studies import (
    batched_fields,
    field_optimisers,
    field_samplers,
    simulated_fields,
    unbiased_solves,
)
from benchmarks.studies.registry import STUDIES
from benchmarks.studies.study import Row

BETA = torch.tensor([[-2.9, 4.8]]).double().expand(3, -1)


@pytest.fixture(scope="module")
def simulated():
    grid = batched_fields.grid_of(9, 7, neighbours=8)
    return simulated_fields.simulate(grid, 3, rng=np.random.default_rng(0))


@pytest.fixture(scope="module")
def eta(simulated):
    noise = torch.randn(3, 4, generator=torch.Generator().manual_seed(1)).double()
    return simulated.theta.log() + 0.1 * noise


def blocks_of(fields, i):
    """The same field as sites of the package."""
    points = fields.grid.points
    return Blocks(
        points,
        fields.covariates[i].numpy(),
        fields.y[i].numpy(),
        earlier_neighbours(points, 8),
        np.arange(len(points)),
    )


class TestBatchedFields:
    def test_sums_over_a_batch_are_those_of_the_package(self, simulated, eta):
        index = torch.arange(0, 63, 2)
        batch = batched_fields.sums(simulated.fields, eta, index)
        for i in range(3):
            terms = blocks_of(simulated.fields, i).terms(
                index.numpy(), Theta(*eta[i].exp().tolist()), BETA[i].numpy(), free_nu=True
            )
            np.testing.assert_allclose(batch.fisher[i], terms.fisher_log_theta, rtol=1e-6)
            gradient = batch.gradient(BETA)[i]
            np.testing.assert_allclose(gradient, terms.grad_log_theta, atol=1e-6)
            np.testing.assert_allclose(batch.gradient_beta(BETA)[i], terms.grad_beta, atol=1e-6)
            np.testing.assert_allclose(batch.p4[i], terms.p4, rtol=1e-6)
            constant = 0.5 * 63 * math.log(2 * math.pi)
            assert float(batch.value(BETA)[i]) == pytest.approx(terms.loglik + constant, abs=1e-6)

    def test_drift_of_the_metric_is_that_of_the_package(self, simulated, eta):
        index = torch.arange(10, 50)
        batch = batched_fields.sums(simulated.fields, eta, index, drift=True)
        gamma = batched_fields.drift_of(batch.fisher, batch.drift_slopes)
        for i in range(3):
            sites = BatchedSites(blocks_of(simulated.fields, i), torch.device("cpu"))
            theta = Theta(*eta[i].exp().tolist())
            slopes = metric_slopes(sites, index.numpy(), theta, free_nu=True)
            np.testing.assert_allclose(batch.drift_slopes[i], slopes, atol=1e-5)
            expected = drift(batch.fisher[i].numpy(), slopes)
            np.testing.assert_allclose(gamma[i], expected, rtol=1e-4, atol=1e-5)

    def test_sums_over_all_sites_have_beta_at_its_best(self, simulated, eta):
        result = batched_fields.all_sites(simulated.fields, eta)
        terms = blocks_of(simulated.fields, 1).terms(
            None, Theta(*eta[1].exp().tolist()), np.zeros(2), free_nu=True
        )
        np.testing.assert_allclose(result.beta[1], terms.beta_hat, rtol=1e-8)
        np.testing.assert_allclose(result.fisher[1], terms.fisher_log_theta, rtol=1e-6)

    def test_one_field_without_density_leaves_the_others(self, simulated, eta):
        broken = eta.clone()
        broken[1, 0] = math.nan
        value = batched_fields.sums(simulated.fields, broken, torch.arange(20)).value(BETA)
        assert value.isfinite().tolist() == [True, False, True]


def test_priors_of_the_fields_are_those_of_the_package(eta):
    target = Target(None, nu=None)
    for i in range(3):
        at = eta[i].numpy()
        gradient = simulated_fields.prior_gradient(eta)[i]
        np.testing.assert_allclose(gradient, target.prior_gradient(at))
        curvature = simulated_fields.prior_curvature(eta)[i]
        np.testing.assert_allclose(curvature, target.prior_curvature(at))
        difference = simulated_fields.prior_value(eta)[i] - simulated_fields.prior_value(eta)[0]
        expected = target.log_prior(at) - target.log_prior(eta[0].numpy())
        assert float(difference) == pytest.approx(expected)


def test_simulated_field_has_the_correlation_of_its_law():
    """400 fields: standard errors of correlations are at most 0.05."""
    rng = np.random.default_rng(2)
    size = (8, 6)
    fields = np.array(
        [
            simulated_fields.stationary_field(size, rho=2.0, nu=0.5, rng=rng).ravel()
            for _ in range(400)
        ]
    )
    covariance = fields.T @ fields / 400
    # Sites 0, 1 and 6 of a grid of 8 x 6: neighbours along both axes.
    for other in (1, 6):
        assert covariance[0, other] == pytest.approx(math.exp(-0.5), abs=0.25)
    assert covariance.diagonal().mean() == pytest.approx(1.0, abs=0.15)


def test_mode_of_fields_has_no_gradient(simulated):
    mode = field_samplers.find_mode(simulated.fields, simulated.theta.log(), iterations=60)
    slope = mode.at.gradient + simulated_fields.prior_gradient(mode.eta)
    sd = torch.linalg.inv(mode.precision).diagonal(dim1=1, dim2=2).sqrt()
    assert float((slope * sd).abs().max()) < 0.01


def test_times_of_optimisers_are_those_of_the_stated_first_step():
    def seconds(method, value, reading):
        return Row(
            setting="all parameters",
            method=method,
            quantity=field_optimisers.SECONDS,
            value=value,
            reading=reading,
        )

    machine = field_optimisers.MACHINE
    stated = [seconds(method, 3.0, machine) for method in field_optimisers.RULES]
    other = [seconds(method, 1.0, f"first step 1, {machine}") for method in field_optimisers.RULES]
    statement = field_optimisers.statements_of([*stated, *other, seconds("GpGp", 4.0, machine)])[1]
    assert statement.verdict == "differs"
    assert "time of momentum over GpGp 0.75" in statement.evidence


class TestUnbiasedSolves:
    @pytest.fixture
    def kernel(self):
        points = np.random.default_rng(0).random((30, 2))
        return KernelMatrix(points, Theta(1.0, 0.3, 1.5, 0.2))

    @pytest.mark.parametrize("rank", [0, 5])
    def test_complete_series_solve_all_right_hand_sides(self, kernel, rank):
        right = np.random.default_rng(1).standard_normal((30, 4))
        precondition = kernel.preconditioner(rank) if rank else None
        series = unbiased_solves.series_of(kernel, right, precondition)
        np.testing.assert_allclose(kernel(series.solution), right, atol=1e-8)

    def test_mean_of_random_weights_is_one(self):
        """20,000 draws of the geometric reading: within 5 standard errors."""
        cut = Truncation(beta=0.2, always=3)
        weights = unbiased_solves.random_weights(cut, 10, 20_000, np.random.default_rng(0))
        error = weights.std(1) / math.sqrt(20_000)
        assert (np.abs(weights.mean(1) - 1.0) <= 5 * error).all()

    def test_gradient_of_complete_solves_has_the_exact_mean(self, kernel):
        """All 30 unit vectors times sqrt(30) as signs: the trace is exact."""
        y = np.random.default_rng(2).standard_normal(30)
        signs = math.sqrt(30) * np.eye(30)
        gradients = unbiased_solves.Gradients(
            kernel,
            y,
            signs,
            unbiased_solves.series_of(kernel, signs, None),
            unbiased_solves.series_of(kernel, y[:, None], None),
        )
        solved = gradients.of_y.solution
        values = gradients.combine(gradients.of_signs.solution, solved, solved)
        np.testing.assert_allclose(values.mean(0), gradients.exact(), rtol=1e-6)


FIELDS = ("table-4.1", "table-C.1", "ulisse", "table-2.3", "hamcmc-2")
DEMO = ("figure-2.3", "table-3.6", "nptl-1", "nptl-4", "nptl-6")


@pytest.mark.parametrize(
    "name",
    [
        *FIELDS[:3],
        *(pytest.param(name, marks=pytest.mark.slow) for name in (*FIELDS[3:], *DEMO)),
    ],
)
def test_smoke_scale_runs(name):
    study = next(study for study in STUDIES if study.name == name)
    result = study.run("smoke", 0)
    assert result.statements
    assert all(math.isfinite(number.value) for number in result.rows)
    if name in FIELDS:
        assert {number.table for number in result.rows} - {""} == set(study.tables)

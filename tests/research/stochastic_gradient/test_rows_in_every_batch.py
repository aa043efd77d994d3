"""Fixed rows of all batches: gradients, laws where one row determines a direction, curvatures."""

from itertools import combinations

import numpy as np
import pytest
import torch

from bandgap.inference.network.whitened_network import whiten
from bandgap.research.shared.stochastic_start import rows_of_largest_curvature
from bandgap.research.stochastic_gradient.gradients import (
    batch_gradient,
    control_variate,
    free_rows,
)
from bandgap.research.stochastic_gradient.network_target import network_target
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.sghmc import SghmcConfig
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from bandgap.research.stochastic_gradient.step_size import batch_noise
from tests.research.stochastic_gradient.linear_laws import variance_ratio
from tests.research.stochastic_gradient.test_gradients import Regression, logistic
from tests.research.stochastic_gradient.test_network_target import jacobian, positions
from tests.unit.inference.network.problems import CPU, prior_of, raw


@pytest.mark.parametrize("with_control", [False, True])
def test_mean_over_all_batches_is_the_full_gradient(with_control):
    target = logistic(6)
    fixed = torch.tensor([1, 4])
    position = torch.tensor([[0.4, -1.0, 0.7]], dtype=torch.float64)
    control = (
        control_variate(target, torch.tensor([0.1, 0.2, -0.3]).double()) if with_control else None
    )
    drawn_rows = free_rows(fixed, 6)
    assert drawn_rows.tolist() == [0, 2, 3, 5]
    batches = [
        batch_gradient(target, drawn_rows[list(rows)][None], control, fixed_rows=fixed)(position)
        for rows in combinations(range(4), 2)
    ]
    full = target.row_gradient(position, torch.arange(6)[None])
    np.testing.assert_allclose(
        torch.stack([slopes.total for slopes in batches]).mean(0),
        full - position,
        rtol=0,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        torch.stack([slopes.row_mean for slopes in batches]).mean(0), full / 6, rtol=0, atol=1e-12
    )


def test_no_fixed_rows_and_empty_fixed_rows_give_identical_gradients():
    target = logistic(6)
    position = torch.tensor([[0.4, -1.0, 0.7]], dtype=torch.float64)
    rows = torch.tensor([[0, 3, 5]])
    plain, empty = (
        batch_gradient(target, rows, fixed_rows=fixed)(position)
        for fixed in (None, torch.tensor([]).long())
    )
    assert torch.equal(plain.total, empty.total) and torch.equal(plain.row_mean, empty.row_mean)
    assert free_rows(None, 6) is None and free_rows(torch.tensor([]).long(), 6) is None


def lone_row():
    """Rows x with x'x = 64 I; the mean of the posterior is 0.

    The first row alone determines the first direction, the other 63 the second.
    """
    x, y = torch.zeros(64, 2, dtype=torch.float64), torch.zeros(64, dtype=torch.float64)
    x[0, 0], x[1:, 1] = 8.0, 8.0 / np.sqrt(63)
    y[1:] = torch.randn(63, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    y[1:] = (y[1:] - y[1:].mean()) / y[1:].std(unbiased=False)
    return Regression(x, y)


def spread(sampler, fixed, *, draws=400):
    """Variance (2,) in units of the posterior's, of many chains that begin at its law."""
    start = (
        torch.randn(1500, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64) / 8.0
    )
    run = RunConfig(draws // 4, draws, draws, batch_size=8, longest_move=1e30)
    draws, _ = sample(
        lone_row(),
        sampler,
        start,
        config=run,
        seed=0,
        extras=Extras(lambda x: x**2, fixed_rows=fixed),
    )
    return 64 * draws.recorded.mean((0, 1))


@pytest.mark.parametrize(
    "sampler",
    [
        pytest.param(SgldConfig(0.3 / 64), id="sgld"),
        pytest.param(SghmcConfig(0.03 / 64, friction=0.1), id="sghmc", marks=pytest.mark.slow),
    ],
)
def test_fixed_row_that_alone_determines_a_direction_keeps_the_variance_there(sampler):
    """h = 0.3 and N / n = 8.

    Without it the factor of a step has a mean square of 7/8 + 1.4^2 / 8 = 1.12.
    """
    assert float(spread(sampler, None)[0]) > 20
    variances = spread(sampler, torch.tensor([0]))
    assert float(variances[0]) == pytest.approx(
        variance_ratio(0.3) if isinstance(sampler, SgldConfig) else 1.0, rel=0.1
    )
    if isinstance(sampler, SgldConfig):
        assert float(variances[1]) == pytest.approx(
            variance_ratio(0.3, noise=batch_noise(63, 7)), rel=0.06
        )


@pytest.fixture(scope="module")
def network():
    theta_hat, x, y = raw(40, 5, hidden=(4, 3))
    x[7] *= 6.0  # far from all drawn_rows
    return network_target(
        whiten(theta_hat, x, y, device=CPU, dtype=torch.float64), prior_of(theta_hat, x)
    )


@pytest.mark.parametrize("turn", [False, True])
def test_curvature_of_a_row_is_that_of_its_slopes(network, turn):
    rows = torch.arange(40)
    target, position = network.reframed(positions(network, 2), rows, turn=turn)
    curvatures = target.row_curvature(position, block=17)
    first = target.spans[-1][1]
    for chain in range(2):
        at = position[chain : chain + 1]
        slopes = jacobian(target, at, rows)[:, :first] / float(
            target.prior.scales(target.state(at)).sigma
        )
        np.testing.assert_allclose(curvatures[chain], (slopes**2).sum(1), rtol=1e-5)


def test_rows_of_largest_curvature_are_fixed_unless_the_batch_has_all_rows(network):
    target, position = network.reframed(positions(network, 2), torch.arange(40))
    bent = target.row_curvature(position).amax(0)
    fixed = rows_of_largest_curvature(target, position, 16)
    assert len(fixed) == 2 and 7 in fixed.tolist()
    assert bent[fixed].min() >= bent[free_rows(fixed, 40)].max()
    assert len(rows_of_largest_curvature(target, position, 40)) == 0

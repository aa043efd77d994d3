"""Mini-batch gradients over all batches, control variates, schedules, and formulas of the step."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.research.stochastic_gradient.gradients import (
    batch_gradient,
    control_variate,
    draw_rows,
)
from bandgap.research.stochastic_gradient.outcomes import Extras, RunConfig
from bandgap.research.stochastic_gradient.run import sample
from bandgap.research.stochastic_gradient.schedules import (
    Constant,
    Cyclical,
    Polynomial,
    Stepwise,
    stretched,
)
from bandgap.research.stochastic_gradient.sgld import SgldConfig
from bandgap.research.stochastic_gradient.step_size import (
    batch_noise,
    largest_curvature,
)
from tests.research.stochastic_gradient.linear_laws import variance_ratio


@dataclass(frozen=True, eq=False)
class Logistic:
    """Rows x (n, p) with labels of -1 and 1 (n,), standard normal weights."""

    x: torch.Tensor
    y: torch.Tensor

    @property
    def n_rows(self):
        return len(self.y)

    def prior_gradient(self, position):
        return -position

    def row_gradient(self, position, rows):
        x, y = self.x[rows], self.y[rows]
        margin = y * (x @ position.unsqueeze(-1)).squeeze(-1)
        return (x.mT @ (y * torch.sigmoid(-margin)).unsqueeze(-1)).squeeze(-1)


@dataclass(frozen=True, eq=False)
class Regression:
    """Whitened rows x (n, p) with x'x = n I, labels y (n,) with unit noise, a flat prior.

    The posterior's H is n I.
    """

    x: torch.Tensor
    y: torch.Tensor

    @property
    def n_rows(self):
        return len(self.y)

    def prior_gradient(self, position):
        return torch.zeros_like(position)

    def row_gradient(self, position, rows):
        x = self.x[rows]
        residual = self.y[rows] - (x @ position.unsqueeze(-1)).squeeze(-1)
        return (x.mT @ residual.unsqueeze(-1)).squeeze(-1)


def logistic(n=5, p=3, seed=0):
    rng = np.random.default_rng(seed)
    return Logistic(
        torch.from_numpy(rng.normal(size=(n, p))), torch.from_numpy(rng.choice([-1.0, 1.0], n))
    )


def whitened_regression(n, p=3, seed=0):
    rng = np.random.default_rng(seed)
    q, _ = np.linalg.qr(rng.normal(size=(n, p)))
    return Regression(torch.from_numpy(q * np.sqrt(n)), torch.from_numpy(rng.normal(size=n)))


@pytest.mark.parametrize("with_control", [False, True])
def test_mean_over_all_batches_is_the_full_gradient(with_control):
    target = logistic()
    position = torch.tensor([[0.4, -1.0, 0.7]], dtype=torch.float64)
    control = (
        control_variate(target, torch.tensor([0.1, 0.2, -0.3]).double(), block=2)
        if with_control
        else None
    )
    batches = [torch.tensor([rows]) for rows in combinations(range(5), 2)]
    mean = torch.stack(
        [batch_gradient(target, rows, control)(position).total for rows in batches]
    ).mean(0)
    x = target.x.numpy()
    y = target.y.numpy()
    theta = position[0].numpy()
    full = x.T @ (y / (1 + np.exp(y * (x @ theta)))) - theta
    np.testing.assert_allclose(mean[0], full, rtol=0, atol=1e-12)


def test_control_variate_at_its_centre_has_no_batch_noise():
    target = logistic()
    centre = torch.tensor([0.1, 0.2, -0.3], dtype=torch.float64)
    control = control_variate(target, centre)
    batches = [torch.tensor([rows]) for rows in combinations(range(5), 2)]
    values = [batch_gradient(target, rows, control)(centre[None]).total[0] for rows in batches]
    assert float(torch.stack(values).std(0).max()) < 1e-14


@pytest.mark.parametrize("chains", [30, 3000])
def test_batches_are_uniform_without_replacement_and_differ_between_chains(chains):
    rng = np.random.default_rng(0)
    rows = np.concatenate(
        [draw_rows(6, 2, chains, rng=rng).numpy() for _ in range(30_000 // chains)]
    )
    assert (rows[:, 0] != rows[:, 1]).all()
    pairs, counts = np.unique(np.sort(rows, 1), axis=0, return_counts=True)
    assert len(pairs) == 15
    assert (
        (counts - 2000) ** 2 / 2000
    ).sum() < 36.1  # chi square with 14 degrees of freedom: 1 in 1,000


@pytest.mark.parametrize("with_control", [False, True])
def test_stationary_variance_is_that_of_the_formula(with_control):
    """SGLD with step h / n is G = H^-1 with h: 16 batches' rows of 64, h = 0.3."""
    n = 64
    batch = 16
    h = 0.3
    target = whitened_regression(n)
    mean = target.x.T @ target.y / n
    control = control_variate(target, mean) if with_control else None
    start = mean + torch.randn(
        1500, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    ) / np.sqrt(n)
    config = RunConfig(30, 120, 120, batch_size=batch)
    extras = Extras(lambda x: (x - mean) ** 2, control)
    draws, _ = sample(target, SgldConfig(h / n), start, config=config, seed=0, extras=extras)
    ratio = n * float(draws.recorded.mean())
    if with_control:  # the Hessians of batches still differ
        assert ratio < variance_ratio(h, noise=0.5 * batch_noise(n, batch))
    else:
        assert ratio == pytest.approx(variance_ratio(h, noise=batch_noise(n, batch)), rel=0.06)


def test_chain_is_stable_below_the_step_of_the_formula_and_not_above():
    target = whitened_regression(32)
    start = torch.ones(4, 3, dtype=torch.float64)
    curvatures = largest_curvature(
        lambda x: target.row_gradient(x, torch.arange(32).expand(4, -1)), start,
        generator=torch.Generator().manual_seed(0),
    )  # fmt: skip
    np.testing.assert_allclose(curvatures, 32.0, rtol=1e-6)
    limit = 2.0 / float(curvatures[0])
    run = RunConfig(0, 400, 400)
    _, below = sample(target, SgldConfig(0.98 * limit), start, config=run, seed=0)
    assert below.divergences == 0
    with pytest.raises(
        ConfigError,
        match=r"SgldConfig: all 4 chains diverged by iteration \d+. .* try a tenth of it",
    ):
        sample(target, SgldConfig(1.1 * limit), start, config=run, seed=0)


def test_largest_curvature_of_unequal_directions_at_every_position():
    """The second position is 30 units away, at a saddle whose steepest curvature is negative."""
    scales = torch.tensor([[1.0, 5.0, 40.0], [-70.0, 5.0, 40.0]], dtype=torch.float64)
    position = torch.tensor([[0.0, 0.0, 0.0], [0.0, 30.0, 0.0]], dtype=torch.float64)
    curvatures = largest_curvature(
        lambda x: -scales * x, position, generator=torch.Generator().manual_seed(0)
    )
    np.testing.assert_allclose(curvatures, [40.0, -70.0], rtol=1e-4)


@pytest.mark.parametrize(
    "schedule", [Constant(), Polynomial(50.0), Stepwise(0.5, 30), Cyclical(40)], ids=repr
)
def test_stretched_schedule_does_the_same_over_twice_as_many_iterations(schedule):
    twice = stretched(schedule, 2)
    for k in range(200):
        assert twice.factor(2 * k) == pytest.approx(schedule.factor(k))
        assert twice.collects(2 * k) == twice.collects(2 * k + 1) == schedule.collects(k)


@pytest.mark.parametrize(
    "schedule, factors",
    [
        (Constant(), [1, 1, 1]),
        (Polynomial(2.0, 1.0), [1, 2 / 3, 0.5]),
        (Stepwise(0.5, 2), [1, 1, 0.5]),
        (Cyclical(4, 0.2), [1, 0.5 + 0.5 * np.cos(np.pi / 4), 0.5]),
    ],
    ids=["constant", "polynomial", "stepwise", "cyclical"],
)
def test_schedule_has_the_factors_of_its_formula(schedule, factors):
    np.testing.assert_allclose([schedule.factor(k) for k in range(3)], factors)


def test_cyclical_schedule_collects_in_the_low_half_of_a_cycle():
    run = RunConfig(4, 8, 1, schedule=Cyclical(4, 0.01))
    assert [k for k in range(12) if run.keeps(k, 1)] == [6, 7, 10, 11]

"""The nonparametric posterior of a flow: weights, base measures and closed forms."""

import math

import numpy as np
import pytest
import torch

from bandgap.inference.base_measure import BaseMeasure
from bandgap.research.flows.nonparametric import (
    base_posterior,
)
from tests.research.flows.base_draws import base_draws


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal_rows(n: int, d: int, *, seed: int = 0, mean: float = 0.0) -> torch.Tensor:
    return mean + torch.randn(n, d, generator=generator(seed), dtype=torch.float64)


@pytest.mark.parametrize("alpha", [0.0, 100.0])
def test_closed_form_of_the_base_mean_is_that_of_the_samples(alpha: float) -> None:
    """4,000 draws of the weights over the same rows, with fresh pseudo-observations each."""
    rows = normal_rows(100, 3)
    base = BaseMeasure(alpha, rows=normal_rows(5_000, 3, seed=1, mean=0.5) if alpha else None)
    random = generator(2)
    draws = base_draws(
        rows,
        lambda: base.draw(rows, generator=random),
        alpha=alpha,
        n_draws=4_000,
        generator=random,
    )
    pseudo = base.draw(rows, generator=random)
    is_row = torch.ones(1, 100, dtype=torch.bool)
    closed = base_posterior(rows[None], is_row, pseudo[None], alpha=alpha)
    sampled = torch.cov(draws.T)
    ratios = torch.diagonal(closed.covariance[0]) / torch.diagonal(sampled)
    np.testing.assert_allclose(ratios.numpy(), 1.0, atol=0.1)


def test_endless_weight_of_a_normal_base_gives_its_mean() -> None:
    rows = normal_rows(40, 2, mean=3.0)
    base = BaseMeasure(1e6)
    pseudo = base.draw(rows, generator=generator())[:5_000]
    is_row = torch.ones(1, 40, dtype=torch.bool)
    closed = base_posterior(rows[None], is_row, pseudo[None], alpha=1e6)
    standard_errors = rows.std(0) / math.sqrt(5_000)
    assert bool(((closed.mean[0] - rows.mean(0)).abs() < 3 * standard_errors).all())


def test_normal_base_measure_has_mean_and_covariance_of_the_rows() -> None:
    mixing = torch.tensor([[1.0, 0.8], [0.0, 0.3]], dtype=torch.float64)
    rows = normal_rows(300, 2) @ mixing + 2.0
    drawn = BaseMeasure(5_000.0).draw(rows, generator=generator(3))
    assert len(drawn) == 50_000
    np.testing.assert_allclose(drawn.mean(0).numpy(), rows.mean(0).numpy(), atol=0.02)
    np.testing.assert_allclose(torch.cov(drawn.T).numpy(), torch.cov(rows.T).numpy(), atol=0.03)

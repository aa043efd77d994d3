"""A few weighted rows give the prior's value and slopes by all rows, at every scale."""

from functools import cache

import numpy as np
import pytest
import torch

from bandgap.inference.network.pcp_scales import (
    MANY_ROWS,
    PointEstimateScales,
    condensed,
    point_estimate_scales,
)
from bandgap.priors.penalized_complexity import (
    distance,
    log_density_and_gradient,
    point_estimate_terms,
)
from bandgap.priors.row_quadrature import row_quadrature

ROWS = MANY_ROWS + 1000
SIZES = np.array([200.0, 15.0, 1.0])  # of layers, as those of networks of descriptors


def rows_of(kind):
    """alpha (ROWS, 3), at least 1 for the last layer but where rows are in groups."""
    rng = np.random.default_rng(3)
    together = rng.normal(size=(ROWS, 1))
    alone = rng.normal(size=(ROWS, 3))
    last = np.array([0.0, 0.0, 1.0])
    if kind == "heavy tails":
        return SIZES * np.exp(1.2 * together + 0.8 * alone) + last
    if kind == "groups":
        return (SIZES * np.exp(alone[:25]))[rng.integers(25, size=ROWS)]
    if kind == "dead units":
        return SIZES * np.exp(0.5 * together + 0.3 * alone) * (rng.random((ROWS, 3)) < 0.6) + last
    return SIZES * np.exp(0.5 * together + 0.3 * alone) + last


@cache
def few_of(kind):
    return row_quadrature(rows_of(kind))


def at_all_scales(alpha, count=300):
    """log t from 40 below to 20 above the value of the median row; c up to the corners."""
    rng = np.random.default_rng(4)
    c = torch.softmax(torch.from_numpy(5.0 * rng.normal(size=(count, 3))), -1)
    middle = torch.from_numpy(np.median(alpha @ c.numpy().T, axis=0))
    return c, torch.from_numpy(np.exp(rng.uniform(-40.0, 20.0, count))) / middle


@pytest.mark.parametrize(
    "kind",
    [
        "as networks have",
        "dead units",
        pytest.param("heavy tails", marks=pytest.mark.slow),
        pytest.param("groups", marks=pytest.mark.slow),
    ],
)
def test_distance_and_slopes_by_few_rows_are_those_by_all(kind):
    """Distances to 1e-4; slopes by log t and log a_l to 1e-4 of 1 + lam d."""
    alpha = rows_of(kind)
    weights, nodes = few_of(kind)
    assert len(weights) < ROWS / 5 and (weights > 0).all() and nodes.shape == (len(weights), 3)
    c, t = at_all_scales(alpha)
    exact = point_estimate_terms(torch.from_numpy(alpha), c)
    condensed_terms = type(exact)(torch.from_numpy(weights), c @ torch.from_numpy(nodes).T)
    far = distance(t, exact)
    torch.testing.assert_close(distance(t, condensed_terms), far, rtol=1e-4, atol=0.0)
    one, other = (log_density_and_gradient(t, terms, lam=1.0) for terms in (exact, condensed_terms))
    by_part = [c * (by @ torch.from_numpy(s)) for by, s in ((one[2], alpha), (other[2], nodes))]
    errors = one[0] - other[0], one[1] - other[1], by_part[0] - by_part[1]
    assert (
        max(
            float((error.reshape(len(t), -1).abs() / (1.0 + far[:, None])).max())
            for error in errors
        )
        < 1e-4
    )


def test_groups_of_equal_rows_are_these_groups():
    weights, nodes = few_of("groups")
    values, counts = np.unique(rows_of("groups"), axis=0, return_counts=True)
    order = np.lexsort(nodes.T[::-1])
    np.testing.assert_array_equal(nodes[order], values)
    np.testing.assert_allclose(weights[order], counts / ROWS, rtol=1e-8)


def test_few_rows_are_left_as_they_are_and_many_become_few():
    alpha = torch.from_numpy(rows_of("as networks have"))
    prior = point_estimate_scales(alpha[:MANY_ROWS], noise_b=0.3)
    assert condensed(prior) is prior
    many = point_estimate_scales(alpha[: MANY_ROWS + 1], lam=0.7, noise_b=0.3, c0=2.0)
    weighted = condensed(many)
    assert weighted.slopes.shape[0] < 500 and (weighted.lam, weighted.noise_b, weighted.c0) == (
        0.7,
        0.3,
        2.0,
    )
    state = many.draw(100, generator=torch.Generator().manual_seed(0))
    for a, b in zip(
        weighted.log_density_and_gradient(state), many.log_density_and_gradient(state), strict=True
    ):
        torch.testing.assert_close(a, b, rtol=0.0, atol=3e-4)


def test_gradient_by_few_rows_is_that_of_the_density_by_few_rows():
    weights, slopes = (torch.from_numpy(values) for values in few_of("heavy tails"))
    weighted = PointEstimateScales(slopes, weights, 1.0, 0.3)
    state = weighted.draw(40, generator=torch.Generator().manual_seed(1)).requires_grad_()
    (expected,) = torch.autograd.grad(weighted.log_density(state).sum(), state)
    torch.testing.assert_close(
        weighted.log_density_and_gradient(state.detach())[1], expected, rtol=1e-9, atol=1e-9
    )


def test_rows_of_a_layer_without_slopes():
    alpha = rows_of("as networks have") * np.array([0.0, 1.0, 1.0])
    weights, nodes = row_quadrature(alpha)
    assert (nodes[:, 0] == 0).all() and weights @ nodes == pytest.approx(alpha.mean(0), rel=1e-5)


@pytest.mark.parametrize(("value", "layers"), [(0.7, 1), (1.0, 2), (1e4, 4)])
def test_rows_that_are_all_equal_stand_once(value: float, layers: int):
    weights, nodes = row_quadrature(np.full((ROWS, layers), value))
    assert nodes.tolist() == [[value] * layers] and weights == pytest.approx([1.0], rel=1e-9)

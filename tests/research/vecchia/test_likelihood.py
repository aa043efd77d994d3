"""The Vecchia likelihood against differences of dense inverses, finite differences and the dense
normal density.
"""

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
import torch

from bandgap.foundation.errors import InputError
from bandgap.research.vecchia import likelihood
from bandgap.research.vecchia.batched import BatchedSites
from bandgap.research.vecchia.exact import DenseSites
from bandgap.research.vecchia.likelihood import PartOfSites, build_blocks
from tests.research.vecchia.samples import (
    THETA,
    blocks_of,
    by_differences,
    dense_normal,
    field,
    slopes_by_differences,
)

BETA = np.array([0.5, -0.2])
CPU = torch.device("cpu")
SETS = [(24, 2, 0.5), (30, 5, 1.0), (40, 2, 1.7)]
every_set = pytest.mark.parametrize(
    ("n", "q", "nu"), SETS, ids=["2D exponential", "5D nu 1", "2D nu 1.7"]
)
every_m = pytest.mark.parametrize("m", [5, 0], ids=["m 5", "m n-1"])
NAMES = ("loglik", "p1", "p2", "p3", "p4", "grad_beta", "grad_log_theta", "fisher_log_theta")


def case(n, q, nu, m):
    theta = THETA._replace(nu=nu)
    return blocks_of(n, q, theta, m=m or n - 1), theta


@every_m
@every_set
def test_one_factor_a_site_equals_differences_of_inverses(n, q, nu, m):
    blocks, theta = case(n, q, nu, m)
    terms = blocks.terms(None, theta, BETA, free_nu=True)
    for name, expected in zip(NAMES, by_differences(blocks, theta, BETA, range(n)), strict=False):
        np.testing.assert_allclose(getattr(terms, name), expected, rtol=1e-8)


@every_m
@every_set
def test_gradient_and_fisher_information_equal_differences_of_dense_inverses(n, q, nu, m):
    """Bar 2 of section 11 by formulas that share nothing with the loops: dense inverses, scipy's
    Bessel function.
    """
    blocks, theta = case(n, q, nu, m)
    gradient, fisher = slopes_by_differences(blocks, theta, BETA, range(n))
    *_, p3, p4 = by_differences(blocks, theta, BETA, range(n))
    terms = blocks.terms(None, theta, BETA, free_nu=True)
    np.testing.assert_allclose(terms.grad_beta, p3 - p4 @ BETA, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(terms.grad_log_theta, gradient, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(terms.fisher_log_theta, fisher, rtol=1e-8, atol=1e-8)


@every_set
def test_all_neighbours_give_the_dense_normal_density(n, q, nu):
    theta = THETA._replace(nu=nu)
    points, rows, y = field(n, q, theta, seed=0)
    blocks = build_blocks(points, rows, y, m=n - 1)
    exact = DenseSites(points, rows, y)
    vecchia, dense = (sites.terms(None, theta, BETA, free_nu=True) for sites in (blocks, exact))
    assert vecchia.loglik == pytest.approx(dense_normal(points, rows, y, theta, BETA), rel=1e-10)
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(vecchia, name), getattr(dense, name), rtol=1e-8, atol=1e-9
        )


def test_dense_likelihood_has_no_batches():
    sites = DenseSites(*field(25, 2, THETA, seed=3))
    with pytest.raises(InputError, match="no sum over sites: it has no batches"):
        sites.terms(np.arange(3), THETA, BETA)


@every_m
@every_set
def test_batched_tensors_equal_the_loops(n, q, nu, m):
    blocks, theta = case(n, q, nu, m)
    index = np.arange(0, n, 2)
    for sites in (None, index):
        loops, tensors = (
            s.terms(sites, theta, BETA, free_nu=True) for s in (blocks, BatchedSites(blocks, CPU))
        )
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(tensors, name), getattr(loops, name), rtol=1e-10, atol=1e-11
            )


def test_three_more_dummies_do_not_change_sums():
    blocks, theta = case(30, 2, 1.5, 5)
    padded = replace(blocks, neighbours=np.hstack([blocks.neighbours, np.full((30, 3), -1)]))
    for sites in (lambda b: b, lambda b: BatchedSites(b, CPU)):
        plain, wide = (sites(b).terms(None, theta, BETA, free_nu=True) for b in (blocks, padded))
        for name in NAMES:
            np.testing.assert_allclose(
                getattr(wide, name), getattr(plain, name), rtol=1e-13, atol=1e-13
            )


def test_mean_over_all_batches_is_the_full_sum():
    blocks, theta = case(5, 2, 1.0, 3)
    full = blocks.terms(None, theta, BETA, free_nu=True)
    batches = [
        blocks.terms(np.array(pair), theta, BETA, free_nu=True)
        for pair in combinations(range(5), 2)
    ]
    for name in NAMES:
        mean = np.mean([getattr(batch, name) for batch in batches], axis=0)
        np.testing.assert_allclose(mean, getattr(full, name), rtol=1e-12, atol=1e-12)


def test_equal_points_need_a_jitter_which_is_counted():
    points, rows, y = field(12, 2, THETA, seed=0)
    points[7] = points[3]
    for wrap in (lambda b: b, lambda b: BatchedSites(b, CPU)):
        terms = wrap(build_blocks(points, rows, y, m=11)).terms(
            None, THETA._replace(nu=2.5, tau2=1e-300), BETA
        )
        assert terms.jitters >= 1 and np.isfinite(terms.loglik)


@pytest.mark.parametrize(
    "change", [{"sigma2": 1e308, "tau2": 1e308}, {"sigma2": 1e308, "rho": 1e9}]
)
def test_covariance_that_overflows_has_no_factor(change):
    points, rows, y = field(12, 2, THETA, seed=0)
    with pytest.raises(InputError, match="has no Cholesky factor"):
        DenseSites(points, rows, y).terms(None, THETA._replace(**change), BETA, derivatives=False)


def test_site_gradients_sum_to_the_gradient_with_either_engine():
    blocks, theta = case(30, 5, 1.0, 5)
    terms = blocks.terms(None, theta, BETA, free_nu=True)
    gradients = blocks.site_gradients(theta, BETA, free_nu=True)
    assert gradients.shape == (30, 6)
    np.testing.assert_allclose(
        gradients.sum(axis=0), [*terms.grad_log_theta, *terms.grad_beta], rtol=1e-11
    )
    for site in (0, 3, 17):
        alone = blocks.terms(np.array([site]), theta, BETA, free_nu=True)
        np.testing.assert_allclose(
            30 * gradients[site], [*alone.grad_log_theta, *alone.grad_beta], rtol=1e-11, atol=1e-11
        )
    batched = BatchedSites(blocks, CPU).site_gradients(theta, BETA, free_nu=True)
    np.testing.assert_allclose(batched, gradients, rtol=1e-10, atol=1e-12)


def test_part_of_the_sites_has_scaled_sums():
    blocks, theta = case(24, 2, 0.5, 5)
    places = np.array([2, 5, 11, 20])
    part = PartOfSites(blocks, places)
    terms = part.terms(None, theta, BETA)
    expected = blocks.terms(places, theta, BETA)
    assert (part.n, part.p, terms.loglik) == (24, 2, expected.loglik)
    assert (
        part.terms(np.array([1, 3]), theta, BETA).loglik
        == blocks.terms(places[[1, 3]], theta, BETA).loglik
    )
    np.testing.assert_array_equal(
        part.site_gradients(theta, BETA), blocks.site_gradients(theta, BETA)[places]
    )


@pytest.mark.parametrize("free_nu", [False, True])
def test_sites_on_a_grid_have_the_terms_of_pairs_one_by_one(free_nu, monkeypatch):
    """Pairs of a grid share few distances, whose correlations are computed once."""
    points = np.stack(np.meshgrid(np.arange(15.0), np.arange(15.0)), -1).reshape(-1, 2)
    rng = np.random.default_rng(0)
    data = (points, rng.normal(size=(225, 2)), rng.normal(size=225))
    on_grid = build_blocks(*data, m=10)
    assert 0 < on_grid.distinct[0].size < 200
    monkeypatch.setattr(likelihood, "SHARING", math.inf)
    one_by_one = build_blocks(*data, m=10)
    assert not one_by_one.distinct[0].size
    theta = THETA._replace(nu=0.8)
    for index in (None, np.array([3, 40, 200])):
        ours, theirs = (
            blocks.terms(index, theta, BETA, free_nu=free_nu) for blocks in (on_grid, one_by_one)
        )
        for name in NAMES:
            np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-12)

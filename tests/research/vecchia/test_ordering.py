"""The max-min order and the nearest earlier neighbours against plain loops."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bandgap.research.vecchia.ordering import earlier_neighbours, nearest, site_order


def plain_order(points):
    distances = cdist(points, points)
    order = [int(np.linalg.norm(points - points.mean(0), axis=1).argmin())]
    while len(order) < len(points):
        gap = distances[:, order].min(1)
        gap[order] = -1
        order.append(int(gap.argmax()))
    return order


@pytest.mark.parametrize("q", [1, 2, 6])
def test_every_site_is_the_farthest_from_all_before_it(q):
    points = np.random.default_rng(q).random((60, q))
    assert site_order(points).tolist() == plain_order(points)


def test_many_sites_have_a_random_order_that_depends_on_the_seed():
    points = np.zeros((20_001, 1))
    first, second, other = (site_order(points, seed=seed) for seed in (0, 0, 1))
    assert (first == second).all() and (first != other).any()
    assert (np.sort(first) == np.arange(20_001)).all()


@pytest.mark.parametrize(
    ("n", "q"), [(40, 2), (3000, 2), (700, 8)], ids=["few", "by a tree", "many dimensions"]
)
def test_neighbours_are_the_nearest_earlier_sites(n, q):
    points = np.random.default_rng(n).random((n, q))
    neighbours = earlier_neighbours(points, 7)
    for site in [0, 1, 5, 7, 8, n // 2, n - 1]:
        expected = np.argsort(np.linalg.norm(points[:site] - points[site], axis=1), kind="stable")[
            :7
        ]
        assert neighbours[site, : len(expected)].tolist() == expected.tolist()
        assert (neighbours[site, len(expected) :] == -1).all()


@pytest.mark.parametrize("q", [2, 7])
def test_nearest_observed_points_are_found(q):
    rng = np.random.default_rng(3)
    points = rng.random((300, q))
    new = rng.random((600, q))
    expected = np.sort(np.argsort(cdist(new, points), axis=1)[:, :9], axis=1)
    assert (nearest(points, new, 9) == expected).all()
    assert nearest(points[:4], new, 9).shape == (600, 4)

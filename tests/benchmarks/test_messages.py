"""Tables 3.1 and 3.2 of the thesis: distances of messages from draws, and layers at zero."""

import numpy as np
import pytest

from benchmarks.messages import (
    TABLE_3_1,
    TABLE_3_2,
    message_distances,
    run_shares,
    squared_distance,
)
from tests.benchmarks.test_uci import folder  # noqa: F401 - a fixture


def direct(a, b):
    """The biased estimate from all pairs."""

    def mean(x, y):
        return np.exp(-((x[:, None] - y) ** 2)).mean()

    return mean(a, a) + mean(b, b) - 2.0 * mean(a, b)


@pytest.mark.parametrize("shift", [0.0, 0.3, 40.0])
def test_distance_on_the_grid_agrees_with_all_pairs(shift):
    rng = np.random.default_rng(0)
    a = np.maximum(rng.normal(size=700), 0.0)
    b = shift + 1.5 * rng.normal(size=500)
    assert squared_distance(a, b) == pytest.approx(direct(a, b), rel=1e-5, abs=1e-9)


def test_distances_agree_with_the_thesis_within_sampling_noise():
    """Tolerances are four relative sds: 5 % for PBP, 8 % for SSPBP, 20 % with 0.2 % zeros."""
    for k, (row, printed) in enumerate(zip(message_distances(), TABLE_3_1.values(), strict=True)):
        zeros, _, pbp, sspbp = printed
        assert row.zeros_percent == pytest.approx(zeros, abs=4 * 100 * np.sqrt(0.25 / 10_000))
        wide = 0.8 if k == 3 else 0.2
        assert row.pbp == pytest.approx(pbp, rel=wide) and row.sspbp == pytest.approx(
            sspbp, rel=max(wide, 0.32)
        )
        assert (row.sspbp < row.pbp) == (k != 3)  # With few zeros a normal is better.
        assert row.same < 0.1 * max(row.pbp, row.sspbp)


def test_only_narrow_networks_have_layers_at_zero(folder):  # noqa: F811
    """Networks of 5 units are sometimes at zero, networks of 50 units never."""
    rows = list(run_shares(folder, sets=("yacht",), passes=2))
    assert [row.hidden for row in rows] == list(TABLE_3_2)
    for row in rows:
        assert len(row.shares) == len(row.hidden)
        assert all(0.5 < share <= 1.0 for share in row.shares)
        assert (min(row.shares) < 1.0 - 1e-4) == (row.hidden[0] == 5)

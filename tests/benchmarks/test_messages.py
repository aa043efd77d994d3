"""Tables 3.1 and 3.2 of the thesis: distances of messages to draws, and how often layers are off."""

import numpy as np
import pytest

from bandgap.foundation.errors import ConfigError, InputError
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
def test_distance_on_the_grid_is_that_of_all_pairs(shift):
    rng = np.random.default_rng(0)
    a, b = np.maximum(rng.normal(size=700), 0.0), shift + 1.5 * rng.normal(size=500)
    assert squared_distance(a, b) == pytest.approx(direct(a, b), rel=1e-5, abs=1e-9)


def test_distances_are_those_of_the_thesis_within_sampling_noise():
    """Relative sd 5 % of PBP, 8 % of SSPBP, 20 % in the row of 0.2 % zeros: four of them each."""
    for k, (row, printed) in enumerate(zip(message_distances(), TABLE_3_1.values(), strict=True)):
        zeros, _, pbp, sspbp = printed
        assert row.zeros_percent == pytest.approx(zeros, abs=4 * 100 * np.sqrt(0.25 / 10_000))
        wide = 0.8 if k == 3 else 0.2
        assert row.pbp == pytest.approx(pbp, rel=wide) and row.sspbp == pytest.approx(
            sspbp, rel=max(wide, 0.32)
        )
        assert (row.sspbp < row.pbp) == (k != 3)  # with few zeros a plain normal is the better one
        assert row.same < 0.1 * max(row.pbp, row.sspbp)


def test_share_of_the_output_is_the_product_over_its_units(folder):  # noqa: F811
    """Narrow nets are off now and then, nets of 50 units never; every layer behind the first has a share."""
    found = list(run_shares(folder, sets=("yacht",), passes=2))
    assert [row.hidden for row in found] == list(TABLE_3_2)
    for row in found:
        assert len(row.shares) == len(row.hidden) and all(
            0.5 < share <= 1.0 for share in row.shares
        )
        assert (min(row.shares) < 1.0 - 1e-4) == (row.hidden[0] == 5)


def test_samples_that_have_no_distance_are_refused():
    with pytest.raises(InputError, match="squared distance of samples of 0 and 3 numbers"):
        squared_distance(np.empty(0), np.ones(3))
    with pytest.raises(ConfigError, match="1 draws. Accepted: 2 or more; the thesis has 10,000"):
        message_distances(draws=1)

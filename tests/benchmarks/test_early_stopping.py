"""The comparison of early stopping: errors on rows that were not used, and paired differences."""

import math

import numpy as np
import pytest

from bandgap.networks.training import TrainingConfig
from benchmarks.early_stopping import (
    OURS,
    PAPER,
    paired_difference,
    train_and_test,
)


def test_the_error_is_that_of_the_second_part_in_eV():
    """Gaps of the second part are 10 eV higher than the rule that the first part follows."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 3))
    gaps = 4.0 + x[:, 0]
    gaps[200:] += 10.0
    parts = np.arange(200), np.arange(200, 240)
    row = train_and_test(x, gaps, parts, TrainingConfig(max_epochs=30), seed=0)
    assert row["rmse_eV"] == pytest.approx(10.0, abs=0.5)
    assert 1 <= row["epochs"] <= 30


def test_the_difference_is_paired_over_splits():
    sides = {
        OURS: [{"rmse_eV": 1.0}, {"rmse_eV": 5.0}],
        PAPER: [{"rmse_eV": 1.5}, {"rmse_eV": 5.7}],
    }
    difference, error = paired_difference(sides, PAPER)
    assert difference == pytest.approx(0.6) and error == pytest.approx(0.1)
    alone = {name: rows[:1] for name, rows in sides.items()}
    assert math.isnan(paired_difference(alone, PAPER)[1])

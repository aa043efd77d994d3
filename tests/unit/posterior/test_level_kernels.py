"""Kernels of electron levels: in units of the training rows, positive semidefinite, also where a
level never varies.
"""

import numpy as np
import pytest

from bandgap.posterior.feature_gp import LevelKernels


@pytest.fixture
def levels():
    return np.random.default_rng(3).normal([3.0, -9.0, -6.0], [0.8, 0.3, 0.5], size=(30, 3))


def test_kernels_are_in_units_of_the_training_rows(levels):
    linear, smooth = LevelKernels.of(levels).grams(levels, levels)
    assert np.mean(np.diag(linear)) == pytest.approx(1.0) and np.allclose(np.diag(smooth), 1.0)
    assert np.median(smooth[np.triu_indices(30, 1)]) == pytest.approx(np.exp(-0.5))
    for gram in (linear, smooth):
        assert np.linalg.eigvalsh(gram).min() > -1e-9


def test_diagonals_are_those_of_the_grams(levels):
    kernels = LevelKernels.of(levels)
    new = levels[:7] + 0.4
    for diagonal, gram in zip(kernels.diagonals(new), kernels.grams(new, new), strict=True):
        np.testing.assert_allclose(diagonal, np.diag(gram))


def test_shift_and_unit_of_a_level_change_nothing(levels):
    for gram, other in zip(
        LevelKernels.of(levels).grams(levels, levels),
        LevelKernels.of(10 * levels - 5).grams(10 * levels - 5, 10 * levels - 5),
        strict=True,
    ):
        np.testing.assert_allclose(gram, other)


def test_line_is_straight_among_the_training_rows_and_constant_far_outside(levels):
    steps = np.array([0.1, 0.2, 30.0, 60.0])[:, None]
    at = levels.mean(0) + steps * levels.std(0)
    near, twice, far, farther = LevelKernels.of(levels).grams(at, at)[0][0]
    assert twice == pytest.approx(2 * near, rel=0.01)
    assert farther == pytest.approx(far, rel=0.01) and far < 50 * near


def test_levels_that_never_vary_leave_finite_kernels():
    same = np.ones((6, 3))
    for gram in LevelKernels.of(same).grams(same, same):
        assert np.isfinite(gram).all()

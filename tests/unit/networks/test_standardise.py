"""Standardising: whose statistics are used, constant features, and the floor of the scale."""

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from bandgap.networks.standardise import (
    FLOOR,
    Standardiser,
    feature_statistics,
    fit_standardiser,
    varies,
)

RNG = np.random.default_rng(0)
X = RNG.normal([1.0, -2.0, 5.0], [1.0, 0.5, 2.0], size=(200, 3))
Y = RNG.normal(4.0, 1.5, size=200)


def test_features_have_mean_zero_and_the_scale_of_the_floor_rule():
    standardiser = fit_standardiser(X, Y)
    z = standardiser.features(X)
    sd = X.std(axis=0)
    expected = sd / np.sqrt(sd**2 + FLOOR**2 * np.mean(sd**2))
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(z.std(axis=0), expected)
    assert (z.std(axis=0) < 1).all()


def test_features_of_new_rows_are_scaled_with_the_statistics_of_the_fitted_rows():
    standardiser = fit_standardiser(X, Y)
    new = X[:4] + 100.0
    np.testing.assert_allclose(
        standardiser.features(new) - standardiser.features(X[:4]),
        100 / standardiser.x_scale * np.ones((4, 1)),
    )


def test_with_features_of_a_target_changes_features_and_keeps_gaps():
    target = 3 * X + 7
    source = fit_standardiser(X, Y)
    moved = source.with_features_of(target)
    np.testing.assert_allclose(moved.features(target), source.features(X), atol=1e-12)
    assert (moved.y_mean_eV, moved.y_sd_eV) == (source.y_mean_eV, source.y_sd_eV)


def test_mapped_gaps_change_offset_and_slope_and_keep_features():
    source = fit_standardiser(X, Y)
    moved = source.with_gaps_mapped(slope=0.5, intercept_eV=-1.0)
    np.testing.assert_allclose(moved.gaps(0.5 * Y - 1.0), source.gaps(Y), atol=1e-12)
    assert (moved.features(X) == source.features(X)).all()


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_constant_feature_has_unit_scale(constant):
    """Also with rounding in single precision: one unit in the last place, in every other row."""
    x = np.hstack([X, np.full((200, 1), constant)]).astype(np.float32)
    if constant == 0.1:
        x[::2, 3] = np.nextafter(x[0, 3], np.float32(1.0))
    mean, scale = feature_statistics(x)
    assert scale[3] == 1.0
    assert mean[3] == pytest.approx(constant, rel=1e-6)
    assert varies(x).tolist() == [True, True, True, False]


def test_floor_bounds_a_feature_that_one_training_row_contains():
    x = np.hstack([X, np.zeros((200, 1))])
    x[17, 3] = 1e-3
    _, scale = feature_statistics(x)
    assert scale[3] == pytest.approx(FLOOR * np.sqrt(np.mean(x.std(axis=0) ** 2)), rel=1e-4)


def test_gaps_are_recovered_from_standardised_gaps():
    standardiser = fit_standardiser(X, Y)
    z = standardiser.gaps(Y)
    assert (z.mean(), z.std()) == (pytest.approx(0, abs=1e-12), pytest.approx(1))
    np.testing.assert_allclose(standardiser.gaps_eV(z), Y)


def test_constant_gaps_are_refused():
    with pytest.raises(
        InputError,
        match="all 200 gaps of the source set are 2.5 eV. A source needs gaps that differ",
    ):
        fit_standardiser(X, np.full(200, 2.5))


def test_power_keeps_the_sign_and_is_applied_before_scaling():
    x = np.array([[-2.0, 3.0], [1.0, 0.5]])
    scale = Standardiser(np.array([1.0, 0.0]), np.array([2.0, 1.0]), 0.0, 1.0, 2.0)
    np.testing.assert_allclose(scale.features(x), [[-2.5, 9.0], [0.0, 0.25]])
    mean, sd = feature_statistics(np.array([[-4.0, 9.0], [1.0, 0.25]]))
    of_target = scale.for_target(x, statistics="target")
    np.testing.assert_allclose((of_target.x_mean, of_target.x_scale), (mean, sd))
    mapped = of_target.with_gaps_mapped(slope=2.0, intercept_eV=1.0)
    assert (mapped.power, mapped.y_mean_eV, mapped.y_sd_eV) == (2.0, 1.0, 2.0)


@pytest.mark.parametrize(("n", "p"), [(4096, 3), (4097, 1), (10_001, 2), (9_000, 7), (5_000, 60)])
def test_statistics_of_many_rows_are_bitwise_those_of_numpy(n: int, p: int) -> None:
    x = (np.random.default_rng(p).normal(size=(n, p)) * 3 + 1).astype(np.float32)
    before = x.copy()
    wide = x.astype(np.float64)
    mean, scale = feature_statistics(x)
    sd = wide.std(axis=0)
    assert mean.tobytes() == wide.mean(axis=0).tobytes()
    assert scale.tobytes() == np.hypot(sd, FLOOR * np.sqrt(np.mean(sd**2))).tobytes()
    feature_statistics(wide)
    assert np.array_equal(x, before)
    assert np.array_equal(wide, before)

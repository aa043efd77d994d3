"""P-values of flows and neighbour distances: valid on rows like the known ones, small on others."""

import numpy as np
import pytest
from scipy.stats import kstest

from bandgap.foundation.errors import ArtifactError, InputError
from bandgap.inference.flows import unusualness
from bandgap.inference.flows.fitting import FlowTraining
from bandgap.inference.flows.unusualness import (
    Unusualness,
    fit_unusualness,
    surprise,
)

N_KNOWN = 300


def rows(n: int, *, seed: int) -> np.ndarray:
    """Rows of 12 numbers on a curved surface of five dimensions, with scatter."""
    random = np.random.default_rng(seed)
    hidden = random.normal(size=(n, 5))
    mixing = np.random.default_rng(99).normal(size=(10, 12))
    curved = np.concatenate([hidden, np.tanh(hidden) ** 2], axis=1)
    return curved @ mixing + 0.1 * random.normal(size=(n, 12))


@pytest.fixture(scope="module")
def fitted() -> Unusualness:
    return fit_unusualness(rows(N_KNOWN, seed=0), training=FlowTraining(max_epochs=40))


@pytest.fixture(scope="module")
def new_rows() -> np.ndarray:
    return rows(1_000, seed=1)


def test_p_values_of_rows_like_the_known_ones_hold_their_level(
    fitted: Unusualness, new_rows: np.ndarray
) -> None:
    """1,000 rows among 300: a share of 0.05 has a standard error of 0.014, 0.1 one of 0.02."""
    p = fitted.p_values(new_rows)
    assert 0.01 < np.mean(p.p <= 0.05) < 0.1
    for part in (p.density, p.neighbours, p.distance, p.residual):
        assert np.mean(part <= 0.1) < 0.17
    assert kstest(p.neighbours, "uniform").pvalue > 1e-3


def test_rows_off_the_surface_and_rows_far_away_have_small_p_values(
    fitted: Unusualness, new_rows: np.ndarray
) -> None:
    random = np.random.default_rng(2)
    off_surface = new_rows[:200] + 4.0 * random.normal(size=(200, 12))
    far = new_rows[:200] + 50.0
    assert np.mean(fitted.p_values(off_surface).p <= 0.05) > 0.9
    assert np.all(fitted.p_values(far).p == 1 / (N_KNOWN + 1))


def test_row_in_the_centre_is_too_likely_and_not_typical() -> None:
    """No row of a thick shell lies near its centre, although the centre is near its rows' mean."""
    random = np.random.default_rng(3)
    directions = random.normal(size=(400, 8))
    shell = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    shell *= random.normal(5.0, 0.1, size=(400, 1))
    fit = fit_unusualness(shell, training=FlowTraining(max_epochs=40))
    assert fit.p_values(np.zeros((1, 8))).p[0] <= 0.05


def test_row_with_familiar_features_and_a_new_descriptor_has_a_small_p_value() -> None:
    """The descriptor has a feature that no known row has, which the features do not show."""
    known_rows = rows(N_KNOWN, seed=0)
    known_descriptors = np.column_stack([10.0 + known_rows, np.zeros(N_KNOWN)])
    fit = fit_unusualness(known_rows, known_descriptors, training=FlowTraining(max_epochs=3))
    new = rows(20, seed=4)
    new_descriptors = np.column_stack([10.0 + new, np.full(20, 3.0)])
    p = fit.p_values(new, new_descriptors)
    np.testing.assert_allclose(p.p, 1 / (N_KNOWN + 1))
    np.testing.assert_allclose(p.residual, 1 / (N_KNOWN + 1))
    assert np.median(p.neighbours) > 0.1


def test_descriptors_of_another_width_or_number_are_refused(fitted: Unusualness) -> None:
    with pytest.raises(InputError, match=r"descriptors have shape \(2, 11\)"):
        fitted.p_values(np.zeros((2, 12)), np.zeros((2, 11)))
    with pytest.raises(InputError, match="300 rows of finite numbers"):
        fit_unusualness(rows(N_KNOWN, seed=0), np.zeros((299, 5)))


def test_range_over_the_flows_contains_a_value_near_the_p_value(
    fitted: Unusualness, new_rows: np.ndarray
) -> None:
    p = fitted.p_values(new_rows[:50])
    assert np.all(p.lowest <= p.highest)
    assert np.all((p.lowest > 0) & (p.highest <= 1))


def test_rows_with_nan_have_no_p_value_and_do_not_change_the_others(
    fitted: Unusualness, new_rows: np.ndarray
) -> None:
    some = new_rows[:6].copy()
    some[2, 5] = np.nan
    p = fitted.p_values(some).p
    assert np.isnan(p[2])
    np.testing.assert_allclose(np.delete(p, 2), fitted.p_values(np.delete(some, 2, axis=0)).p)


def test_order_and_copies_of_known_rows_do_not_matter(new_rows: np.ndarray) -> None:
    known_rows = rows(N_KNOWN, seed=0)
    training = FlowTraining(max_epochs=3)
    expected = fit_unusualness(known_rows, training=training).p_values(new_rows[:20]).p
    doubled = np.concatenate([known_rows[::-1], known_rows[:40]])
    actual = fit_unusualness(doubled, training=training).p_values(new_rows[:20]).p
    np.testing.assert_array_equal(actual, expected)


def test_stored_arrays_give_the_same_p_values(fitted: Unusualness, new_rows: np.ndarray) -> None:
    again = Unusualness.from_arrays(fitted.to_arrays())
    np.testing.assert_array_equal(again.p_values(new_rows[:30]).p, fitted.p_values(new_rows[:30]).p)
    arrays = fitted.to_arrays()
    del arrays["rotations"]
    with pytest.raises(ArtifactError, match="Train the model again"):
        Unusualness.from_arrays(arrays)


def test_outputs_of_rectified_units_are_refused() -> None:
    with pytest.raises(InputError, match="rectified units"):
        fit_unusualness(np.maximum(rows(N_KNOWN, seed=0), 0.0))


def test_fewer_rows_than_a_small_p_value_needs_are_refused() -> None:
    known_rows = rows(unusualness.MIN_ROWS - 1, seed=0)
    with pytest.raises(InputError, match="199 different structures are too few"):
        fit_unusualness(np.concatenate([known_rows, known_rows]))


def test_features_of_another_width_are_refused(fitted: Unusualness) -> None:
    with pytest.raises(InputError, match=r"Accepted: \(n, 12\)"):
        fitted.p_values(np.zeros((2, 11)))


def test_score_that_most_known_rows_have_is_no_surprise() -> None:
    """Residuals of descriptors with few features are all zero."""
    zeros = np.zeros(60)
    np.testing.assert_allclose(surprise(zeros[:3], zeros), -np.log(1 - 0.5 / 60))
    some = np.where(np.arange(60) < 40, 0.0, np.arange(60.0))
    assert surprise(np.zeros(1), some) < 0.01 < 1 < surprise(np.array([45.0]), some)
    assert (surprise(np.array([1.0]), zeros) > 1e6).all()

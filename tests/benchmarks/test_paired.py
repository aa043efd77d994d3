"""The paired bootstrap: a plain loop, the coverage of its interval, and the file of errors."""

import numpy as np
import pytest

from bandgap.foundation.errors import InputError
from benchmarks.paired import (
    append_errors,
    mean_difference,
    read_errors,
    read_scores,
    rmse_difference,
)


def by_id(errors: np.ndarray) -> dict[str, float]:
    return {f"s{k}": float(error) for k, error in enumerate(errors)}


def test_difference_of_rmse_is_a_mean_over_splits() -> None:
    first = {0: by_id(np.array([3.0, 4.0])), 1: by_id(np.array([1.0, 1.0]))}
    second = {
        0: by_id(np.array([1.0, 1.0])),
        1: by_id(np.array([1.0, 1.0])),
        2: by_id(np.array([9.0, 9.0])),
    }
    result = rmse_difference(first, second)
    assert result.difference_eV == pytest.approx((np.sqrt(12.5) - 1.0) / 2)
    assert result.lower_eV == pytest.approx(1.0)
    assert result.upper_eV == pytest.approx(1.5)


def test_interval_of_one_split_is_that_of_a_plain_loop() -> None:
    rng = np.random.default_rng(3)
    one = rng.normal(0, 1.0, 40)
    other = rng.normal(0, 1.2, 40)
    differences = []
    for _ in range(20_000):
        rows = rng.integers(40, size=40)
        differences.append(np.sqrt(np.mean(one[rows] ** 2)) - np.sqrt(np.mean(other[rows] ** 2)))
    result = rmse_difference({0: by_id(one)}, {0: by_id(other)}, resamples=20_000)
    np.testing.assert_allclose(
        [result.lower_eV, result.upper_eV], np.quantile(differences, [0.025, 0.975]), atol=0.02
    )


def test_structures_predicted_by_one_method_only_are_left_out() -> None:
    first = {0: {"a": 1.0, "b": 2.0, "c": 50.0}}
    second = {0: {"b": 2.0, "a": 1.0, "d": 70.0}}
    assert rmse_difference(first, second).difference_eV == 0.0
    with pytest.raises(InputError, match="tested on no common structures"):
        rmse_difference(first, {1: second[0]})


def test_difference_of_scores_is_that_of_their_means() -> None:
    first = {0: by_id(np.array([0.1, 0.3])), 1: by_id(np.array([0.2, 0.2]))}
    second = {0: by_id(np.array([0.1, 0.1]))}
    result = mean_difference(first, second)
    assert result.difference_eV == pytest.approx(0.1)
    assert (result.lower_eV, result.upper_eV) == (pytest.approx(0.0), pytest.approx(0.2))


def test_errors_and_scores_are_written_and_read_again(tmp_path) -> None:
    path = tmp_path / "errors.jsonl"
    assert read_errors(path) == read_scores(path) == {}
    append_errors(path, "gaussian_process", 100, 0, {"a": 0.5}, {"a": 0.3})
    append_errors(path, "gaussian_process", 100, 1, {"b": -0.25}, {"b": 0.125})
    assert read_errors(path) == {("gaussian_process", 100): {0: {"a": 0.5}, 1: {"b": -0.25}}}
    assert read_scores(path) == {("gaussian_process", 100): {0: {"a": 0.3}, 1: {"b": 0.125}}}
    path.write_text("[]\n")
    with pytest.raises(InputError, match="line 1: no errors of a fit"):
        read_errors(path)

"""Paired bootstrap of the difference in error between two methods on the same test structures.

B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13. The test
structures of each split are resampled with replacement, the same for both methods, and the
difference of the errors is computed for each resampling.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.paired import resampled_means
from bandgap.foundation.errors import InputError
from bandgap.foundation.json_lines import append_line, read_lines

Floats = NDArray[np.float64]
# Errors or scores in eV, by seed of the split and by id of the structure.
Errors = Mapping[int, Mapping[str, float]]

RESAMPLES = 2_000


@dataclass(frozen=True)
class Difference:
    """A difference of errors or scores in eV, and the interval of 95 % of its resamplings."""

    difference_eV: float
    lower_eV: float
    upper_eV: float


def rmse_difference(
    first: Errors, second: Errors, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return the RMSE of the first minus that of the second, as means over common splits.

    Structures that only one of them predicted are left out.

    Raises
    ------
    InputError
        If no split has two structures in common.
    """
    return _difference(first, second, np.square, np.sqrt, resamples=resamples, seed=seed)


def mean_difference(
    first: Errors, second: Errors, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return the mean score of the first minus that of the second; see `rmse_difference`."""
    return _difference(first, second, np.asarray, np.asarray, resamples=resamples, seed=seed)


def append_errors(
    path: Path,
    method: str,
    n: int,
    seed: int,
    errors_eV: Mapping[str, float],
    crps_eV: Mapping[str, float],
) -> None:
    """Append errors and CRPS of a fit on its test structures, by id, to a file of JSON lines."""
    values = {"errors_eV": dict(errors_eV), "crps_eV": dict(crps_eV)}
    append_line(path, {"method": method, "n": n, "seed": seed, **values})


def read_errors(path: Path) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return errors by method and size, then by seed and id; raise InputError on a bad line."""
    return _by_fit(path, "errors_eV")


def read_scores(path: Path) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return the CRPS of a file; see `read_errors`."""
    return _by_fit(path, "crps_eV")


def _by_fit(path: Path, name: str) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    errors_by_fit: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    for values in read_lines(path, _line_of_fit, what="errors of a fit"):
        by_seed = errors_by_fit.setdefault((values["method"], values["n"]), {})
        by_seed[values["seed"]] = values[name]
    return errors_by_fit


def _line_of_fit(values: dict[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in ("method", "n", "seed", "errors_eV", "crps_eV")}


def _difference(
    first: Errors,
    second: Errors,
    loss: Callable[[Floats], Floats],
    figure: Callable[[Floats], Floats],
    *,
    resamples: int,
    seed: int,
) -> Difference:
    """Return the difference of `figure` of the mean `loss`, with its interval."""
    splits = [_common(first[key], second[key]) for key in sorted(set(first) & set(second))]
    if not splits or min(len(one) for one, _ in splits) < 2:
        raise InputError(
            "The two methods were tested on no common structures. Compare them on the same splits."
        )
    generator = np.random.default_rng(seed)
    difference = 0.0
    resampled = np.zeros(resamples)
    for one, other in splits:
        losses = loss(np.stack([one, other], axis=1))
        difference += _first_minus_second(figure(losses.mean(axis=0))).item() / len(splits)
        figures = figure(resampled_means(losses, resamples, generator))
        resampled += _first_minus_second(figures) / len(splits)
    lower, upper = np.quantile(resampled, [0.025, 0.975])
    return Difference(difference, float(lower), float(upper))


def _common(first: Mapping[str, float], second: Mapping[str, float]) -> Sequence[Floats]:
    ids = sorted(set(first) & set(second))
    return [
        np.array([errors[name] for name in ids], dtype=np.float64) for errors in (first, second)
    ]


def _first_minus_second(figures: Floats) -> Floats:
    """Return the difference (...) of figures (..., 2)."""
    return np.asarray(figures[..., 0] - figures[..., 1], dtype=np.float64)

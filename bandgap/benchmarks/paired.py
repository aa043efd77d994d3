"""Whether one method errs less than another: a paired bootstrap over the structures on which both were tested.

B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13: the test structures of every
split are drawn anew with replacement, for both methods alike, and the difference of the errors is taken each time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.evaluation.paired import resampled_means
from bandgap.foundation.errors import InputError
from bandgap.foundation.json_lines import append_line, read_lines

Floats = NDArray[np.float64]
Errors = Mapping[int, Mapping[str, float]]  # eV, by seed of the split and by id of the structure

RESAMPLES = 2_000


@dataclass(frozen=True)
class Difference:
    """A difference of root mean square errors in eV, and the interval that holds 95 % of its resamplings."""

    rmse_eV: float
    lower_eV: float
    upper_eV: float


def rmse_difference(first: Errors, second: Errors, *, resamples: int = RESAMPLES, seed: int = 0) -> Difference:
    """Return the RMSE of the first minus that of the second, means over the splits that both were tested on.

    Structures that only one of them has predicted are left out. Raises InputError where no split has two in common.
    """
    splits = [_common(first[key], second[key]) for key in sorted(set(first) & set(second))]
    if not splits or min(len(one) for one, _ in splits) < 2:
        raise InputError("The two methods were tested on no common structures. Compare them on the same splits.")
    generator = np.random.default_rng(seed)
    found, drawn = 0.0, np.zeros(resamples)
    for one, other in splits:
        squares = np.stack([one**2, other**2], axis=1)
        found += _rmse_of_first_minus_second(squares.mean(axis=0)).item() / len(splits)
        drawn += _rmse_of_first_minus_second(resampled_means(squares, resamples, generator)) / len(splits)
    lower, upper = np.quantile(drawn, [0.025, 0.975])
    return Difference(found, float(lower), float(upper))


def append_errors(path: Path, method: str, n: int, seed: int, errors_eV: Mapping[str, float]) -> None:
    """Add the errors of one fit on its test structures, by id, to a file of JSON lines."""
    append_line(path, {"method": method, "n": n, "seed": seed, "errors_eV": dict(errors_eV)})


def read_errors(path: Path) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return the errors of a file by method and size, then by seed and id; raises InputError on a damaged line."""
    found: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    for who, seed, errors_eV in read_lines(path, _errors_of_line, what="errors of a fit"):
        found.setdefault(who, {})[seed] = errors_eV
    return found


def _errors_of_line(values: dict[str, Any]) -> tuple[tuple[str, int], int, dict[str, float]]:
    return (values["method"], values["n"]), values["seed"], values["errors_eV"]


def _common(first: Mapping[str, float], second: Mapping[str, float]) -> Sequence[Floats]:
    ids = sorted(set(first) & set(second))
    return [np.array([errors[name] for name in ids], dtype=np.float64) for errors in (first, second)]


def _rmse_of_first_minus_second(means: Floats) -> Floats:
    """Return the difference (...) of the roots of mean squares (..., 2)."""
    roots = np.sqrt(means)
    return np.asarray(roots[..., 0] - roots[..., 1], dtype=np.float64)

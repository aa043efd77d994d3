"""Whether one method errs less than another: a paired bootstrap over the structures on which both were tested.

B. Efron and R. J. Tibshirani, An Introduction to the Bootstrap (1993), chapters 8 and 13: the test structures of every
split are drawn anew with replacement, for both methods alike, and the difference of the errors is taken each time.
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
Errors = Mapping[
    int, Mapping[str, float]
]  # eV, by seed of the split and by id of the structure; scores likewise

RESAMPLES = 2_000


@dataclass(frozen=True)
class Difference:
    """A difference of errors or of scores in eV, and the interval that holds 95 % of its resamplings."""

    difference_eV: float
    lower_eV: float
    upper_eV: float


def rmse_difference(
    first: Errors, second: Errors, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return the RMSE of the first minus that of the second, means over the splits that both were tested on.

    Structures that only one of them has predicted are left out. Raises InputError where no split has two in common.
    """
    return _difference(first, second, np.square, np.sqrt, resamples=resamples, seed=seed)


def mean_difference(
    first: Errors, second: Errors, *, resamples: int = RESAMPLES, seed: int = 0
) -> Difference:
    """Return the mean of the first minus that of the second, of scores such as the CRPS, as `rmse_difference` does."""
    return _difference(first, second, np.asarray, np.asarray, resamples=resamples, seed=seed)


def append_errors(
    path: Path,
    method: str,
    n: int,
    seed: int,
    errors_eV: Mapping[str, float],
    crps_eV: Mapping[str, float],
) -> None:
    """Add the errors of one fit and its CRPS on its test structures, by id, to a file of JSON lines."""
    values = {"errors_eV": dict(errors_eV), "crps_eV": dict(crps_eV)}
    append_line(path, {"method": method, "n": n, "seed": seed, **values})


def read_errors(path: Path) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return the errors of a file by method and size, then by seed and id; raises InputError on a damaged line."""
    return _by_fit(path, "errors_eV")


def read_scores(path: Path) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    """Return the CRPS of a file as `read_errors` does, without fits of an earlier version, which did not keep it."""
    return _by_fit(path, "crps_eV")


def _by_fit(path: Path, name: str) -> dict[tuple[str, int], dict[int, dict[str, float]]]:
    errors_by_fit: dict[tuple[str, int], dict[int, dict[str, float]]] = {}
    for values in read_lines(path, _line_of_fit, what="errors of a fit"):
        if name in values:
            errors_by_fit.setdefault((values["method"], values["n"]), {})[values["seed"]] = values[
                name
            ]
    return errors_by_fit


def _line_of_fit(values: dict[str, Any]) -> dict[str, Any]:
    """Return a line as it is, which has errors at least."""
    return {name: values[name] for name in ("method", "n", "seed", "errors_eV")} | values


def _difference(
    first: Errors,
    second: Errors,
    loss: Callable[[Floats], Floats],
    figure: Callable[[Floats], Floats],
    *,
    resamples: int,
    seed: int,
) -> Difference:
    """Return the difference of a figure of mean losses, which are those of every value, with its interval."""
    splits = [_common(first[key], second[key]) for key in sorted(set(first) & set(second))]
    if not splits or min(len(one) for one, _ in splits) < 2:
        raise InputError(
            "The two methods were tested on no common structures. Compare them on the same splits."
        )
    generator = np.random.default_rng(seed)
    difference, resampled = 0.0, np.zeros(resamples)
    for one, other in splits:
        losses = loss(np.stack([one, other], axis=1))
        difference += _first_minus_second(figure(losses.mean(axis=0))).item() / len(splits)
        resampled += _first_minus_second(
            figure(resampled_means(losses, resamples, generator))
        ) / len(splits)
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

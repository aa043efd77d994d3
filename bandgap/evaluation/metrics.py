"""Errors and proper scores of predicted band gaps.

All functions check lengths, shapes and NaN first.

Scores after Gneiting and Raftery (2007), J. Am. Stat. Assoc. 102, 359-378: CRPS as a difference of
expected distances, and the CRPS of a normal distribution (section 4.2). All figures are in the unit
of `y` except `r2`, coverage and the NLL. Arrays of draws have the index order (draw, structure). A
predictive distribution is the equal-weight mixture of N(means[d], sds[d]^2) over the draws d.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]

_LOG_2PI = float(np.log(2.0 * np.pi))
_STEP = (
    0.5  # grid step in smallest standard deviations: the trapezoidal rule is then exact to rounding
)
_REACH = 8.5  # standard deviations at which a normal distribution function is 0 or 1 to rounding


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the root mean square error.

    >>> rmse([1.0, 2.0], [1.0, 4.0])
    1.4142135623730951
    """
    observed, predicted = _pair(y, mean, names=("y", "mean"))
    return float(np.sqrt(np.mean((observed - predicted) ** 2)))


def mae(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the mean absolute error.

    >>> mae([1.0, 2.0], [1.0, 4.0])
    1.0
    """
    observed, predicted = _pair(y, mean, names=("y", "mean"))
    return float(np.mean(np.abs(observed - predicted)))


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    """Return the explained share of the variance of `y`.

    It is 1 - sum of squared errors / sum of squared deviations. Raises InputError where all `y` are
    equal.

    >>> r2([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])
    0.5
    """
    observed, predicted = _pair(y, mean, names=("y", "mean"))
    total = float(np.sum((observed - observed.mean()) ** 2))
    if total == 0.0:
        raise InputError(
            f"R2 of {observed.size} values that are all {observed[0]:g}: there is no variance to "
            "explain."
        )
    return float(1.0 - np.sum((observed - predicted) ** 2) / total)


def nll_gaussian(y: ArrayLike, mean: ArrayLike, *, sd: ArrayLike) -> float:
    """Return the mean negative log density of `y` under N(mean, sd^2).

    >>> round(nll_gaussian([0.0], [0.0], sd=[1.0]), 6)
    0.918939
    """
    observed, predicted = _pair(y, mean, names=("y", "mean"))
    spread = _positive(_pair(y, sd, names=("y", "sd"))[1], name="sd")
    return float(
        np.mean(0.5 * _LOG_2PI + np.log(spread) + 0.5 * ((observed - predicted) / spread) ** 2)
    )


def nll_mixture(y: ArrayLike, means: ArrayLike, *, sds: ArrayLike) -> float:
    """Return the mean negative log density of `y` (n,) under the mixture over draws.

    `means` has shape (draw, n), `sds` (draw,) or (draw, n).

    >>> round(nll_mixture([0.0], [[-1.0], [1.0]], sds=[1.0, 1.0]), 6)
    1.418939
    """
    observed, centres, spreads = _mixture(y, means, sds)
    log_terms = -0.5 * _LOG_2PI - np.log(spreads) - 0.5 * ((observed - centres) / spreads) ** 2
    return float(np.mean(np.log(centres.shape[0]) - logsumexp(log_terms, axis=0)))


def crps_gaussian(y: ArrayLike, mean: ArrayLike, *, sd: ArrayLike) -> float:
    """Return the mean continuous ranked probability score of N(mean, sd^2); lower is better.

    With u = (y - mean) / sd it is sd * (u (2 Phi(u) - 1) + 2 phi(u) - 1 / sqrt(pi)).

    >>> round(crps_gaussian([0.0], [0.0], sd=[1.0]), 6)
    0.233695
    """
    observed, predicted = _pair(y, mean, names=("y", "mean"))
    spread = _positive(_pair(y, sd, names=("y", "sd"))[1], name="sd")
    return float(
        np.mean(_expected_distance(observed - predicted, spread) - spread / np.sqrt(np.pi))
    )


def crps_mixture(y: ArrayLike, means: ArrayLike, *, sds: ArrayLike) -> float:
    """Return the mean continuous ranked probability score (`crps_mixture_each`).

    `y` has shape (n,), `means` (draw, n), `sds` (draw,) or (draw, n).

    >>> round(crps_mixture([0.0], [[-1.0], [1.0]], sds=[1.0, 1.0]), 6)
    0.359409
    """
    return float(crps_mixture_each(y, means, sds=sds).mean())


def crps_mixture_each(y: ArrayLike, means: ArrayLike, *, sds: ArrayLike) -> Floats:
    """Return the exact continuous ranked probability score of the mixture for every structure.

    It is E|X - y| - E|X - X'| / 2 with X, X' independent draws of the mixture. The first term is a
    sum of expected absolute values of normal variables, the second is `_half_distance`.

    Parameters
    ----------
    y
        Known gaps, (n,).
    means
        Means of the components, (draw, n).
    sds
        Standard deviations of the components, (draw,) or (draw, n).

    Returns
    -------
    Floats
        Scores, (n,), in the unit of `y`.
    """
    observed, centres, spreads = _mixture(y, means, sds)
    scores = np.empty(observed.size)
    for j in range(observed.size):
        centre = centres[:, j]
        spread = spreads[:, j]
        to_observed = _expected_distance(observed[j] - centre, spread).mean()
        scores[j] = to_observed - _half_distance(centre, spread)
    return scores


def _half_distance(centres: Floats, spreads: Floats) -> float:
    """Return E|X - X'| / 2 of two draws of a mixture with components (draw,): the integral of F (1
    - F).

    The trapezoidal rule is exact to rounding here. The spectrum of the integrand falls as exp(-(k
    sd)^2 / 4), with the smallest sd. With a step h = sd / 2, the first missing term is at k = 2 pi
    / h, where the spectrum is exp(-39). Where the grid would have more points than there are pairs
    for each draw, the sum over pairs is used.
    """
    step = _STEP * spreads.min()
    low = (centres - _REACH * spreads).min()
    high = (centres + _REACH * spreads).max()
    n_points = (high - low) / step
    if n_points > centres.size / 2:
        first, second = np.triu_indices(centres.size, k=1)
        pair_sds = np.hypot(spreads[first], spreads[second])
        pair_sum = _expected_distance(centres[first] - centres[second], pair_sds).sum()
        return float((pair_sum + (spreads / np.sqrt(np.pi)).sum()) / centres.size**2)
    grid = low + step * np.arange(int(n_points) + 2)
    cdf = ndtr((grid[:, None] - centres) / spreads).mean(axis=1)
    return float(step * (cdf * (1.0 - cdf)).sum())


def coverage(y: ArrayLike, lower: ArrayLike, *, upper: ArrayLike) -> float:
    """Return the share of `y` inside [lower, upper], ends included.

    >>> coverage([1.0, 2.0], [0.0, 0.0], upper=[1.5, 1.5])
    0.5
    """
    observed, low = _pair(y, lower, names=("y", "lower"))
    _, high = _pair(y, upper, names=("y", "upper"))
    _ordered(low, high)
    return float(np.mean((observed >= low) & (observed <= high)))


def mean_width(lower: ArrayLike, upper: ArrayLike) -> float:
    """Return the mean full width of the intervals, upper - lower.

    >>> mean_width([0.0, 1.0], [2.0, 4.0])
    2.5
    """
    low, high = _pair(lower, upper, names=("lower", "upper"))
    _ordered(low, high)
    return float(np.mean(high - low))


def miscalibration_area(levels: ArrayLike, coverages: ArrayLike) -> float:
    """Return the area between the curve of coverage against level and the diagonal.

    The area is from 0 (calibrated) to 0.5. The curve is the polygon through (0, 0), the points
    (increasing levels in (0, 1)) and (1, 1).

    >>> miscalibration_area([0.5], [0.5])
    0.0
    """
    level, share = _pair(levels, coverages, names=("levels", "coverages"))
    if np.any(np.diff(level) <= 0) or level[0] <= 0 or level[-1] >= 1:
        raise InputError(
            f"levels must increase strictly inside (0, 1); found {level[0]:g} to {level[-1]:g}."
        )
    x = np.concatenate([[0.0], level, [1.0]])
    gap = np.concatenate([[0.0], share - level, [0.0]])
    left_gap = gap[:-1]
    right_gap = gap[1:]
    size = np.abs(left_gap) + np.abs(right_gap)
    is_crossing = left_gap * right_gap < 0  # two triangles instead of one trapezium
    squares = np.divide(left_gap**2 + right_gap**2, size, out=np.zeros_like(size), where=size > 0)
    return float(np.sum(np.diff(x) * 0.5 * np.where(is_crossing, squares, size)))


def evaluate_gaussian(
    y: ArrayLike,
    mean: ArrayLike,
    *,
    sd: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    level: float = 0.95,
) -> dict[str, float]:
    """Return errors and scores of means and standard deviations (n,), by the names in runs.

    NLL and CRPS are those of a normal distribution. `lower` and `upper` (n,) are the ends of the
    intervals of `level`.
    """
    percent = f"{100 * level:g}"
    return {
        "rmse_eV": rmse(y, mean),
        "mae_eV": mae(y, mean),
        "nll": nll_gaussian(y, mean, sd=sd),
        "crps_eV": crps_gaussian(y, mean, sd=sd),
        f"coverage_{percent}": coverage(y, lower, upper=upper),
        f"width_{percent}_eV": mean_width(lower, upper),
    }


def _expected_distance(shift: Floats, sd: Floats) -> Floats:
    """Return E|Z| of Z ~ N(shift, sd^2)."""
    scaled = shift / sd
    density = np.exp(-0.5 * scaled**2) / np.sqrt(2.0 * np.pi)
    result: Floats = shift * (2.0 * ndtr(scaled) - 1.0) + 2.0 * sd * density
    return result


def _vector(values: ArrayLike, *, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or array.size == 0:
        raise InputError(
            f"{name} has shape {array.shape}. Accepted: one row of at least one number."
        )
    _finite(array, name=name)
    return array


def _finite(array: Floats, *, name: str) -> None:
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place: Any = tuple(int(i) for i in bad[0])
        where = place[0] if len(place) == 1 else place
        raise InputError(
            f"{name} contains {array[place]} at position {where} ({len(bad)} such values of "
            f"{array.size}). Leave out refused or unlabelled structures first."
        )


def _pair(first: ArrayLike, second: ArrayLike, *, names: tuple[str, str]) -> tuple[Floats, Floats]:
    a = _vector(first, name=names[0])
    b = _vector(second, name=names[1])
    if a.size != b.size:
        raise InputError(
            f"len({names[0]})={a.size} but len({names[1]})={b.size}. Give one value for each "
            "structure."
        )
    return a, b


def _mixture(y: ArrayLike, means: ArrayLike, sds: ArrayLike) -> tuple[Floats, Floats, Floats]:
    observed = _vector(y, name="y")
    centres = np.asarray(means, dtype=np.float64)
    spreads = np.asarray(sds, dtype=np.float64)
    if centres.ndim != 2 or centres.shape[0] == 0 or centres.shape[1] != observed.size:
        raise InputError(
            f"means has shape {centres.shape} but len(y)={observed.size}. Accepted: (draw, len(y))."
        )
    if spreads.shape not in (centres.shape[:1], centres.shape):
        raise InputError(
            f"sds has shape {spreads.shape}, means {centres.shape}. Accepted: sds (draw,) or "
            "(draw, n)."
        )
    _finite(centres, name="means")
    _finite(spreads, name="sds")
    _positive(spreads, name="sds")
    full = np.broadcast_to(spreads[:, None], centres.shape) if spreads.ndim == 1 else spreads
    return observed, centres, full


def _positive(array: Floats, *, name: str) -> Floats:
    if np.any(array <= 0):
        raise InputError(
            f"{name} contains {array.min():g}. Accepted: standard deviations above zero."
        )
    return array


def _ordered(lower: Floats, upper: Floats) -> None:
    bad = np.flatnonzero(lower > upper)
    if bad.size:
        i = int(bad[0])
        raise InputError(
            f"lower={lower[i]:g} is above upper={upper[i]:g} at position {i}. Were the two ends "
            "swapped?"
        )

r"""Quantiles of equal-weight mixtures of normals of any widths, by compiled loops: what `smooth_mixtures` leaves.

With the components in the order of their means, n of D of them at or left of x, the distribution function is the
probability p asked for where A = B, with c = n - D p,

    A = sum_(right of x) Phi(z) + max(c, 0),   B = sum_(left of x) Phi(-z) + max(-c, 0),   z = (x - mean) / sd.

Only tails are added, and c is free of rounding, so that a root is exact to the widest sd times the arithmetic's
rounding even in an empty gap between components, where sums of Phi are flat. It is the root of H = log A - log B,
found by Halley's method inside a bracket (Dekker's rule says when to halve instead), and started from the series of
the quantile function at the root before. Far tails are added by their logarithms where they would all be zero.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

CUBED = 1e-4  # of the narrowest sd: a Halley step so short leaves its cube, 1e-12
SMALLEST_EV = 1e-12
LEFT_OUT = 1e-20  # of |c|: what tails that are not added come to at most
VANISHING = 1e-250  # sums less than this are made of logarithms
FAR = 14.0  # z from which the asymptotic series of log Phi(-z) is exact to 1e-9, and its slope to more than is needed
MOST_STEPS = 400
ROOT_2 = math.sqrt(2.0)
ROOT_2PI = math.sqrt(2.0 * math.pi)


def uneven_quantiles(means: Floats, sds: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of mixtures with components (draw, n), to 1e-9 for sds up to 1e5.

    `probabilities` (k,) lie inside (0, 1).
    """
    places = np.argsort(means, axis=0)
    centres, spreads = (np.ascontiguousarray(np.take_along_axis(values, places, axis=0).T) for values in (means, sds))
    order = np.argsort(probabilities)
    wanted = probabilities[order]
    coarse = wanted.astype(np.float32).astype(np.float64)  # so short that its product with a count is exact
    count = len(means)
    whole = np.rint(count * wanted)
    rest = (count * coarse - whole) + count * (wanted - coarse)
    found = np.empty((means.shape[1], wanted.size))
    _fill(centres, spreads, wanted, ndtri(wanted), whole.astype(np.int64), rest, found)
    quantiles = np.empty(found.T.shape)
    quantiles[order] = found.T
    return quantiles


@compiled
def _log_tail(z: float) -> float:
    """Return log Phi(-z), z not below zero."""
    if z < FAR:
        return math.log(0.5 * math.erfc(z / ROOT_2))
    w = 1.0 / (z * z)
    series = w * (-1.0 + w * (3.0 + w * (-15.0 + w * (105.0 - 945.0 * w))))
    return math.log1p(series) - 0.5 * z * z - math.log(z * ROOT_2PI)


@compiled
def _log_sum(means: Floats, sds: Floats, x: float) -> tuple[float, float]:
    """Return the logarithm of the sum of the components' tails towards x, and the size of its slope in x."""
    most = -np.inf
    for d in range(means.size):
        most = max(most, _log_tail(abs(x - means[d]) / sds[d]))
    tails = slope = 0.0
    for d in range(means.size):
        z = abs(x - means[d]) / sds[d]
        log_tail = _log_tail(z)
        tails += math.exp(log_tail - most)
        slope += math.exp(-0.5 * z * z - most) / (sds[d] * ROOT_2PI)
    return most + math.log(tails), slope / tails


@compiled
def _tails(means: Floats, sds: Floats, x: float, farthest: float, sums: Floats) -> None:
    """Write the sum of the tails towards x and the first three derivatives of that of Phi(z) into `sums` (4,).

    Components with z^2 beyond `farthest` are left out.
    """
    s0 = s1 = s2 = s3 = 0.0
    for d in range(means.size):
        inverse = 1.0 / sds[d]
        z = (x - means[d]) * inverse
        square = z * z
        if square > farthest:
            continue
        s0 += math.erfc(abs(z) / ROOT_2)
        e = math.exp(-0.5 * square) * inverse
        s1 += e
        e *= inverse
        s2 -= z * e
        s3 += (square - 1.0) * e * inverse
    sums[0], sums[1], sums[2], sums[3] = 0.5 * s0, s1 / ROOT_2PI, s2 / ROOT_2PI, s3 / ROOT_2PI


@compiled
def _step(means: Floats, sds: Floats, x: float, whole: int, rest: float, sums: Floats) -> tuple[float, float, float]:
    """Return H at x, the step to its root, not finite where there is none, and A - B; `sums` (2, 4) are the tails."""
    left = np.searchsorted(means, x, side="right")
    c = (left - whole) - rest
    farthest = -2.0 * math.log(LEFT_OUT * min(abs(c), 1.0) / means.size) if c != 0.0 else np.inf
    _tails(means[:left], sds[:left], x, farthest, sums[0])
    _tails(means[left:], sds[left:], x, farthest, sums[1])
    above, below = sums[1, 0] + max(c, 0.0), sums[0, 0] + max(-c, 0.0)
    if max(above, below) < VANISHING:
        log_above, rise = _log_sum(means[left:], sds[left:], x)
        log_below, fall = _log_sum(means[:left], sds[:left], x)
        value = log_above - log_below
        return value, -value / (rise + fall), above - below
    value = math.log(above) - math.log(below)
    rise, fall = sums[1, 1] / above, sums[0, 1] / below
    slope = rise + fall
    bend = sums[1, 2] / above - rise * rise + sums[0, 2] / below + fall * fall
    newton = -value / slope
    return value, newton / max(1.0 + 0.5 * newton * bend / slope, 0.5), above - below


@compiled
def _next_root(x: float, sums: Floats, count: int, missing: float) -> float:
    """Return about where the distribution function is larger by `missing` than at x, by the series of its inverse."""
    f, f1, f2 = (sums[0, 1] + sums[1, 1]) / count, (sums[0, 2] + sums[1, 2]) / count, (sums[0, 3] + sums[1, 3]) / count
    u = missing / f
    return float(x + u * (1.0 - u * (0.5 * f1 / f - u * (3.0 * f1 * f1 - f * f2) / (6.0 * f * f))))


@compiled
def _fill(
    means: Floats,
    sds: Floats,
    probabilities: Floats,
    scores: Floats,
    whole: NDArray[np.int64],
    rest: Floats,
    out: Floats,
) -> None:
    """Write the quantiles (k,) of every mixture into `out` (n, k).

    `means` (n, draw) ascend, `sds` (n, draw) stand beside them; `probabilities` (k,) ascend with their normal `scores`,
    and times the number of draws they are `whole` + `rest`.
    """
    n, count = means.shape
    sums = np.empty((2, 4))
    for i in range(n):
        narrow = sds[i].min()
        at, x = np.nan, -np.inf
        reached = 0.0  # the distribution function at `at`, where the sums were made
        for k in range(probabilities.size):
            low, high = np.inf, -np.inf
            for d in range(count):
                own = means[i, d] + scores[k] * sds[i, d]
                low, high = min(low, own), max(high, own)
            low = min(max(low, x), high)
            x = _next_root(at, sums, count, probabilities[k] - reached)
            if not low <= x <= high:
                x = 0.5 * (low + high)
            before = high - low
            for _ in range(MOST_STEPS):
                if high - low <= SMALLEST_EV:
                    break
                value, step, excess = _step(means[i], sds[i], x, whole[k], rest[k], sums)
                at, reached = x, probabilities[k] + excess / count
                if value < 0.0:
                    low = x
                else:
                    high = x
                x += step
                good = low <= x <= high and abs(step) <= 0.5 * before
                if good and abs(step) <= max(CUBED * narrow, SMALLEST_EV):
                    break
                if not good:
                    x = 0.5 * (low + high)
                before = abs(x - at)
            out[i, k] = x

r"""Quantiles of equal-weight mixtures of normals of any widths, by compiled loops.

`smooth_mixtures` is faster but does not cover all mixtures. Let the D components be sorted by their
means, n of them at or left of x. The distribution function equals the probability p where A = B,
with c = n - D p,

    A = sum_(right of x) Phi(z) + max(c, 0),   B = sum_(left of x) Phi(-z) + max(-c, 0),

z = (x - mean) / sd. Only tails are summed, and c has no rounding error. A root is therefore exact
to the widest sd times the machine precision, even in an empty gap between components, where sums of
Phi are flat. It is the root of H = log A - log B, by Halley's method inside a bracket (Dekker's
rule decides when to bisect instead). The start is the Taylor series of the quantile function at the
previous root. Where all tails would underflow, their logarithms are summed.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

CUBED = 1e-4  # in narrowest sds: after a Halley step of this length the error is its cube, 1e-12
SMALLEST_EV = 1e-12
LEFT_OUT = 1e-20  # largest sum of the tails that are left out, in |c|
VANISHING = 1e-250  # smaller sums are computed by logarithms
FAR = 14.0  # z from which the asymptotic series of log Phi(-z) is exact to 1e-9
MOST_STEPS = 400
ROOT_2 = math.sqrt(2.0)
ROOT_2PI = math.sqrt(2.0 * math.pi)


def uneven_quantiles(means: Floats, sds: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of mixtures with components (draw, n), to 1e-9 for sds up to 1e5.

    `probabilities` (k,) are in (0, 1).
    """
    by_mean = np.argsort(means, axis=0)
    centres = np.ascontiguousarray(np.take_along_axis(means, by_mean, axis=0).T)
    spreads = np.ascontiguousarray(np.take_along_axis(sds, by_mean, axis=0).T)
    order = np.argsort(probabilities)
    ascending = probabilities[order]
    # 24 bits: its product with a count is exact.
    coarse = ascending.astype(np.float32).astype(np.float64)
    count = len(means)
    whole_counts = np.rint(count * ascending)
    fraction = (count * coarse - whole_counts) + count * (ascending - coarse)
    sorted_quantiles = np.empty((means.shape[1], ascending.size))
    _fill(
        centres,
        spreads,
        ascending,
        ndtri(ascending),
        whole_counts.astype(np.int64),
        fraction,
        sorted_quantiles,
    )
    quantiles = np.empty(sorted_quantiles.T.shape)
    quantiles[order] = sorted_quantiles.T
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
    """Return the logarithm of the sum of the tails towards x, and the absolute value of its slope
    in x.
    """
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
    """Write the sum of the tails towards x, and three derivatives of the sum of Phi(z), into `sums`
    (4,).

    Components with z^2 above `farthest` are left out.
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
    sums[0] = 0.5 * s0
    sums[1] = s1 / ROOT_2PI
    sums[2] = s2 / ROOT_2PI
    sums[3] = s3 / ROOT_2PI


@compiled
def _step(
    means: Floats, sds: Floats, x: float, whole_count: int, fraction: float, sums: Floats
) -> tuple[float, float, float]:
    """Return H at x, the step to its root (not finite where there is none), and A - B.

    `sums` (2, 4) receives the tails of the components left and right of x.
    """
    n_left = np.searchsorted(means, x, side="right")
    c = (n_left - whole_count) - fraction
    farthest = -2.0 * math.log(LEFT_OUT * min(abs(c), 1.0) / means.size) if c != 0.0 else np.inf
    _tails(means[:n_left], sds[:n_left], x, farthest, sums[0])
    _tails(means[n_left:], sds[n_left:], x, farthest, sums[1])
    above = sums[1, 0] + max(c, 0.0)
    below = sums[0, 0] + max(-c, 0.0)
    if max(above, below) < VANISHING:
        log_above, rise = _log_sum(means[n_left:], sds[n_left:], x)
        log_below, fall = _log_sum(means[:n_left], sds[:n_left], x)
        value = log_above - log_below
        return value, -value / (rise + fall), above - below
    value = math.log(above) - math.log(below)
    rise = sums[1, 1] / above
    fall = sums[0, 1] / below
    slope = rise + fall
    bend = sums[1, 2] / above - rise * rise + sums[0, 2] / below + fall * fall
    newton = -value / slope
    return value, newton / max(1.0 + 0.5 * newton * bend / slope, 0.5), above - below


@compiled
def _next_root(x: float, sums: Floats, count: int, missing: float) -> float:
    """Return an estimate of where the distribution function is larger by `missing` than at x.

    The estimate is the Taylor series of the quantile function.
    """
    f = (sums[0, 1] + sums[1, 1]) / count
    f1 = (sums[0, 2] + sums[1, 2]) / count
    f2 = (sums[0, 3] + sums[1, 3]) / count
    u = missing / f
    return float(x + u * (1.0 - u * (0.5 * f1 / f - u * (3.0 * f1 * f1 - f * f2) / (6.0 * f * f))))


@compiled
def _fill(
    means: Floats,
    sds: Floats,
    probabilities: Floats,
    scores: Floats,
    whole_counts: NDArray[np.int64],
    fraction: Floats,
    out: Floats,
) -> None:
    """Write the quantiles (k,) of every mixture into `out` (n, k).

    `means` (n, draw) are ascending, with their `sds` (n, draw). `probabilities` (k,) are ascending,
    with their normal `scores`. Times the number of draws they are `whole` + `fraction`.
    """
    n, count = means.shape
    sums = np.empty((2, 4))
    for i in range(n):
        narrowest = sds[i].min()
        x = -np.inf
        x_of_sums = np.nan  # where `sums` were computed
        cdf_of_sums = 0.0  # the distribution function there
        for k in range(probabilities.size):
            low = np.inf
            high = -np.inf
            for d in range(count):
                quantile = means[i, d] + scores[k] * sds[i, d]
                low = min(low, quantile)
                high = max(high, quantile)
            low = min(max(low, x), high)
            x = _next_root(x_of_sums, sums, count, probabilities[k] - cdf_of_sums)
            if not low <= x <= high:
                x = 0.5 * (low + high)
            last_move = high - low
            for _ in range(MOST_STEPS):
                if high - low <= SMALLEST_EV:
                    break
                value, step, excess = _step(means[i], sds[i], x, whole_counts[k], fraction[k], sums)
                x_of_sums = x
                cdf_of_sums = probabilities[k] + excess / count
                if value < 0.0:
                    low = x
                else:
                    high = x
                x += step
                is_accepted = low <= x <= high and abs(step) <= 0.5 * last_move
                if is_accepted and abs(step) <= max(CUBED * narrowest, SMALLEST_EV):
                    break
                if not is_accepted:
                    x = 0.5 * (low + high)
                last_move = abs(x - x_of_sums)
            out[i, k] = x

r"""Quantiles of equal-weight mixtures of normals whose components are about as wide as each other, by compiled loops.

The density p and its first three derivatives are sums over components, an exponential each. Between nodes a third of
the narrowest component apart p is the polynomial of degree 7 through these (Hermite interpolation), the distribution
function its integral, and a quantile its root, by Newton's method inside a bracket. The remainder of the interpolation,
h^8 max|p^(8)| / (8! 2^8), is below 1e-9 of the largest density, and what it does to a quantile is below 1e-9 standard
deviations where the density is not small; where it is (a gap between components), or where the nodes would be many, the
mixture is left to `uneven_mixtures`.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]

STEP = 1.0 / 3.0  # of nodes, in standard deviations of the narrowest component
MOST_NODES = 192
LEAST_DENSITY = 1e-4  # of a quantile, times the narrowest standard deviation: where less, rounding is not small
TOLERANCE = 1e-13  # of the distribution function
ANEW = 16  # nodes after which exponentials are computed anew: rounding has grown to 1e-13, and what is 0 stays so
ROOT = 1.0 / np.sqrt(2.0 * np.pi)


def smooth_quantiles(means: Floats, sds: Floats, probabilities: Floats) -> Floats:
    """Return the quantiles (k, n) of mixtures with components (draw, n), a column of NaN for one that is not smooth.

    `probabilities` (k,) lie inside (0, 1).
    """
    found = np.full((means.shape[1], probabilities.size), np.nan)
    if not found.size:
        return found.T
    order = np.argsort(probabilities)
    rows = np.ascontiguousarray(means.T), np.ascontiguousarray(sds.T)
    _fill(*rows, probabilities[order], ndtri(probabilities[order]), found)
    quantiles = np.empty(found.T.shape)
    quantiles[order] = found.T
    return quantiles


@compiled
def _densities(means: Floats, sds: Floats, low: float, h: float, nodes: int, f: Floats, work: Floats) -> None:
    """Write density and three derivatives of one mixture at the nodes into `f` (node, 4); `work` (4, draw) is used.

    From node to node an exponential is that of the node before times its ratio to it, whose own ratio is constant.
    """
    count = means.size
    inverses, e0, ratios, bends = work[0], work[1], work[2], work[3]
    for d in range(count):
        inverses[d] = 1.0 / sds[d]
        bends[d] = np.exp(-((h * inverses[d]) ** 2))
    for g in range(nodes):
        x = low + g * h
        if g % ANEW == 0:
            for d in range(count):
                z, t = (x - means[d]) * inverses[d], h * inverses[d]
                e0[d] = np.exp(-0.5 * z * z) * inverses[d]
                ratios[d] = np.exp(-t * (z + 0.5 * t))
        f0 = f1 = f2 = f3 = 0.0
        for d in range(count):
            inverse = inverses[d]
            z, e = (x - means[d]) * inverse, e0[d]
            f0 += e
            e0[d] = e * ratios[d]
            ratios[d] *= bends[d]
            e *= inverse
            f1 -= z * e
            e *= inverse
            f2 += (z * z - 1.0) * e
            f3 += (3.0 - z * z) * z * e * inverse
        scale = ROOT / count
        f[g, 0], f[g, 1], f[g, 2], f[g, 3] = f0 * scale, f1 * scale, f2 * scale, f3 * scale


@compiled
def _integral(left: Floats, right: Floats, h: float) -> float:
    """Return the mean of the polynomial between two nodes with these densities and derivatives (4,)."""
    ends, slopes = (left[0] + right[0]) / 2.0, (left[1] - right[1]) * 3.0 / 28.0
    bends, thirds = (left[2] + right[2]) / 84.0, (left[3] - right[3]) / 1680.0
    return float(ends + h * (slopes + h * (bends + h * thirds)))


@compiled
def _polynomial(left: Floats, right: Floats, h: float, c: Floats) -> None:
    """Write the coefficients (8,) of the polynomial between two nodes, in parts of the way from one to the other."""
    c[0], c[1], c[2], c[3] = left[0], h * left[1], h**2 * left[2] / 2.0, h**3 * left[3] / 6.0
    r0 = right[0] - (c[0] + c[1] + c[2] + c[3])
    r1 = h * right[1] - (c[1] + 2.0 * c[2] + 3.0 * c[3])
    r2 = h**2 * right[2] / 2.0 - (c[2] + 3.0 * c[3])
    r3 = h**3 * right[3] / 6.0 - c[3]
    c[4] = 35.0 * r0 - 15.0 * r1 + 5.0 * r2 - r3
    c[5] = -84.0 * r0 + 39.0 * r1 - 14.0 * r2 + 3.0 * r3
    c[6] = 70.0 * r0 - 34.0 * r1 + 13.0 * r2 - 3.0 * r3
    c[7] = -20.0 * r0 + 10.0 * r1 - 4.0 * r2 + r3


@compiled
def _roots(
    f: Floats, total: Floats, low: float, h: float, nodes: int, probabilities: Floats, out: Floats, least: float
) -> bool:
    """Write the quantiles (k,) of one mixture; return False where one lies where the density is less than `least`."""
    c, g, made = np.empty(8), 0, -1
    for k in range(probabilities.size):
        while g < nodes - 2 and total[g + 1] < probabilities[k]:
            g += 1
        if made != g:
            _polynomial(f[g], f[g + 1], h, c)
            made = g
        wanted = (probabilities[k] - total[g]) / h
        a, b = 0.0, 1.0
        u = min(max(wanted * h / (total[g + 1] - total[g]), 0.0), 1.0)
        for _ in range(60):
            area, density = 0.0, 0.0
            for m in range(7, -1, -1):
                density = density * u + c[m]
                area = area * u + c[m] / (m + 1.0)
            area = area * u - wanted
            if area < 0.0:
                a = u
            else:
                b = u
            if abs(area) * h < TOLERANCE:
                break
            moved = u - area / density if density > 0.0 else -1.0
            u = moved if a <= moved <= b else 0.5 * (a + b)
        if not density >= least:
            return False
        out[k] = low + (g + u) * h
    return True


@compiled
def _fill(means: Floats, sds: Floats, probabilities: Floats, scores: Floats, out: Floats) -> None:
    """Write the quantiles (k,) of every mixture into `out` (n, k), NaN where it is no smooth one.

    `means` and `sds` are (n, draw), `probabilities` (k,) ascending with their normal `scores` (k,).
    """
    n, count = means.shape
    f, work = np.empty((MOST_NODES, 4)), np.empty((4, count))
    total = np.empty(MOST_NODES)
    for i in range(n):
        narrow, low, high = np.inf, np.inf, -np.inf
        for d in range(count):
            narrow = min(narrow, sds[i, d])
            low = min(low, means[i, d] + scores[0] * sds[i, d])
            high = max(high, means[i, d] + scores[-1] * sds[i, d])
        nodes = int(np.ceil((high - low) / (STEP * narrow))) + 1
        if not 2 <= nodes <= MOST_NODES:
            out[i, :] = np.nan
            continue
        h = (high - low) / (nodes - 1)
        _densities(means[i], sds[i], low, h, nodes, f, work)
        total[0] = 0.0
        for d in range(count):
            total[0] += 0.5 * math.erfc((means[i, d] - low) / (sds[i, d] * np.sqrt(2.0)))
        total[0] /= count
        for g in range(nodes - 1):
            total[g + 1] = total[g] + h * _integral(f[g], f[g + 1], h)
        if not _roots(f, total, low, h, nodes, probabilities, out[i], LEAST_DENSITY / narrow):
            out[i, :] = np.nan

r"""Quantiles of equal-weight mixtures of normals whose components have similar widths, by compiled
loops.

The density p and its first three derivatives are sums over components, with one exponential each.
The distance of two nodes is a third of the narrowest standard deviation. Between two nodes, p is
the polynomial of degree 7 through these values (Hermite interpolation). The distribution function
is its integral, and a quantile is a root, found by Newton's method inside a bracket. The remainder
of the interpolation, h^8 max|p^(8)| / (8! 2^8), is below 1e-9 of the largest density. The error of
a quantile is below 1e-9 standard deviations where the density is not small. Where it is small (a
gap between components), or where there would be too many nodes, `uneven_mixtures` computes the
mixture.
"""

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]

STEP = 1.0 / 3.0  # distance of two nodes, in standard deviations of the narrowest component
MOST_NODES = 192
NODES_PER_QUANTILE = 5  # `uneven_mixtures` takes longer for a quantile than these nodes
# At a quantile, times the narrowest standard deviation: below it, rounding errors are large.
LEAST_DENSITY = 1e-4
TOLERANCE = 1e-13  # on the distribution function
REFRESH_INTERVAL = (
    16  # nodes after which exponentials are recomputed: rounding has then grown to 1e-13
)
ROOT = 1.0 / np.sqrt(2.0 * np.pi)


def smooth_quantiles(means: Floats, sds: Floats, probabilities: Floats, *, n_needed: int) -> Floats:
    """Return the quantiles (k, n) of mixtures with components (draw, n).

    A mixture that cannot be computed here, or faster elsewhere as only `n_needed` of its quantiles
    are needed, has a column of NaN. `probabilities` (k,) are in (0, 1).
    """
    sorted_quantiles = np.full((means.shape[1], probabilities.size), np.nan)
    if not sorted_quantiles.size:
        return sorted_quantiles.T
    order = np.argsort(probabilities)
    ascending = probabilities[order]
    means_by_mixture = np.ascontiguousarray(means.T)
    sds_by_mixture = np.ascontiguousarray(sds.T)
    _fill(
        means_by_mixture,
        sds_by_mixture,
        ascending,
        ndtri(ascending),
        max(MOST_NODES, NODES_PER_QUANTILE * n_needed),
        sorted_quantiles,
    )
    quantiles = np.empty(sorted_quantiles.T.shape)
    quantiles[order] = sorted_quantiles.T
    return quantiles


@compiled
def _densities(
    means: Floats, sds: Floats, low: float, h: float, nodes: int, f: Floats, work: Floats
) -> None:
    """Write density and three derivatives of one mixture at the nodes into `f` (node, 4).

    `work` (4, draw) is scratch memory. Each exponential is that of the node before times a ratio;
    the ratio itself changes by a constant factor from node to node.
    """
    count = means.size
    inverses = work[0]
    e0 = work[1]
    ratios = work[2]
    bends = work[3]
    for d in range(count):
        inverses[d] = 1.0 / sds[d]
        bends[d] = np.exp(-((h * inverses[d]) ** 2))
    for g in range(nodes):
        x = low + g * h
        if g % REFRESH_INTERVAL == 0:
            for d in range(count):
                z = (x - means[d]) * inverses[d]
                t = h * inverses[d]
                e0[d] = np.exp(-0.5 * z * z) * inverses[d]
                ratios[d] = np.exp(-t * (z + 0.5 * t))
        f0 = f1 = f2 = f3 = 0.0
        for d in range(count):
            inverse = inverses[d]
            z = (x - means[d]) * inverse
            e = e0[d]
            f0 += e
            e0[d] = e * ratios[d]
            ratios[d] *= bends[d]
            e *= inverse
            f1 -= z * e
            e *= inverse
            f2 += (z * z - 1.0) * e
            f3 += (3.0 - z * z) * z * e * inverse
        scale = ROOT / count
        f[g, 0] = f0 * scale
        f[g, 1] = f1 * scale
        f[g, 2] = f2 * scale
        f[g, 3] = f3 * scale


@compiled
def _integral(lower: Floats, upper: Floats, h: float) -> float:
    """Return the mean of the polynomial between two nodes with these densities and derivatives
    (4,).
    """
    ends = (lower[0] + upper[0]) / 2.0
    slopes = (lower[1] - upper[1]) * 3.0 / 28.0
    bends = (lower[2] + upper[2]) / 84.0
    thirds = (lower[3] - upper[3]) / 1680.0
    return float(ends + h * (slopes + h * (bends + h * thirds)))


@compiled
def _polynomial(lower: Floats, upper: Floats, h: float, c: Floats) -> None:
    """Write the coefficients (8,) of the polynomial between two nodes, in u from 0 (lower) to 1
    (upper).
    """
    c[0] = lower[0]
    c[1] = h * lower[1]
    c[2] = h**2 * lower[2] / 2.0
    c[3] = h**3 * lower[3] / 6.0
    r0 = upper[0] - (c[0] + c[1] + c[2] + c[3])
    r1 = h * upper[1] - (c[1] + 2.0 * c[2] + 3.0 * c[3])
    r2 = h**2 * upper[2] / 2.0 - (c[2] + 3.0 * c[3])
    r3 = h**3 * upper[3] / 6.0 - c[3]
    c[4] = 35.0 * r0 - 15.0 * r1 + 5.0 * r2 - r3
    c[5] = -84.0 * r0 + 39.0 * r1 - 14.0 * r2 + 3.0 * r3
    c[6] = 70.0 * r0 - 34.0 * r1 + 13.0 * r2 - 3.0 * r3
    c[7] = -20.0 * r0 + 10.0 * r1 - 4.0 * r2 + r3


@compiled
def _roots(
    f: Floats,
    total: Floats,
    low: float,
    h: float,
    nodes: int,
    probabilities: Floats,
    out: Floats,
    least_density: float,
) -> bool:
    """Write the quantiles (k,) of one mixture.

    Return False if the density at one is below `least_density`.
    """
    c = np.empty(8)
    g = 0
    g_of_c = -1  # interval of the coefficients `c`
    for k in range(probabilities.size):
        while g < nodes - 2 and total[g + 1] < probabilities[k]:
            g += 1
        if g_of_c != g:
            _polynomial(f[g], f[g + 1], h, c)
            g_of_c = g
        target = (probabilities[k] - total[g]) / h
        a = 0.0
        b = 1.0
        u = min(max(target * h / (total[g + 1] - total[g]), 0.0), 1.0)
        for _ in range(60):
            area = 0.0
            density = 0.0
            for m in range(7, -1, -1):
                density = density * u + c[m]
                area = area * u + c[m] / (m + 1.0)
            area = area * u - target
            if area < 0.0:
                a = u
            else:
                b = u
            if abs(area) * h < TOLERANCE:
                break
            newton = u - area / density if density > 0.0 else -1.0
            u = newton if a <= newton <= b else 0.5 * (a + b)
        if not density >= least_density:
            return False
        out[k] = low + (g + u) * h
    return True


@compiled
def _fill(
    means: Floats,
    sds: Floats,
    probabilities: Floats,
    scores: Floats,
    most_nodes: int,
    out: Floats,
) -> None:
    """Write the quantiles (k,) of every mixture into `out` (n, k), NaN where it cannot be computed
    here.

    `means` and `sds` are (n, draw), `probabilities` (k,) ascending with their normal `scores` (k,).
    """
    n, count = means.shape
    f = np.empty((most_nodes, 4))
    work = np.empty((4, count))
    total = np.empty(most_nodes)
    for i in range(n):
        narrowest = np.inf
        low = np.inf
        high = -np.inf
        for d in range(count):
            narrowest = min(narrowest, sds[i, d])
            low = min(low, means[i, d] + scores[0] * sds[i, d])
            high = max(high, means[i, d] + scores[-1] * sds[i, d])
        nodes = int(np.ceil((high - low) / (STEP * narrowest))) + 1
        if not 2 <= nodes <= most_nodes:
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
        if not _roots(f, total, low, h, nodes, probabilities, out[i], LEAST_DENSITY / narrowest):
            out[i, :] = np.nan

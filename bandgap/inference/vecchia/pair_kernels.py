"""Pieces of a site's compiled loops: distances of pairs, the Matern correlation on them, a Cholesky factor, solves.

Distances of the pairs of some points come packed, row after row above the diagonal. L' stands in the upper triangle of
a matrix, so that every inner loop runs along a row and several numbers are worked on at once; what else L^-1 is applied
to stands in columns behind it. `site_kernels` holds what is built from these pieces.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled

JITTER = 1e-8  # of sigma2, on the diagonal of a covariance that has no factor, and never more
FAR = 650.0
STEP, NODES = 0.05, 521
TINY = 1e-20  # share of a sum that its terms have where they end
COSH = np.cosh(STEP * np.arange(NODES))
GROWTH = np.exp(STEP * np.arange(NODES))
LN2 = math.log(2.0)
TAYLOR = tuple(
    1.0 / math.factorial(i) for i in range(13)
)  # of exp, right to rounding below log(2) / 2


@compiled
def correlation(d, rho, nu, log_scale, digamma, free):  # type: ignore[no-untyped-def]
    """Return M, rho dM/drho and, where it is free, nu dM/dnu at distance d; `log_scale`: of 2^(1 - nu) / Gamma(nu)."""
    x = d / rho
    if x <= 0.0:
        return 1.0, 0.0, 0.0
    if x > FAR:
        return 0.0, 0.0, 0.0
    if not free:
        if nu == 0.5:
            value = math.exp(-x)
            return value, x * value, 0.0
        if nu == 1.5:
            value = math.exp(-x)
            return (1.0 + x) * value, x * x * value, 0.0
        if nu == 2.5:
            value = math.exp(-x)
            return (1.0 + x + x * x / 3.0) * value, x * x * (1.0 + x) * value / 3.0, 0.0
    k0, k1, slope = 0.0, 0.0, 0.0
    log_factor = log_scale + nu * math.log(
        x
    )  # with the exponents, as it and K_nu overflow alone where nu is large
    for i in range(NODES):
        decay = log_factor - x * COSH[i]
        t = STEP * i
        up, down = math.exp(decay + nu * t), math.exp(decay - nu * t)
        lower = up / GROWTH[i] + down * GROWTH[i]
        if (
            x * (COSH[i] - 1.0) > nu and up <= TINY * k0 and lower <= TINY * k1
        ):  # behind the peaks, x sinh t = nu
            break
        weight = 0.25 * STEP if i == 0 else 0.5 * STEP
        k0 += weight * (up + down)
        k1 += weight * lower
        slope += weight * t * (up - down)
    return k0, x * k1, nu * ((math.log(0.5 * x) - digamma) * k0 + slope)


@compiled
def decay(x, out):  # type: ignore[no-untyped-def]
    """Write exp(-x) of x (n,) >= 0 into `out`, 0 beyond FAR: several numbers at once, which math.exp does not allow."""
    whole = np.empty(x.size, dtype=np.int64)
    powers = whole.view(np.float64)
    for j in range(x.size):
        v = -min(x[j], FAR)
        n = math.floor(v / LN2 + 0.5)
        r = v - n * LN2
        t = TAYLOR[12] * r + TAYLOR[11]
        t = ((t * r + TAYLOR[10]) * r + TAYLOR[9]) * r + TAYLOR[8]
        t = ((t * r + TAYLOR[7]) * r + TAYLOR[6]) * r + TAYLOR[5]
        t = ((t * r + TAYLOR[4]) * r + TAYLOR[3]) * r + TAYLOR[2]
        out[j] = (t * r + 1.0) * r + 1.0 if x[j] <= FAR else 0.0
        whole[j] = np.int64(np.int32(n) + np.int32(1023)) << 52  # the bits of 2^n
    for j in range(x.size):
        out[j] *= powers[j]


@compiled
def correlate(distances, theta, constants, free, found):  # type: ignore[no-untyped-def]
    """Write M, rho dM/drho and, where it is free, nu dM/dnu at distances (n,) into the first columns of `found`."""
    rho, nu, n = theta[1], theta[2], distances.size
    value, slope = found[0, :n], found[1, :n]
    if free or not (nu == 0.5 or nu == 1.5 or nu == 2.5):
        for j in range(n):
            found[0, j], found[1, j], found[2, j] = correlation(
                distances[j], rho, nu, constants[0], constants[1], free
            )
        return
    for j in range(n):
        slope[j] = distances[j] / rho
    decay(slope, value)
    if nu == 0.5:
        for j in range(n):
            slope[j] *= value[j]
    elif nu == 1.5:
        for j in range(n):
            x, e = slope[j], value[j]
            value[j], slope[j] = (1.0 + x) * e, x * x * e
    else:
        for j in range(n):
            x, e = slope[j], value[j]
            value[j], slope[j] = (1.0 + x + x * x / 3.0) * e, x * x * (1.0 + x) * e / 3.0


@compiled
def fill_covariance(distances, theta, constants, extra, found, matrix):  # type: ignore[no-untyped-def]
    """Write sigma2 M + (tau2 + extra) I of packed distances into the upper triangle (n, n), by way of found (3, n)."""
    place = 0
    for i in range(matrix.shape[0]):
        row = matrix[i, i + 1 :]
        correlate(distances[place : place + row.size], theta, constants, False, found)
        for j in range(row.size):
            row[j] = theta[0] * found[0, j]
        matrix[i, i] = theta[0] + theta[3] + extra
        place += row.size


@compiled
def pair_distances(points, members, size, columns, packed):  # type: ignore[no-untyped-def]
    """Write the distances of the points `members` into `packed`, row after row, by way of `columns` (q, >= size)."""
    q, place = points.shape[1], 0
    for i in range(size):
        for d in range(q):
            columns[d, i] = points[members[i], d]
    for i in range(size - 1):
        row = packed[place : place + size - 1 - i]
        place += row.size
        row[:] = 0.0
        d = 0
        while d + 4 <= q:
            r0, r1, r2, r3 = (
                columns[d, i:size],
                columns[d + 1, i:size],
                columns[d + 2, i:size],
                columns[d + 3, i:size],
            )
            x0, x1, x2, x3 = r0[0], r1[0], r2[0], r3[0]
            for j in range(row.size):
                s0, s1, s2, s3 = r0[j + 1] - x0, r1[j + 1] - x1, r2[j + 1] - x2, r3[j + 1] - x3
                row[j] += s0 * s0 + s1 * s1 + s2 * s2 + s3 * s3
            d += 4
        while d < q:
            r0 = columns[d, i:size]
            x0 = r0[0]
            for j in range(row.size):
                s0 = r0[j + 1] - x0
                row[j] += s0 * s0
            d += 1
        for j in range(row.size):
            row[j] = math.sqrt(row[j])


@compiled
def factor(upper, size, width, correlations, sigma2, tau2):  # type: ignore[no-untyped-def]
    """Write L' of sigma2 M + tau2 I into the upper triangle, and L^-1 of what stands in columns `size` to `width`.

    Return 0, 1 where the jitter was needed, -1 where there is no factor even so.
    """
    extra = upper[:size, size:width].copy()
    for attempt in range(2):
        place = 0
        for i in range(size):
            row = upper[i]
            row[i] = sigma2 + tau2 + attempt * JITTER * sigma2
            for j in range(i + 1, size):
                row[j] = sigma2 * correlations[place + j - i - 1]
            place += size - 1 - i
            for j in range(size, width):
                row[j] = extra[i, j - size]
        if eliminate(upper, size, width):
            return attempt
    return -1


@compiled
def eliminate(upper, size, width):  # type: ignore[no-untyped-def]
    """Turn the upper triangle of a matrix into L', columns behind it into L^-1 of them; return whether there is one.

    Two rows at a time, so that what stands above them is read half as often; beside the diagonal it is overwritten.
    """
    if size % 2 and not scale_row(upper[0, :width]):
        return False
    for k in range(size % 2, size, 2):
        row, after = upper[k, k:width], upper[k + 1, k:width]
        c = 0
        while c + 8 <= k:
            r0, r1, r2, r3 = (
                upper[c, k:width],
                upper[c + 1, k:width],
                upper[c + 2, k:width],
                upper[c + 3, k:width],
            )
            r4, r5, r6, r7 = (
                upper[c + 4, k:width],
                upper[c + 5, k:width],
                upper[c + 6, k:width],
                upper[c + 7, k:width],
            )
            x0, x1, x2, x3, x4, x5, x6, x7 = r0[0], r1[0], r2[0], r3[0], r4[0], r5[0], r6[0], r7[0]
            y0, y1, y2, y3, y4, y5, y6, y7 = r0[1], r1[1], r2[1], r3[1], r4[1], r5[1], r6[1], r7[1]
            for j in range(row.size):
                a0, a1, a2, a3, a4, a5, a6, a7 = (
                    r0[j],
                    r1[j],
                    r2[j],
                    r3[j],
                    r4[j],
                    r5[j],
                    r6[j],
                    r7[j],
                )
                row[j] -= (
                    x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3 + x4 * a4 + x5 * a5 + x6 * a6 + x7 * a7
                )
                after[j] -= (
                    y0 * a0 + y1 * a1 + y2 * a2 + y3 * a3 + y4 * a4 + y5 * a5 + y6 * a6 + y7 * a7
                )
            c += 8
        while c < k:
            r0 = upper[c, k:width]
            x0, y0 = r0[0], r0[1]
            for j in range(row.size):
                row[j] -= x0 * r0[j]
                after[j] -= y0 * r0[j]
            c += 1
        if not scale_row(row):
            return False
        y0 = row[1]
        for j in range(1, row.size):
            after[j] -= y0 * row[j]
        if not scale_row(after[1:]):
            return False
    return True


@compiled
def scale_row(row):  # type: ignore[no-untyped-def]
    """Divide a row by the root of its first entry, the pivot; return whether that is above 0."""
    if not row[0] > 0.0:
        return False
    scale = 1.0 / math.sqrt(row[0])
    for j in range(row.size):
        row[j] *= scale
    return True


@compiled
def solve_lower(upper, size, b):  # type: ignore[no-untyped-def]
    """Turn b into L^-1 b."""
    for i in range(size):
        row = upper[i]
        b[i] /= row[i]
        for j in range(i + 1, size):
            b[j] -= row[j] * b[i]


@compiled
def solve_upper(upper, size, b):  # type: ignore[no-untyped-def]
    """Turn b into L^-T b."""
    for i in range(size - 1, -1, -1):
        row = upper[i]
        total = 0.0
        for j in range(i + 1, size):
            total += row[j] * b[j]
        b[i] = (b[i] - total) / row[i]


@compiled
def times(slopes, size, scale, a, out):  # type: ignore[no-untyped-def]
    """Write dB a into `out`: dB has a zero diagonal and `scale` times the packed slopes beside it."""
    out[:size] = 0.0
    place = 0
    for i in range(size):
        row = slopes[place : place + size - 1 - i]
        place += row.size
        total, own = 0.0, scale * a[i]
        for j in range(row.size):
            total += row[j] * a[i + 1 + j]
            out[i + 1 + j] += row[j] * own
        out[i] += scale * total

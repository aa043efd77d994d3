r"""Compiled loops over the sites of a Vecchia likelihood: one Cholesky factor a site, no inverse.

Consider a site with its k neighbours earlier in the order, and itself last. Let B = sigma2 M +
tau2 I = L L', a = L^-T e_k, r = y - X beta, e = L^-1 r and w_j = L^-1 (dB_j a), with derivatives
by log theta_j. Then

    log p        = -log(2 pi) / 2 + log a_k - e_k^2 / 2
    d log p_j    = -w_j[k] / 2 + e_k (sum_(l<k) w_j[l] e_l + w_j[k] e_k / 2)
    Fisher_jl    = sum_(q<k) w_j[q] w_l[q] + w_j[k] w_l[k] / 2

B a = L e_k, so dB_sigma2 a = L_kk e_k - tau2 a needs no product with the covariance.

Distances of pairs are packed: row after row above the diagonal. L' is stored in the upper triangle
of a matrix, so that inner loops run along rows and are vectorised. Right-hand sides are in further
columns. All of this is in one file because numba recompiles a function only when the function's own
file has changed.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled

JITTER = 1e-8  # share of sigma2 added once to the diagonal of a covariance that has no factor
FAR = 650.0  # distance in ranges beyond which the correlation is 0 in double precision
# The trapezoid rule for the integral of K_nu: step and number of nodes.
STEP = 0.05
NODES = 521
TINY = 1e-20  # terms below this share of their sum end the sum
COSH = np.cosh(STEP * np.arange(NODES))
GROWTH = np.exp(STEP * np.arange(NODES))
LN2 = math.log(2.0)
LOG_2PI = math.log(2.0 * math.pi)
# Taylor coefficients of exp, exact to rounding below log(2) / 2.
TAYLOR = tuple(1.0 / math.factorial(i) for i in range(13))


@compiled
def correlation(d, rho, nu, log_scale, digamma, free):  # type: ignore[no-untyped-def]
    """Return M, rho dM/drho and, if nu is free, nu dM/dnu at distance d.

    `log_scale` is the logarithm of 2^(1 - nu) / Gamma(nu).
    """
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
    k0 = 0.0
    k1 = 0.0
    slope = 0.0
    # Added to the exponents, as it and K_nu overflow alone if nu is large.
    log_factor = log_scale + nu * math.log(x)
    for i in range(NODES):
        decay = log_factor - x * COSH[i]
        t = STEP * i
        up = math.exp(decay + nu * t)
        down = math.exp(decay - nu * t)
        lower = up / GROWTH[i] + down * GROWTH[i]
        is_past_peaks = x * (COSH[i] - 1.0) > nu  # peaks are at x sinh t = nu
        if is_past_peaks and up <= TINY * k0 and lower <= TINY * k1:
            break
        weight = 0.25 * STEP if i == 0 else 0.5 * STEP
        k0 += weight * (up + down)
        k1 += weight * lower
        slope += weight * t * (up - down)
    return k0, x * k1, nu * ((math.log(0.5 * x) - digamma) * k0 + slope)


@compiled
def decay(x, out):  # type: ignore[no-untyped-def]
    """Write exp(-x) of x (n,) >= 0 to `out`, 0 beyond FAR.

    Unlike math.exp, these loops are vectorised.
    """
    exponents = np.empty(x.size, dtype=np.int64)
    powers = exponents.view(np.float64)
    for j in range(x.size):
        v = -min(x[j], FAR)
        n = math.floor(v / LN2 + 0.5)
        r = v - n * LN2
        t = TAYLOR[12] * r + TAYLOR[11]
        t = ((t * r + TAYLOR[10]) * r + TAYLOR[9]) * r + TAYLOR[8]
        t = ((t * r + TAYLOR[7]) * r + TAYLOR[6]) * r + TAYLOR[5]
        t = ((t * r + TAYLOR[4]) * r + TAYLOR[3]) * r + TAYLOR[2]
        out[j] = (t * r + 1.0) * r + 1.0 if x[j] <= FAR else 0.0
        exponents[j] = np.int64(np.int32(n) + np.int32(1023)) << 52  # the bits of 2^n
    for j in range(x.size):
        out[j] *= powers[j]


@compiled
def correlate(distances, theta, constants, free, values):  # type: ignore[no-untyped-def]
    """Write M, rho dM/drho and, if nu is free, nu dM/dnu at distances (n,).

    They go to the first n columns of `values` (3, at least n). `constants` are those of
    `likelihood.matern_constants`.
    """
    rho = theta[1]
    nu = theta[2]
    n = distances.size
    value = values[0, :n]
    slope = values[1, :n]
    if free or not (nu == 0.5 or nu == 1.5 or nu == 2.5):
        for j in range(n):
            values[0, j], values[1, j], values[2, j] = correlation(
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
            x = slope[j]
            e = value[j]
            value[j] = (1.0 + x) * e
            slope[j] = x * x * e
    else:
        for j in range(n):
            x = slope[j]
            e = value[j]
            value[j] = (1.0 + x + x * x / 3.0) * e
            slope[j] = x * x * (1.0 + x) * e / 3.0


@compiled
def fill_covariance(  # type: ignore[no-untyped-def]
    distances,
    theta,
    constants,
    extra,
    work,
    matrix,
):
    """Write sigma2 M + (tau2 + extra) I to the upper triangle of `matrix` (n, n).

    `distances` are packed. `work` (3, n) is overwritten.
    """
    start = 0
    for i in range(matrix.shape[0]):
        row = matrix[i, i + 1 :]
        correlate(distances[start : start + row.size], theta, constants, False, work)
        for j in range(row.size):
            row[j] = theta[0] * work[0, j]
        matrix[i, i] = theta[0] + theta[3] + extra
        start += row.size


@compiled
def pair_distances(points, members, size, columns, packed):  # type: ignore[no-untyped-def]
    """Write the packed distances of the points `members` to `packed`.

    `columns` (q, at least size) is overwritten.
    """
    q = points.shape[1]
    start = 0
    for i in range(size):
        for d in range(q):
            columns[d, i] = points[members[i], d]
    for i in range(size - 1):
        row = packed[start : start + size - 1 - i]
        start += row.size
        row[:] = 0.0
        d = 0
        while d + 4 <= q:
            r0 = columns[d, i:size]
            r1 = columns[d + 1, i:size]
            r2 = columns[d + 2, i:size]
            r3 = columns[d + 3, i:size]
            for j in range(row.size):
                s0 = r0[j + 1] - r0[0]
                s1 = r1[j + 1] - r1[0]
                s2 = r2[j + 1] - r2[0]
                s3 = r3[j + 1] - r3[0]
                row[j] += s0 * s0 + s1 * s1 + s2 * s2 + s3 * s3
            d += 4
        while d < q:
            r0 = columns[d, i:size]
            for j in range(row.size):
                s0 = r0[j + 1] - r0[0]
                row[j] += s0 * s0
            d += 1
        for j in range(row.size):
            row[j] = math.sqrt(row[j])


@compiled
def factor(upper, size, width, correlations, sigma2, tau2):  # type: ignore[no-untyped-def]
    """Write L' of sigma2 M + tau2 I to the upper triangle of `upper`.

    `correlations` are packed. The columns from `size` to `width` become L^-1 times themselves.
    Return 0, or 1 if the jitter was needed, or -1 if there is no factor with it either.
    """
    right_sides = upper[:size, size:width].copy()
    for attempt in range(2):
        start = 0
        for i in range(size):
            row = upper[i]
            row[i] = sigma2 + tau2 + attempt * JITTER * sigma2
            for j in range(i + 1, size):
                row[j] = sigma2 * correlations[start + j - i - 1]
            start += size - 1 - i
            for j in range(size, width):
                row[j] = right_sides[i, j - size]
        if eliminate(upper, size, width):
            return attempt
    return -1


@compiled
def eliminate(upper, size, width):  # type: ignore[no-untyped-def]
    """Turn the upper triangle into L' and further columns into L^-1 times themselves.

    Two rows are eliminated together, so that the rows above are read half as often. The first
    entries of the second row, left of the diagonal, are overwritten. Return whether there is a
    factor.
    """
    if size % 2 and not scale_row(upper[0, :width]):
        return False
    for k in range(size % 2, size, 2):
        row = upper[k, k:width]
        after = upper[k + 1, k:width]
        c = 0
        while c + 8 <= k:
            r0 = upper[c, k:width]
            r1 = upper[c + 1, k:width]
            r2 = upper[c + 2, k:width]
            r3 = upper[c + 3, k:width]
            r4 = upper[c + 4, k:width]
            r5 = upper[c + 5, k:width]
            r6 = upper[c + 6, k:width]
            r7 = upper[c + 7, k:width]
            x0 = r0[0]
            x1 = r1[0]
            x2 = r2[0]
            x3 = r3[0]
            x4 = r4[0]
            x5 = r5[0]
            x6 = r6[0]
            x7 = r7[0]
            y0 = r0[1]
            y1 = r1[1]
            y2 = r2[1]
            y3 = r3[1]
            y4 = r4[1]
            y5 = r5[1]
            y6 = r6[1]
            y7 = r7[1]
            for j in range(row.size):
                a0 = r0[j]
                a1 = r1[j]
                a2 = r2[j]
                a3 = r3[j]
                a4 = r4[j]
                a5 = r5[j]
                a6 = r6[j]
                a7 = r7[j]
                row[j] -= (
                    x0 * a0 + x1 * a1 + x2 * a2 + x3 * a3 + x4 * a4 + x5 * a5 + x6 * a6 + x7 * a7
                )
                after[j] -= (
                    y0 * a0 + y1 * a1 + y2 * a2 + y3 * a3 + y4 * a4 + y5 * a5 + y6 * a6 + y7 * a7
                )
            c += 8
        while c < k:
            r0 = upper[c, k:width]
            x0 = r0[0]
            y0 = r0[1]
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
    """Divide a row by the root of its first entry, the pivot; return whether it is positive."""
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
    """Write dB a to `out`, where dB has a zero diagonal and `scale` times the packed slopes."""
    out[:size] = 0.0
    start = 0
    for i in range(size):
        row = slopes[start : start + size - 1 - i]
        start += row.size
        total = 0.0
        scaled = scale * a[i]
        for j in range(row.size):
            total += row[j] * a[i + 1 + j]
            out[i + 1 + j] += row[j] * scaled
        out[i] += scale * total


@compiled
def max_min(points, first):  # type: ignore[no-untyped-def]
    """Return the max-min order of points (n, q), which begins with the point `first`.

    Every next point is the one farthest from all points before it.
    """
    n, q = points.shape
    order = np.empty(n, dtype=np.int64)
    squared_distance = np.full(n, np.inf)
    latest = first
    for i in range(n):
        order[i] = latest
        squared_distance[latest] = -1.0
        largest = -1.0
        farthest = latest
        for j in range(n):
            if squared_distance[j] >= 0.0:
                total = 0.0
                for d in range(q):
                    step = points[j, d] - points[latest, d]
                    total += step * step
                squared_distance[j] = min(squared_distance[j], total)
                if squared_distance[j] > largest:
                    largest = squared_distance[j]
                    farthest = j
        latest = farthest
    return order


@compiled
def pack_distances(points, neighbours, packed):  # type: ignore[no-untyped-def]
    """Write the packed distances of every site's pairs, the site itself last, to `packed`."""
    m = neighbours.shape[1] + 1
    members = np.empty(m, dtype=np.int64)
    columns = np.empty((points.shape[1], m))
    for site in range(neighbours.shape[0]):
        pair_distances(points, members, gather(neighbours, site, members), columns, packed[site])


@compiled
def gather(neighbours, site, members):  # type: ignore[no-untyped-def]
    """Write the neighbours of a site and then itself to `members`; return their number."""
    k = 0
    while k < neighbours.shape[1] and neighbours[site, k] >= 0:
        members[k] = neighbours[site, k]
        k += 1
    members[k] = site
    return k + 1


@compiled
def add_sites(  # type: ignore[no-untyped-def]
    points,
    covariates,
    y,
    neighbours,
    distances,
    places,
    shared,
    sites,
    theta,
    beta,
    constants,
    free,
    derivatives,
    scalars,
    grad,
    fisher,
    p3,
    p4,
    site_gradients,
):
    """Add the contributions of `sites` to the sums of the likelihood.

    Parameters
    ----------
    points, covariates, y, neighbours
        The data of all sites, as in `likelihood.Blocks`.
    distances
        Packed distances by site, or no rows, which computes them.
    places, shared
        Columns of `shared` (3, distinct) with the correlations of each site's packed pairs, where
        distances are shared by many; or no rows.
    sites
        The sites to add.
    theta, beta, constants
        Parameters, and `likelihood.matern_constants`.
    free
        Whether the smoothness has derivatives.
    derivatives
        Whether the gradient and Fisher information by log theta are computed.
    scalars
        Log likelihood, p1, p2 and the number of jitters. If a site's covariance has no factor with
        the jitter either, the loop ends with a log likelihood of -inf and p1 of inf.
    grad, fisher, p3, p4
        Further sums: (4,), (4, 4), (p,) and (p, p).
    site_gradients
        Gradients of site_gradients site by log theta and beta, (site, 4 + p), or no rows.
    """
    m = neighbours.shape[1] + 1
    p = covariates.shape[1]
    sigma2 = theta[0]
    tau2 = theta[3]
    pairs = np.empty(m * (m - 1) // 2)
    upper = np.empty((m, m + 1))
    correlations = np.empty((3, pairs.size))
    columns = np.empty((points.shape[1], m))
    members = np.empty(m, dtype=np.int64)
    a = np.empty(m)
    e = np.empty(m)
    w = np.empty((4, m))
    rows = np.empty(p)
    for position in range(sites.size):
        site = sites[position]
        size = gather(neighbours, site, members)
        k = size - 1
        n_pairs = size * (size - 1) // 2
        if places.shape[0]:
            for j in range(n_pairs):
                for d in range(3):
                    correlations[d, j] = shared[d, places[site, j]]
        elif distances.shape[0]:
            correlate(distances[site, :n_pairs], theta, constants, free, correlations)
        else:
            pair_distances(points, members, size, columns, pairs)
            correlate(pairs[:n_pairs], theta, constants, free, correlations)
        for i in range(size):
            residual = y[members[i]]
            for c in range(p):
                residual -= covariates[members[i], c] * beta[c]
            upper[i, size] = residual
        jitter = factor(upper, size, size + 1, correlations[0], sigma2, tau2)
        if jitter < 0:
            scalars[0] = -np.inf
            scalars[1] = np.inf
            return
        scalars[3] += jitter
        a[:size] = 0.0
        a[k] = 1.0
        solve_upper(upper, size, a)
        response = 0.0
        rows[:] = 0.0
        for i in range(size):
            e[i] = upper[i, size]
            response += a[i] * y[members[i]]
            for c in range(p):
                rows[c] += covariates[members[i], c] * a[i]
        last = e[k]
        scalars[0] += -0.5 * LOG_2PI + math.log(a[k]) - 0.5 * last * last
        scalars[1] -= 2.0 * math.log(a[k])
        scalars[2] += response * response
        for c in range(p):
            p3[c] += rows[c] * response
            for f in range(p):
                p4[c, f] += rows[c] * rows[f]
        if derivatives:
            times(correlations[1], size, sigma2, a, w[1])
            solve_lower(upper, size, w[1])
            if free:
                times(correlations[2], size, sigma2, a, w[2])
                solve_lower(upper, size, w[2])
            else:
                w[2, :size] = 0.0
            w[3, :size] = a[:size]
            solve_lower(upper, size, w[3])
            for i in range(size):
                w[3, i] *= tau2
                w[0, i] = -w[3, i]
            w[0, k] += 1.0
            for j in range(4):
                total = 0.0
                for i in range(k):
                    total += w[j, i] * e[i]
                slope = -0.5 * w[j, k] + last * (total + 0.5 * w[j, k] * last)
                grad[j] += slope
                if site_gradients.shape[0]:
                    site_gradients[position, j] = slope
                for f in range(j + 1):
                    total = 0.5 * w[j, k] * w[f, k]
                    for i in range(k):
                        total += w[j, i] * w[f, i]
                    fisher[j, f] += total
                    if f < j:
                        fisher[f, j] += total
            if site_gradients.shape[0]:
                residual = response
                for c in range(p):
                    residual -= rows[c] * beta[c]
                for c in range(p):
                    site_gradients[position, 4 + c] = rows[c] * residual


@compiled
def krige(  # type: ignore[no-untyped-def]
    points,
    covariates,
    y,
    new,
    places,
    thetas,
    betas,
    constants,
    sums,
    rows,
):
    """Write the kriging terms of every draw and new point to `sums` and `rows`.

    Parameters
    ----------
    points, covariates, y
        What was observed: (m, q), (m, p), (m,).
    new
        New points, (n, q).
    places
        The observed points that each new point is given, (n, k).
    thetas, betas, constants
        Draws, (draw, 4) and (draw, p), with `likelihood.matern_constants` of each, (draw, 2).
    sums
        c'A^-1 r and c'A^-1 c, (2, draw, n). NaN if A has no factor.
    rows
        c'A^-1 X, (draw, n, p).
    """
    m = places.shape[1]
    q = points.shape[1]
    p = covariates.shape[1]
    width = m + 2 + p
    pairs = np.empty(m * (m - 1) // 2)
    cross = np.empty(m)
    upper = np.empty((m, width))
    values = np.empty((3, max(pairs.size, m)))
    columns = np.empty((q, m))
    for site in range(new.shape[0]):
        members = places[site]
        pair_distances(points, members, m, columns, pairs)
        for i in range(m):
            total = 0.0
            for d in range(q):
                step = new[site, d] - points[members[i], d]
                total += step * step
            cross[i] = math.sqrt(total)
        for draw in range(thetas.shape[0]):
            theta = thetas[draw]
            correlate(cross, theta, constants[draw], False, values)
            for i in range(m):
                upper[i, m] = theta[0] * values[0, i]
                upper[i, m + 1] = y[members[i]]
                for f in range(p):
                    upper[i, m + 1] -= covariates[members[i], f] * betas[draw, f]
                    upper[i, m + 2 + f] = covariates[members[i], f]
            correlate(pairs, theta, constants[draw], False, values)
            if factor(upper, m, width, values[0], theta[0], theta[3]) < 0:
                sums[:, draw, site] = np.nan
                continue
            sums[:, draw, site] = 0.0
            rows[draw, site] = 0.0
            for i in range(m):
                c = upper[i, m]
                sums[0, draw, site] += c * upper[i, m + 1]
                sums[1, draw, site] += c * c
                for f in range(p):
                    rows[draw, site, f] += c * upper[i, m + 2 + f]

r"""What every site of a Vecchia likelihood adds, by compiled loops: one Cholesky factor a site, no inverse.

Of a site with its neighbours before it, B = sigma2 M + tau2 I = L L', a = L^-T e_k, r = v - R beta, e = L^-1 r and
M_j = L^-1 (dB_j a), all theta on the log scale:

    log p        = -log(2 pi) / 2 + log a_k - e_k^2 / 2
    d log p_j    = -M_j[k] / 2 + e_k (sum_(l<k) M_j[l] e_l + M_j[k] e_k / 2)
    Fisher_jl    = sum_(q<k) M_j[q] M_l[q] + M_j[k] M_l[k] / 2

B a = L e_k, so that dB_sigma2 a = L_kk e_k - tau2 a needs no product. What is compiled here holds the pieces of
`pair_kernels`, but is kept on disk until this file itself changes: `PAIR_KERNELS` makes every change of theirs one of
this file too (a test compares it).
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled
from bandgap.inference.vecchia.pair_kernels import (
    correlate,
    factor,
    pair_distances,
    solve_lower,
    solve_upper,
    times,
)

LOG_2PI = math.log(2.0 * math.pi)
PAIR_KERNELS = "3946234e59ce89cc"  # first digits of the SHA-256 of pair_kernels.py


@compiled
def max_min(points, first):  # type: ignore[no-untyped-def]
    """Return the order in which every point is the farthest from all before it, beginning at `first`."""
    n, q = points.shape
    order = np.empty(n, dtype=np.int64)
    gap = np.full(n, np.inf)
    here = first
    for i in range(n):
        order[i] = here
        gap[here] = -1.0
        best, chosen = -1.0, here
        for j in range(n):
            if gap[j] >= 0.0:
                total = 0.0
                for d in range(q):
                    step = points[j, d] - points[here, d]
                    total += step * step
                gap[j] = min(gap[j], total)
                if gap[j] > best:
                    best, chosen = gap[j], j
        here = chosen
    return order


@compiled
def pack_distances(points, neighbours, packed):  # type: ignore[no-untyped-def]
    """Write the distances of every site's pairs, the site itself last, into the rows of `packed`."""
    m = neighbours.shape[1] + 1
    members, columns = np.empty(m, dtype=np.int64), np.empty((points.shape[1], m))
    for site in range(neighbours.shape[0]):
        pair_distances(points, members, gather(neighbours, site, members), columns, packed[site])


@compiled
def gather(neighbours, site, members):  # type: ignore[no-untyped-def]
    """Write the neighbours of a site and, last, itself into `members`; return how many these are."""
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
    each,
):
    """Add what `sites` contribute: `scalars` log p, p1, p2, count of jitters; `grad` (4,), `fisher` (4, 4), p3, p4.

    Ends at a site whose covariance has no factor even with the jitter: log p is -inf then, and p1 is inf.
    `derivatives` says whether those by theta are wanted, `free` whether smoothness has any. `distances` are packed by
    site, or have no rows. A site's gradients by theta and beta go into its row of `each` (sites, 4 + p) if it has any.
    """
    m, p = neighbours.shape[1] + 1, covariates.shape[1]
    sigma2, tau2 = theta[0], theta[3]
    pairs = np.empty(m * (m - 1) // 2)
    upper, found, columns = (
        np.empty((m, m + 1)),
        np.empty((3, pairs.size)),
        np.empty((points.shape[1], m)),
    )
    members, a, e, w = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m), np.empty((4, m))
    rows = np.empty(p)
    for at in range(sites.size):
        site = sites[at]
        size = gather(neighbours, site, members)
        k, n_pairs = size - 1, size * (size - 1) // 2
        if distances.shape[0]:
            correlate(distances[site, :n_pairs], theta, constants, free, found)
        else:
            pair_distances(points, members, size, columns, pairs)
            correlate(pairs[:n_pairs], theta, constants, free, found)
        for i in range(size):
            left = y[members[i]]
            for c in range(p):
                left -= covariates[members[i], c] * beta[c]
            upper[i, size] = left
        jitter = factor(upper, size, size + 1, found[0], sigma2, tau2)
        if jitter < 0:
            scalars[0], scalars[1] = -np.inf, np.inf
            return
        scalars[3] += jitter
        a[:size] = 0.0
        a[k] = 1.0
        solve_upper(upper, size, a)
        whole = 0.0
        rows[:] = 0.0
        for i in range(size):
            e[i] = upper[i, size]
            whole += a[i] * y[members[i]]
            for c in range(p):
                rows[c] += covariates[members[i], c] * a[i]
        last = e[k]
        scalars[0] += -0.5 * LOG_2PI + math.log(a[k]) - 0.5 * last * last
        scalars[1] -= 2.0 * math.log(a[k])
        scalars[2] += whole * whole
        for c in range(p):
            p3[c] += rows[c] * whole
            for f in range(p):
                p4[c, f] += rows[c] * rows[f]
        if derivatives:
            times(found[1], size, sigma2, a, w[1])
            solve_lower(upper, size, w[1])
            if free:
                times(found[2], size, sigma2, a, w[2])
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
                if each.shape[0]:
                    each[at, j] = slope
                for f in range(j + 1):
                    total = 0.5 * w[j, k] * w[f, k]
                    for i in range(k):
                        total += w[j, i] * w[f, i]
                    fisher[j, f] += total
                    if f < j:
                        fisher[f, j] += total
            if each.shape[0]:
                left = whole
                for c in range(p):
                    left -= rows[c] * beta[c]
                for c in range(p):
                    each[at, 4 + c] = rows[c] * left


@compiled
def krige(points, covariates, y, new, places, thetas, betas, constants, found, rows):  # type: ignore[no-untyped-def]
    """Write c'A^-1 r and c'A^-1 c of every draw and new point into `found` (2, draw, n), c'A^-1 X into `rows`.

    `places` (n, m) are the observed points that each new one is given, `rows` (draw, n, p). Draws are `thetas`
    (draw, 4) and `betas` (draw, p); `constants` (draw, 2) are those of the correlation.
    """
    m, q, p = places.shape[1], points.shape[1], covariates.shape[1]
    width = m + 2 + p
    pairs, cross = np.empty(m * (m - 1) // 2), np.empty(m)
    upper, values, columns = (
        np.empty((m, width)),
        np.empty((3, max(pairs.size, m))),
        np.empty((q, m)),
    )
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
                found[:, draw, site] = np.nan
                continue
            found[:, draw, site] = 0.0
            rows[draw, site] = 0.0
            for i in range(m):
                c = upper[i, m]
                found[0, draw, site] += c * upper[i, m + 1]
                found[1, draw, site] += c * c
                for f in range(p):
                    rows[draw, site, f] += c * upper[i, m + 2 + f]

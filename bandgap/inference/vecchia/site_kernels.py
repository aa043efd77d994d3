r"""What every site of a Vecchia likelihood adds, by compiled loops: one Cholesky factor a site, no inverse.

Of a site with its neighbours before it, B = sigma2 M + tau2 I = L L', a = L^-T e_k, r = v - R beta, e = L^-1 r and
M_j = L^-1 (dB_j a), all theta on the log scale:

    log p        = -log(2 pi) / 2 + log a_k - e_k^2 / 2
    d log p_j    = -M_j[k] / 2 + e_k (sum_(l<k) M_j[l] e_l + M_j[k] e_k / 2)
    Fisher_jl    = sum_(q<k) M_j[q] M_l[q] + M_j[k] M_l[k] / 2

B a = L e_k, so that dB_sigma2 a = L_kk e_k - tau2 a needs no product. Every compiled function of the package is in this
file: what one of them calls from another file would not be compiled again when that changes.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled

LOG_2PI = math.log(2.0 * math.pi)
JITTER = 1e-8  # of sigma2, on the diagonal of a covariance that has no factor, and never more
FAR = 650.0
STEP, NODES = 0.05, 521
COSH = np.cosh(STEP * np.arange(NODES))
GROWTH = np.exp(STEP * np.arange(NODES))


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
def correlation(d, rho, nu, scale, digamma, free):  # type: ignore[no-untyped-def]
    """Return M, rho dM/drho and, where it is free, nu dM/dnu at distance d; `scale` is 2^(1 - nu) / Gamma(nu)."""
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
    for i in range(NODES):
        decay = -x * COSH[i]
        t = STEP * i
        if decay + nu * t < -745.0:
            break
        up, down = math.exp(decay + nu * t), math.exp(decay - nu * t)
        weight = 0.25 * STEP if i == 0 else 0.5 * STEP
        k0 += weight * (up + down)
        k1 += weight * (up / GROWTH[i] + down * GROWTH[i])
        slope += weight * t * (up - down)
    power = scale * x**nu
    value = power * k0
    return value, power * x * k1, nu * ((math.log(0.5 * x) - digamma) * value + power * slope)


@compiled
def factor(lower, size):  # type: ignore[no-untyped-def]
    """Turn the lower triangle of a matrix into that of its Cholesky factor; return whether there is one."""
    for i in range(size):
        row = lower[i]
        for j in range(i):
            other = lower[j]
            total = 0.0
            for c in range(j):
                total += row[c] * other[c]
            row[j] = (row[j] - total) / other[j]
        total = 0.0
        for c in range(i):
            total += row[c] * row[c]
        left = row[i] - total
        if not left > 0.0:
            return False
        row[i] = math.sqrt(left)
    return True


@compiled
def solve_lower(lower, size, b):  # type: ignore[no-untyped-def]
    """Turn b into L^-1 b."""
    for i in range(size):
        total = 0.0
        row = lower[i]
        for c in range(i):
            total += row[c] * b[c]
        b[i] = (b[i] - total) / row[i]


@compiled
def solve_upper(lower, size, b):  # type: ignore[no-untyped-def]
    """Turn b into L^-T b."""
    for i in range(size - 1, -1, -1):
        row = lower[i]
        b[i] = b[i] / row[i]
        for c in range(i):
            b[c] -= b[i] * row[c]


@compiled
def fill(points, members, size, theta, constants, free, lower, slopes):  # type: ignore[no-untyped-def]
    """Write the lower triangles of B, of rho dB/drho and of nu dB/dnu of the sites `members`."""
    sigma2, rho, nu, tau2 = theta[0], theta[1], theta[2], theta[3]
    q = points.shape[1]
    for i in range(size):
        here = points[members[i]]
        for j in range(i):
            there = points[members[j]]
            total = 0.0
            for d in range(q):
                step = here[d] - there[d]
                total += step * step
            value, by_rho, by_nu = correlation(math.sqrt(total), rho, nu, constants[0], constants[1], free)
            lower[i, j] = sigma2 * value
            slopes[0, i, j] = sigma2 * by_rho
            slopes[1, i, j] = sigma2 * by_nu
        lower[i, i] = sigma2 + tau2


@compiled
def add_sites(  # type: ignore[no-untyped-def]
    points, covariates, y, neighbours, sites, theta, beta, constants, free, derivatives, scalars, grad, fisher, p3, p4
):
    """Add what `sites` contribute: `scalars` log p, p1, p2, count of jitters; `grad` (4,), `fisher` (4, 4), p3, p4.

    `derivatives` says whether those by theta are wanted, `free` whether smoothness has any.
    """
    m, p = neighbours.shape[1] + 1, covariates.shape[1]
    sigma2, tau2 = theta[0], theta[3]
    lower, slopes = np.empty((m, m)), np.empty((2, m, m))
    members, a, e, w = np.empty(m, dtype=np.int64), np.empty(m), np.empty(m), np.empty((4, m))
    rows = np.empty(p)
    for site in sites:
        k = 0
        while k < m - 1 and neighbours[site, k] >= 0:
            members[k] = neighbours[site, k]
            k += 1
        members[k] = site
        size, nugget = k + 1, tau2
        fill(points, members, size, theta, constants, free, lower, slopes)
        if not factor(lower, size):
            fill(points, members, size, theta, constants, free, lower, slopes)
            for i in range(size):
                lower[i, i] += JITTER * sigma2
            scalars[3] += 1.0
            if not factor(lower, size):
                scalars[0] = -np.inf
                return
        a[:size] = 0.0
        a[k] = 1.0
        solve_upper(lower, size, a)
        whole = 0.0
        rows[:] = 0.0
        for i in range(size):
            e[i] = y[members[i]]
            whole += a[i] * e[i]
            for c in range(p):
                e[i] -= covariates[members[i], c] * beta[c]
                rows[c] += covariates[members[i], c] * a[i]
        solve_lower(lower, size, e)
        last = e[k]
        scalars[0] += -0.5 * LOG_2PI + math.log(a[k]) - 0.5 * last * last
        scalars[1] -= 2.0 * math.log(a[k])
        scalars[2] += whole * whole
        for c in range(p):
            p3[c] += rows[c] * whole
            for f in range(p):
                p4[c, f] += rows[c] * rows[f]
        if derivatives:
            w[3, :size] = a[:size]
            for part in range(1 + free):
                out, slope = w[1 + part], slopes[part]
                out[:size] = 0.0
                for i in range(size):
                    total = 0.0
                    for j in range(i):
                        total += slope[i, j] * a[j]
                        out[j] += slope[i, j] * a[i]
                    out[i] += total
                solve_lower(lower, size, out)
            solve_lower(lower, size, w[3])
            for i in range(size):
                w[3, i] *= nugget
                w[0, i] = -w[3, i]
                if not free:
                    w[2, i] = 0.0
            w[0, k] += 1.0
            for j in range(4):
                total = 0.0
                for i in range(k):
                    total += w[j, i] * e[i]
                grad[j] += -0.5 * w[j, k] + last * (total + 0.5 * w[j, k] * last)
                for f in range(j + 1):
                    total = 0.5 * w[j, k] * w[f, k]
                    for i in range(k):
                        total += w[j, i] * w[f, i]
                    fisher[j, f] += total
                    if f < j:
                        fisher[f, j] += total


@compiled
def krige(points, residuals, new, places, theta, constants, weights, found):  # type: ignore[no-untyped-def]
    """Write c'A^-1 r, c'A^-1 c of every new point into `found` (2, n) and A^-1 c into `weights` (n, m).

    `places` (n, m) are the observed points that each new one is given, `residuals` (n_points,) what is left of them.
    """
    m, q = places.shape[1], points.shape[1]
    lower, slopes, c = np.empty((m, m)), np.empty((2, m, m)), np.empty(m)
    for site in range(new.shape[0]):
        members = places[site]
        fill(points, members, m, theta, constants, False, lower, slopes)
        if not factor(lower, m):
            fill(points, members, m, theta, constants, False, lower, slopes)
            for i in range(m):
                lower[i, i] += JITTER * theta[0]
            if not factor(lower, m):
                found[:, site] = np.nan
                continue
        for i in range(m):
            total = 0.0
            for d in range(q):
                step = new[site, d] - points[members[i], d]
                total += step * step
            value, _, _ = correlation(math.sqrt(total), theta[1], theta[2], constants[0], constants[1], False)
            c[i] = theta[0] * value
        solve_lower(lower, m, c)
        explained = 0.0
        for i in range(m):
            explained += c[i] * c[i]
        solve_upper(lower, m, c)
        mean = 0.0
        for i in range(m):
            mean += c[i] * residuals[members[i]]
            weights[site, i] = c[i]
        found[0, site] = mean
        found[1, site] = explained

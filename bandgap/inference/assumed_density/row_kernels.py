"""Compiled loops over rows: messages forward, gradients of log Z backward, steps of weights.

The messages are those of `moments`. With A = d log Z / d am / sqrt(c) and C = 2 d log Z / d av / c
of a row, the weight of unit i for input j has

    d log Z / d m = A_i zm_j + m C_i zv_j,      d log Z / d v = C_i (zv_j + zm_j^2) / 2

and a ReLU passes on g_am = Phi(t) g_bm + 2 bm Phi(-t) g_bv, g_av = phi(t) / (2 r) g_bm + (Phi(t) -
bm phi(t) / r) g_bv. Weights are flat, in the order of layers and of units.

All compiled functions of the package are in this file: a function that they called from another
file would not be recompiled when that file changes.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled

LEAST = 1e-30  # of a variance before a ReLU
LEAST_SHARE = 1e-12
LEAST_OFF = 1e-300
SMALLEST_VARIANCE = 1e-100  # of a weight
LEAST_PRECISION_SHARE = 0.2  # of a weight's precision after several rows
LEAST_CAVITY = 1e-3  # of a weight's precision after its averaged factor is taken out
WORST_LOG_Z = -50.0  # mean of a batch; below it rows have corrected the same residual too often
LEAST_SHAPE = 2.0


@compiled
def run_rows(x, y, net, msg, n_data, noise, log_z):  # type: ignore[no-untyped-def]
    """Update by rows x (n, p), y (n,), as many at a time as `msg` has; return how many were used.

    These are fewer than n where a batch did not fit. `noise` holds a and b of the posterior and of
    the averaged factor of one of n_data rows. `log_z` (n,) receives log Z of every row before it
    was used.
    """
    batch = msg.zm.shape[1]
    last = net.sizes.shape[0] - 1
    averaged = net.factor.shape[1] > 0
    g = np.zeros((2, msg.zm.shape[2]))
    for first in range(0, x.shape[0], batch):
        rows = min(batch, x.shape[0] - first)
        total = 0.0
        if averaged:
            _take_out(net, rows)
        forward(x[first : first + rows], net, msg)
        for b in range(rows):
            a = noise[0] - noise[2]
            rate = noise[1] - noise[3]
            is_proper = a >= LEAST_SHAPE and rate > 0.0
            if not is_proper:
                a = noise[0]
                rate = noise[1]
            (
                log_z_row,
                msg.g_am[last, b, 0],
                msg.g_av[last, b, 0],
                msg.g_share[last, b],
                noise[0],
                noise[1],
            ) = noise_step(
                y[first + b], msg.am[last, b, 0], msg.av[last, b, 0], msg.share[last, b], a, rate
            )
            if averaged and is_proper:
                noise[2] += (noise[0] - a - noise[2]) / n_data
                noise[3] += (noise[1] - rate - noise[3]) / n_data
            log_z[first + b] = log_z_row
            total += log_z_row
        if rows > 1 and not total > WORST_LOG_Z * rows:
            return first
        backward(net, msg, rows, n_data, g, True)
    return x.shape[0]


@compiled
def forward(x, net, msg):  # type: ignore[no-untyped-def]
    """Write the messages of rows x (row, p)."""
    rows = x.shape[0]
    start = 0
    for level in range(net.sizes.shape[0]):
        outs = net.sizes[level, 0]
        columns = net.sizes[level, 1]
        for b in range(rows):
            z = msg.zm[level, b]
            w = msg.zv[level, b]
            msg.share[level, b] = 1.0
            if level == 0:
                z[: x.shape[1]] = x[b]
            else:
                off = msg.off[level, b]
                for j in range(columns - net.biased):
                    am = msg.am[level - 1, b, j]
                    av = msg.av[level - 1, b, j]
                    q = msg.share[level - 1, b]
                    _, _, _, _, below, _, positive, spread = _rectified(am, av, q)
                    z[j] = q * positive
                    w[j] = q * (spread + (1.0 - q) * positive * positive)
                    off[j] = (1.0 - q) + q * below
                if net.atoms and not net.biased:
                    total = 0.0
                    for j in range(columns):
                        total += math.log(max(off[j], LEAST_OFF))
                    msg.share[level, b] = max(-math.expm1(total), LEAST_SHARE)
            if net.biased:
                z[columns - 1] = 1.0
                w[columns - 1] = 0.0
        for i in range(outs):
            mi = net.m[start : start + columns]
            vi = net.v[start : start + columns]
            for b in range(rows):
                centre, spread = _weighted(mi, vi, msg.zm[level, b], msg.zv[level, b], level == 0)
                msg.am[level, b, i] = centre / math.sqrt(columns)
                msg.av[level, b, i] = max(spread / columns, LEAST)
            start += columns


@compiled
def _weighted(mi, vi, z, w, certain):  # type: ignore[no-untyped-def]
    centre = 0.0
    spread = 0.0
    if certain:  # inputs without variance
        for j in range(mi.size):
            centre += mi[j] * z[j]
            spread += vi[j] * (z[j] * z[j])
    else:
        for j in range(mi.size):
            centre += mi[j] * z[j]
            spread += w[j] * (mi[j] * mi[j] + vi[j]) + vi[j] * (z[j] * z[j])
    return centre, spread


@compiled
def _rectified(am, av, q):  # type: ignore[no-untyped-def]
    """Return mean, variance and sd of a unit's slab, Phi(t), Phi(-t), phi(t), and two moments.

    These are mean and variance after its ReLU.
    """
    mean = am / q
    variance = max(av / q - (1.0 - q) * mean * mean, LEAST)
    r = math.sqrt(variance)
    t = mean / r
    above = 0.5 * math.erfc(-t / math.sqrt(2.0))
    below = 0.5 * math.erfc(t / math.sqrt(2.0))
    phi = math.exp(-0.5 * t * t) / math.sqrt(2.0 * math.pi)
    positive = max(mean * above + r * phi, 0.0)
    negative = max(r * phi - mean * below, 0.0)
    return (
        mean,
        variance,
        r,
        above,
        below,
        phi,
        positive,
        max(variance * above - positive * negative, 0.0),
    )


@compiled
def backward(net, msg, rows, n_data, g, moving):  # type: ignore[no-untyped-def]
    """Propagate the gradients of the last layer; write sums over rows into g and move the weights.

    g is sum g_m and sum (g_m^2 - 2 g_v): of one unit after the other, or (2, weight) of all units
    if the weights do not move.
    """
    start = net.m.size
    widest = msg.zm.shape[2]
    gz = np.zeros((rows, widest))
    gw = np.zeros((rows, widest))
    for level in range(net.sizes.shape[0] - 1, -1, -1):
        outs = net.sizes[level, 0]
        columns = net.sizes[level, 1]
        start -= outs * columns
        gz[:] = 0.0
        gw[:] = 0.0
        for i in range(outs):
            offset = start + i * columns
            place = 0 if moving else offset
            mi = net.m[offset : offset + columns]
            vi = net.v[offset : offset + columns]
            gi = g[0, place : place + columns]
            ri = g[1, place : place + columns]
            gi[:] = 0.0
            ri[:] = 0.0
            for b in range(rows):
                slope = msg.g_am[level, b, i] / math.sqrt(columns)
                bend = 2.0 * msg.g_av[level, b, i] / columns
                if level > 0:
                    _to_inputs(mi, vi, msg.zm[level, b], gz[b], gw[b], slope, bend)
                _add_gradients(mi, msg.zm[level, b], msg.zv[level, b], gi, ri, slope, bend)
            if moving and net.factor.shape[1] > 0:
                _move_averaged(net, offset, gi, ri, rows, n_data)
            elif moving:
                _move(mi, vi, gi, ri, rows)
        for b in range(rows if level > 0 else 0):
            none = (
                msg.g_share[level, b] * (1.0 - msg.share[level, b])
                if net.atoms and not net.biased
                else 0.0
            )
            msg.g_share[level - 1, b] = 0.0
            for j in range(columns - net.biased):
                g_off = -none / max(msg.off[level, b, j], LEAST_OFF)
                _through_relu(msg, level - 1, b, j, gz[b, j], gw[b, j], g_off)


@compiled
def _to_inputs(mi, vi, z, gz, gw, slope, bend):  # type: ignore[no-untyped-def]
    for j in range(mi.size):
        gz[j] += slope * mi[j] + bend * z[j] * vi[j]
        gw[j] += 0.5 * bend * (mi[j] * mi[j] + vi[j])


@compiled
def _add_gradients(mi, z, w, gi, ri, slope, bend):  # type: ignore[no-untyped-def]
    for j in range(mi.size):
        g_m = slope * z[j] + mi[j] * bend * w[j]
        gi[j] += g_m
        ri[j] += g_m * g_m - bend * (w[j] + z[j] * z[j])


@compiled
def _through_relu(msg, level, b, j, g_z, g_w, g_off):  # type: ignore[no-untyped-def]
    """Write the gradients before a ReLU, given those by mean, variance and probability of zero."""
    q = msg.share[level, b]
    mean, variance, r, above, below, phi, positive, spread = _rectified(
        msg.am[level, b, j], msg.av[level, b, j], q
    )
    g_positive = q * g_z + 2.0 * q * (1.0 - q) * positive * g_w
    g_spread = q * g_w
    g_t = -q * phi * g_off
    g_mean = above * g_positive + 2.0 * positive * below * g_spread + g_t / r
    g_own = (
        0.5 * phi / r * g_positive
        + (above - positive * phi / r) * g_spread
        - 0.5 * mean / r * g_t / variance
    )
    msg.g_am[level, b, j] = (g_mean - 2.0 * (1.0 - q) * mean * g_own) / q
    msg.g_av[level, b, j] = g_own / q
    by_message = (
        positive * g_z + (spread + (1.0 - 2.0 * q) * positive * positive) * g_w - above * g_off
    )
    by_slab = g_own * (mean * mean - msg.av[level, b, j] / (q * q)) - msg.g_am[level, b, j] * mean
    msg.g_share[level, b] += by_message + by_slab


@compiled
def _moved(m, v, g, r, rows):  # type: ignore[no-untyped-def]
    """Return mean and variance after rows: one row by its moments, several by adding precisions.

    At least a fifth of the precision remains.
    """
    if rows == 1:
        return m + v * g, v - v * v * r
    new_v = v / max(1.0 + v * r, LEAST_PRECISION_SHARE)
    return m + new_v * g, new_v


@compiled
def _move(mi, vi, gi, ri, rows):  # type: ignore[no-untyped-def]
    for j in range(mi.size):
        m, v = _moved(mi[j], vi[j], gi[j], ri[j], rows)
        good = v > SMALLEST_VARIANCE and v < np.inf and abs(m) < np.inf
        mi[j] = m if good else mi[j]
        vi[j] = v if good else vi[j]


@compiled
def _take_out(net, rows):  # type: ignore[no-untyped-def]
    for k in range(net.m.size):
        cavity = max(
            net.posterior[0, k] - rows * net.factor[0, k], LEAST_CAVITY * net.posterior[0, k]
        )
        net.v[k] = 1.0 / cavity
        net.m[k] = (net.posterior[1, k] - rows * net.factor[1, k]) / cavity


@compiled
def _move_averaged(net, offset, gi, ri, rows, n_data):  # type: ignore[no-untyped-def]
    posterior = net.posterior
    factor = net.factor
    for j in range(gi.size):
        k = offset + j
        m, v = _moved(net.m[k], net.v[k], gi[j], ri[j], rows)
        good = v > SMALLEST_VARIANCE and v < np.inf and abs(m) < np.inf
        precision = 1.0 / v
        out_precision = rows * factor[0, k]
        out_shift = rows * factor[1, k]
        cavity = max(posterior[0, k] - out_precision, LEAST_CAVITY * posterior[0, k])
        factor[0, k] += (precision - cavity - out_precision) / n_data if good else 0.0
        factor[1, k] += (
            (m * precision - (posterior[1, k] - out_shift) - out_shift) / n_data if good else 0.0
        )
        posterior[0, k] = precision if good else posterior[0, k]
        posterior[1, k] = m * precision if good else posterior[1, k]


@compiled
def noise_step(y, mean, variance, share, a, b):  # type: ignore[no-untyped-def]
    """Return log Z of y under N(mean, variance), an atom at 0 and gamma noise, and its gradients.

    Also returned is (a, b) of the gamma distribution with the same E gamma and E gamma^2; if there
    is none with a of at least 2, (a, b) are unchanged.
    """
    centre = mean / share
    slab_variance = max(variance / share - (1.0 - share) * centre * centre, 0.0)
    n0 = b / (a - 1.0)
    once = -n0 / a
    twice = -2.0 * n0 / (a + 1.0)
    s = slab_variance + n0
    e = y - centre
    log_z = log_slab = -0.5 * math.log(2.0 * math.pi * s) - 0.5 * e * e / s
    weight = 1.0
    g_share = 0.0
    first = _log_ratio(s, once, e)
    second = _log_ratio(s, twice, e)
    if share < 1.0:
        log_atom = -0.5 * math.log(2.0 * math.pi * n0) - 0.5 * y * y / n0
        high = max(log_slab, log_atom)
        log_z = high + math.log(
            share * math.exp(log_slab - high) + (1.0 - share) * math.exp(log_atom - high)
        )
        g_share = math.exp(log_slab - log_z) - math.exp(log_atom - log_z)
        weight = share * math.exp(log_slab - log_z)
        first = math.log1p(
            weight * math.expm1(first) + (1.0 - weight) * math.expm1(_log_ratio(n0, once, y))
        )
        second = math.log1p(
            weight * math.expm1(second) + (1.0 - weight) * math.expm1(_log_ratio(n0, twice, y))
        )
    g_own = weight * 0.5 * (e * e / s - 1.0) / s
    g_mean = (weight * e / s - 2.0 * (1.0 - share) * centre * g_own) / share
    g_share += g_own * (centre * centre - variance / (share * share)) - g_mean * centre
    growth = (second - first) - first + math.log1p(1.0 / a)
    new_a = 1.0 / math.expm1(growth) if growth > 0.0 else 0.0
    new_b = new_a * (b / a) * math.exp(-first)
    if not (new_a >= LEAST_SHAPE and new_b > 0.0 and new_a < np.inf and new_b < np.inf):
        new_a = a
        new_b = b
    return log_z, g_mean, g_own / share, g_share, new_a, new_b


@compiled
def noise_steps(y, mean, variance, a, b):  # type: ignore[no-untyped-def]
    """Return the new (a, b), (2, n), of n independent factors without atoms."""
    result = np.empty((2, y.size))
    for k in range(y.size):
        step = noise_step(y[k], mean[k], variance[k], 1.0, a[k], b[k])
        result[0, k] = step[4]
        result[1, k] = step[5]
    return result


@compiled
def _log_ratio(s, change, e):  # type: ignore[no-untyped-def]
    """Return log N(e | 0, s + change) - log N(e | 0, s)."""
    return -0.5 * math.log1p(change / s) + 0.5 * e * e * change / (s * (s + change))

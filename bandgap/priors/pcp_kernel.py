"""`penalized_complexity` for one state of a chain: the density and its gradient in one loop over the inputs."""

import math

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import compiled

Floats = NDArray[np.float64]

MEETING = 0.5  # where the series of psi hands over to its closed form
# of artanh(r) / r - 1 over r^2 up to there, highest power first: the next is under 1e-17
SERIES = tuple(1.0 / (2 * k + 3) for k in range(10, -1, -1))


@compiled
def density_and_pull(
    state: Floats,
    weights: Floats,
    slopes: Floats,
    lam: float,
    noise_shape: float,
    noise_b: float,
    c0: float,
    pull: Floats,
) -> float:
    """Return the log density of a state (log sigma, a_1 ... a_L) and write its gradient into `pull`.

    tau = sum exp(a) has the penalized-complexity prior with rates slopes c, slopes (J, L), and weights (J,), where c =
    softmax(a); sigma^2 and c have those of `pcp_scales`.
    """
    top = state[1:].max()
    grown = np.exp(state[1:] - top)
    log_tau = top + math.log(grown.sum())
    tau, c = math.exp(log_tau), grown / grown.sum()
    rates = np.zeros(len(weights))
    q, m, curvature = 0.0, 0.0, 0.0
    for j in range(len(weights)):
        for layer in range(len(c)):
            rates[j] += slopes[j, layer] * c[layer]
        x = rates[j] * tau
        product = weights[j] * rates[j] ** 2
        bent = product / (1.0 + x)
        q += product * psi_of(x)
        m += bent
        curvature += bent / (1.0 + x)
    root = math.sqrt(q)
    by_distance = 0.5 * lam * tau / root + 0.5 / q
    by_c = np.zeros(len(c))
    for j in range(len(weights)):
        ratio = 1.0 / (1.0 + rates[j] * tau)
        by_rate = weights[j] * rates[j] * ratio * ((1.0 + ratio) / m - by_distance)
        for layer in range(len(c)):
            by_c[layer] += by_rate * slopes[j, layer]
    by_log_tau = -0.5 * lam * tau * m / root + curvature / m - 0.5 * m / q + 1.0
    common, mass, noise = by_log_tau - c0 * len(c), 0.0, noise_b * math.exp(-2.0 * state[0])
    for layer in range(len(c)):
        common -= c[layer] * by_c[layer]
        mass += c0 * (state[1 + layer] - log_tau)
    pull[0] = 2.0 * noise - 2.0 * noise_shape
    for layer in range(len(c)):
        pull[1 + layer] = c[layer] * (by_c[layer] + common) + c0
    of_scale = math.log(0.5 * lam) - lam * tau * root + math.log(m) - 0.5 * math.log(q) + log_tau
    return float(of_scale - 2.0 * noise_shape * state[0] - noise + mass)


@compiled
def psi_of_each(x: Floats) -> Floats:
    """Return `penalized_complexity.psi` of every number of an array (k,)."""
    result = np.empty_like(x)
    for i in range(len(x)):
        result[i] = psi_of(x[i])
    return result


@compiled
def psi_of(x: float) -> float:
    """Return `penalized_complexity.psi` of one number."""
    if x > MEETING:
        return (1.0 - math.log1p(x) / x) / x
    r, series = x / (2.0 + x), 0.0
    for factor in SERIES:
        series = series * (r * r) + factor
    return (1.0 - 2.0 * r * series / (2.0 + x)) / (2.0 + x)

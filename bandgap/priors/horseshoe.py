"""The horseshoe prior (Carvalho, Polson and Scott, 2010): normal with half-Cauchy scales.

delta ~ N(0, s2 tau^2 lambda^2), lambda and tau half-Cauchy, tau optionally truncated. With lambda
integrated out, m = delta^2 / (2 s2 tau^2) and E1 the exponential integral,

    p(delta | s, tau) = (2 pi^3)^(-1/2) / (s tau) exp(m) E1(m);

given delta, r = log(1 + lambda^-2) has the log-concave density exp(m) / E1(m) exp(-m exp(r)), r >
0.
"""

import functools
import math

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.special import exp1

# Bounds of squared scales.
SMALLEST = 1e-250
LARGEST = 1e250
# The spline covers |log m| <= 40 in steps of 1/16: errors are below 1e-8.
_REACH = 40.0
_STEPS = 16
_CELLS = int(2 * _REACH * _STEPS)
_TRIES = 4  # proposals drawn together where the first one was rejected

Floats = NDArray[np.float64]
# Smallest and largest log tau; None for any.
LogRange = tuple[float, float] | None


def log_marginal(log_m: Floats) -> Floats:
    """Return log(exp(m) E1(m)) of log m, accurate to 1e-8 from m = 1e-300 to 1e300.

    A spline is used because scipy's exp1 takes a hundred times as long as a logarithm.
    """
    part = log_m * _STEPS
    part += _REACH * _STEPS
    np.minimum(np.maximum(part, 0.0, out=part), _CELLS, out=part)
    cell = np.minimum(part.astype(np.intp), _CELLS - 1)
    part -= cell
    part /= _STEPS
    cubic, *lower = _coefficients()
    value = cubic[cell]
    for coefficient in lower:
        value *= part
        value += coefficient[cell]
    if log_m.size and (log_m.min() < -_REACH or log_m.max() > _REACH):
        value = np.where(log_m > _REACH, -log_m, value)
        value = np.where(
            log_m < -_REACH, np.log(-np.euler_gamma - np.minimum(log_m, -_REACH)), value
        )
    return value


@functools.cache
def _coefficients() -> tuple[Floats, Floats, Floats, Floats]:
    """Return the spline's coefficients (cells,), from the third power to the zeroth."""
    grid = np.linspace(-_REACH, _REACH, _CELLS + 1)
    m = np.exp(np.minimum(grid, 5.0))
    far = np.exp(-np.maximum(grid, 5.0))  # 1 / m: the asymptotic series reaches rounding there
    series = np.log1p(
        np.polynomial.polynomial.polyval(far, [(-1.0) ** k * math.factorial(k) for k in range(16)])
        - 1.0
    )
    values = np.where(grid > 5.0, series - np.maximum(grid, 5.0), np.log(exp1(m)) + m)
    c = CubicSpline(grid, values).c
    return c[0].copy(), c[1].copy(), c[2].copy(), c[3].copy()


def draw_local_variances(m: Floats, rng: np.random.Generator) -> Floats:
    """Draw lambda^2 (p,) given m = delta^2 / (2 s2 tau^2) > 0, exactly, by rejection."""
    envelope = _envelope(m)
    r, accepted = _propose(envelope, 1, rng)
    result: Floats = r[0]
    open_entries = np.flatnonzero(~accepted[0])
    while open_entries.size:
        r, accepted = _propose(envelope.take(open_entries, axis=1), _TRIES, rng)
        first = accepted.argmax(axis=0), np.arange(open_entries.size)
        result[open_entries] = r[first]  # rejected entries are overwritten in the next round
        open_entries = open_entries[~accepted[first]]
    np.expm1(np.minimum(result, 600.0, out=result), out=result)
    result = np.minimum(np.maximum(1.0 / result, SMALLEST), LARGEST)
    return result


def _envelope(m: Floats) -> Floats:
    """Return m, bend, drop, slope and mass of the envelope of the density of r, (5, p).

    The envelope is 1 up to bend = max(0, -log m), then the tangent exp(drop - slope (r - bend));
    its integral is mass. At least 0.59 of the proposals are accepted for any m.
    """
    low = np.minimum(m, 1.0)
    slope = np.maximum(m, 1.0)
    bend = -np.log(low)
    drop = low - 1.0
    return np.array([m, bend, drop, slope, bend + np.exp(drop) / slope])


def _propose(
    envelope: Floats, tries: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Propose r and return which proposals are accepted, both (tries, p).

    A proposal is accepted if -log(density / envelope) is below a standard exponential number. The
    computation is in place, because it is a large part of a sweep.
    """
    m, bend, drop, slope, mass = envelope
    shape = tries, m.size
    below = rng.random(shape) * mass
    tail, level = rng.standard_exponential((2, *shape))
    outside = below >= bend
    tail *= outside
    level += tail
    level -= outside * drop
    tail /= slope
    tail += np.minimum(below, bend, out=below)
    cost = np.expm1(tail)
    cost *= m
    return tail, cost <= level


def truncated_log_range(p: int) -> tuple[float, float]:
    """Return the logarithms of 1 / p and 1, the range of a truncated tau for p coefficients.

    Van der Pas, Szabo and van der Vaart (2017): tau is about the share of the coefficients that are
    not 0, and the range is from one coefficient to all.
    """
    return -math.log(p), 0.0


def draw_global_scale(n: int, rng: np.random.Generator, *, log_range: LogRange = None) -> Floats:
    """Draw tau (n,) from its prior, the half-Cauchy distribution C+(0, 1) or a part of it."""
    if log_range is None:
        result: Floats = np.tan(0.5 * np.pi * rng.random(n))
        return result
    low, high = np.arctan(np.exp(log_range))
    truncated: Floats = np.tan(low + (high - low) * rng.random(n))
    return truncated


def log_prior_log_tau(log_tau: Floats, *, log_range: LogRange = None) -> Floats:
    """Return the log density of log tau for tau ~ C+(0, 1), up to a constant.

    The result has the shape of `log_tau`, which may be at most 350. It is -inf outside of
    `log_range`.
    """
    result: Floats = log_tau - np.log1p(np.exp(2.0 * log_tau))
    if log_range is not None:
        result = np.where((log_range[0] <= log_tau) & (log_tau <= log_range[1]), result, -np.inf)
    return result

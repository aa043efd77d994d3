r"""The output layer integrated out, for one chain on a CPU, by compiled loops.

The loops start from the products of the features, which are stored times 2 w (`compiled_kernels`).
Matrices this small are factorised here, because a call of LAPACK costs more than the arithmetic.
`test_compiled_force.py` checks the results against `whitened_network.integrate_output`.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled
from bandgap.inference.network.compiled_kernels import Floats, Reals


@compiled
def integrate(
    products: Reals,
    centre: Floats,
    square: float,
    rho: float,
    variance: float,
    twice_width: float,
    largest_signal: float,
    factor: Floats,
    inverse: Floats,
    by_features: Reals,
) -> tuple[bool, float, float]:
    """Integrate the output layer out, with derivatives.

    Parameters
    ----------
    products : (q + 1, q + 1), of the features times 2 w and, last, of the labels
    centre : (q,), centre of the output weights
    square : y'y
    variance : sigma^2
    twice_width : 2 w
    largest_signal : largest trace of rho H'H that is accepted
    factor, inverse : (q, q), overwritten
    by_features : (q + 1, q - 1), overwritten: (H, y) times it is the gradient by the units before
        their gates

    Returns
    -------
    Whether the trace of rho H'H is below `largest_signal` and I + rho H'H has a factor; the
    derivative by log rho; the misfit.
    """
    q = len(centre)
    once = 1.0 / twice_width
    twice = 1.0 / twice_width**2
    match = np.empty(q)
    pull = np.empty(q)
    mean = np.empty(q)
    signal = 0.0
    for i in range(q):
        at_centre = 0.0
        for j in range(q):
            at_centre += products[i, j] * centre[j]
        match[i] = products[i, q] * once
        pull[i] = match[i] - at_centre * twice
        signal += products[i, i] * twice
    if not rho * signal < largest_signal:
        return False, 0.0, 0.0
    for i in range(q):
        for j in range(i + 1):
            factor[i, j] = rho * twice * products[i, j]
        factor[i, i] += 1.0
    if not invert(factor, inverse):
        return False, 0.0, 0.0
    trace = 0.0
    size = 0.0
    explained = 0.0
    misfit = square
    for i in range(q):
        trace += inverse[i, i]
        solved = 0.0
        for j in range(q):
            solved += inverse[i, j] * pull[j]
        mean[i] = centre[i] + rho * solved
        size += solved * solved
        explained += pull[i] * solved
        misfit -= (match[i] + pull[i]) * centre[i]
    for i in range(q):
        for k in range(q - 1):
            by_features[i, k] = -(rho * inverse[i, k] + mean[i] * mean[k] / variance) * twice
    for k in range(q - 1):
        by_features[q, k] = mean[k] * once / variance
    by_log_rho = 0.5 * (trace - q) + 0.5 * rho * size / variance
    return True, by_log_rho, misfit - rho * explained


@compiled
def log_likelihood(
    products: Floats,
    centre: Floats,
    rho: float,
    sigma: float,
    rows: int,
    largest_signal: float,
    factor: Floats,
) -> float:
    """Return log p(y | H) with the output layer integrated out.

    `products` are those of `integrate`, with 2 w = 1. Minus infinity where the trace of rho H'H is
    not below `largest_signal`. `factor` (q, q) is overwritten.
    """
    q = len(centre)
    pull = np.empty(q)
    signal = 0.0
    misfit = products[q, q]
    for i in range(q):
        at_centre = 0.0
        for j in range(q):
            at_centre += products[i, j] * centre[j]
            factor[i, j] = rho * products[i, j]
        factor[i, i] += 1.0
        pull[i] = products[i, q] - at_centre
        misfit -= (products[i, q] + pull[i]) * centre[i]
        signal += products[i, i]
    if not (rho * signal < largest_signal and factorise(factor)):
        return -np.inf
    value = -0.5 * rows * math.log(2.0 * math.pi) - rows * math.log(sigma)
    for i in range(q):  # forward substitution: C^-1 pull
        for k in range(i):
            pull[i] -= factor[i, k] * pull[k]
        pull[i] /= factor[i, i]
        misfit -= rho * pull[i] * pull[i]
        value -= math.log(factor[i, i])
    return float(value - 0.5 * misfit / sigma**2)


@compiled
def factorise(a: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by its Cholesky factor.

    Returns whether the matrix has one.
    """
    for i in range(len(a)):
        for j in range(i + 1):
            remainder = a[i, j]
            for k in range(j):
                remainder -= a[i, k] * a[j, k]
            if j < i:
                a[i, j] = remainder / a[j, j]
            elif remainder > 0.0:
                a[i, i] = math.sqrt(remainder)
            else:
                return False
    return True


@compiled
def invert(a: Floats, inverse: Floats) -> bool:
    """Write the inverse of the symmetric matrix with the lower triangle of `a`.

    `a` is overwritten. Returns whether the matrix is positive definite.
    """
    q = len(a)
    if not factorise(a):
        return False
    for i in range(q):  # C^-1, in place: row i of C is not needed after it
        row = a[i, : i + 1].copy()
        reciprocal = 1.0 / a[i, i]
        a[i, : i + 1] = 0.0
        for k in range(i):
            for j in range(k + 1):
                a[i, j] -= row[k] * reciprocal * a[k, j]
        a[i, i] = reciprocal
    inverse[:] = 0.0
    for k in range(q):
        for i in range(k + 1):
            for j in range(i + 1):
                inverse[i, j] += a[k, i] * a[k, j]
    for i in range(q):
        for j in range(i):
            inverse[j, i] = inverse[i, j]
    return True

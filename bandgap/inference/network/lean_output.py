r"""The output layer integrated out, for one chain on a CPU: compiled loops over the products of its features.

Features are kept times 2 w, as in `lean_kernels`. Factors of matrices this small are made here: a call of LAPACK costs
more than they do.
"""

import math

import numpy as np

from bandgap.foundation.machine import compiled
from bandgap.inference.network.lean_kernels import Floats, Reals


@compiled
def integrate(
    products: Reals,
    start: Floats,
    square: float,
    rho: float,
    variance: float,
    doubled: float,
    roughest: float,
    factor: Floats,
    inverse: Floats,
    tail: Reals,
) -> tuple[bool, float, float]:
    """Integrate the output layer out, given the products (q + 1, q + 1) of the features and, last, the labels.

    Returns whether the trace of rho H'H is below `roughest` and I + rho H'H has a factor, the derivative by log rho,
    and the misfit; writes into `tail` (q + 1, k) what (H, y) is multiplied by for the gradient by the units before
    their gates. `start` (q,) is the centre of the output weights, `square` is y'y; `factor` and `inverse` (q, q) are
    overwritten.
    """
    q = len(start)
    once, twice = 1.0 / doubled, 1.0 / doubled**2
    match, pull, mean, strength = np.empty(q), np.empty(q), np.empty(q), 0.0
    for i in range(q):
        seen = 0.0
        for j in range(q):
            seen += products[i, j] * start[j]
        match[i] = products[i, q] * once
        pull[i] = match[i] - seen * twice
        strength += products[i, i] * twice
    if not rho * strength < roughest:
        return False, 0.0, 0.0
    for i in range(q):
        for j in range(i + 1):
            factor[i, j] = rho * twice * products[i, j]
        factor[i, i] += 1.0
    if not invert(factor, inverse):
        return False, 0.0, 0.0
    trace, size, gained, misfit = 0.0, 0.0, 0.0, square
    for i in range(q):
        trace += inverse[i, i]
        solved = 0.0
        for j in range(q):
            solved += inverse[i, j] * pull[j]
        mean[i] = start[i] + rho * solved
        size += solved * solved
        gained += pull[i] * solved
        misfit -= (match[i] + pull[i]) * start[i]
    for i in range(q):
        for k in range(q - 1):
            tail[i, k] = -(rho * inverse[i, k] + mean[i] * mean[k] / variance) * twice
    for k in range(q - 1):
        tail[q, k] = mean[k] * once / variance
    return True, 0.5 * (trace - q) + 0.5 * rho * size / variance, misfit - rho * gained


@compiled
def log_likelihood(
    products: Floats,
    start: Floats,
    rho: float,
    sigma: float,
    rows: int,
    largest: float,
    factor: Floats,
) -> float:
    """Return log p(y | H) with the output layer integrated out, given the products of `integrate`, but undoubled.

    Minus infinity where the trace of rho H'H is not below `largest`. `factor` (q, q) is overwritten.
    """
    q = len(start)
    pull, strength, misfit = np.empty(q), 0.0, products[q, q]
    for i in range(q):
        seen = 0.0
        for j in range(q):
            seen += products[i, j] * start[j]
            factor[i, j] = rho * products[i, j]
        factor[i, i] += 1.0
        pull[i] = products[i, q] - seen
        misfit -= (products[i, q] + pull[i]) * start[i]
        strength += products[i, i]
    if not (rho * strength < largest and factorise(factor)):
        return -np.inf
    value = -0.5 * rows * math.log(2.0 * math.pi) - rows * math.log(sigma)
    for i in range(q):  # of C^-1 pull, one after the other
        for k in range(i):
            pull[i] -= factor[i, k] * pull[k]
        pull[i] /= factor[i, i]
        misfit -= rho * pull[i] * pull[i]
        value -= math.log(factor[i, i])
    return float(value - 0.5 * misfit / sigma**2)


@compiled
def factorise(a: Floats) -> bool:
    """Overwrite the lower triangle of a symmetric matrix by Cholesky's factor, row by row; say whether it has one."""
    for i in range(len(a)):
        for j in range(i + 1):
            left = a[i, j]
            for k in range(j):
                left -= a[i, k] * a[j, k]
            if j < i:
                a[i, j] = left / a[j, j]
            elif left > 0.0:
                a[i, i] = math.sqrt(left)
            else:
                return False
    return True


@compiled
def invert(a: Floats, inverse: Floats) -> bool:
    """Write the inverse of a symmetric matrix whose lower triangle `a` holds; overwrite it; say whether it has one."""
    q = len(a)
    if not factorise(a):
        return False
    for i in range(q):  # C^-1, in place: row i of C is not needed after it
        row, shrink = a[i, : i + 1].copy(), 1.0 / a[i, i]
        a[i, : i + 1] = 0.0
        for k in range(i):
            for j in range(k + 1):
                a[i, j] -= row[k] * shrink * a[k, j]
        a[i, i] = shrink
    inverse[:] = 0.0
    for k in range(q):
        for i in range(k + 1):
            for j in range(i + 1):
                inverse[i, j] += a[k, i] * a[k, j]
    for i in range(q):
        for j in range(i):
            inverse[j, i] = inverse[i, j]
    return True

r"""What `lean_force` is made of: matrix products, and what stands between them as loops, each one pass over its arrays.

With y = x + w and c = min(max(y, 0), 2 w), the rounded ReLU (`soft_rectifier`) is (y - c / 2) c / (2 w) and its gate
c / (2 w). Features are kept as (y - c / 2) c and gates as c: the factors 2 w go into the weights beside them.

The products themselves, into arrays made before, are made by the faster of two libraries on this processor: torch's
(MKL) keeps to registers of half the width on processors that are not Intel's. `bandgap bench products` measures both:
on a Zen 5, numpy's took 0.57 of the time (0.9 where OpenBLAS was told to keep to half the width too).
"""

import math
import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.foundation.machine import compiled

Reals = NDArray[np.floating]
Floats = NDArray[np.float64]

MANY = 1e100


def by_numpy(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it; silent on numbers out of range, as the other one is."""
    with np.errstate(over="ignore", invalid="ignore"):
        np.dot(a.numpy(), b.numpy(), out=out.numpy())
    return out


def by_torch(a: Tensor, b: Tensor, *, out: Tensor) -> Tensor:
    """Write a @ b into `out` and return it."""
    return torch.mm(a, b, out=out)


def _made_by_amd() -> bool:
    """Return whether this processor is one of AMD's, as Linux or Windows says; False where nobody says."""
    try:
        said = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        said = os.environ.get("PROCESSOR_IDENTIFIER", "")
    return "AuthenticAMD" in said


multiply = by_numpy if _made_by_amd() else by_torch


@compiled
def rectify_first(
    added: Reals, shifted: Reals, rest: Reals, s: float, doubled: float, gate: Reals, wide: Reals
) -> None:
    """Write gates (n, k) and features (n, k + 1 or more) of y = shifted + s (added + rest), all (n, k)."""
    scale, most, half, none = (
        added.dtype.type(s),
        added.dtype.type(doubled),
        added.dtype.type(0.5),
        added.dtype.type(0.0),
    )
    for row in range(added.shape[0]):
        for k in range(added.shape[1]):
            y = shifted[row, k] + scale * (added[row, k] + rest[row, k])
            c = min(max(y, none), most)
            gate[row, k] = c
            wide[row, k] = (y - half * c) * c


@compiled
def rectify(y: Reals, doubled: float, gate: Reals, wide: Reals) -> None:
    """Write gates (n, k) and features (n, k + 1 or more) of y (n, k)."""
    most, half, none = y.dtype.type(doubled), y.dtype.type(0.5), y.dtype.type(0.0)
    for row in range(y.shape[0]):
        for k in range(y.shape[1]):
            c = min(max(y[row, k], none), most)
            gate[row, k] = c
            wide[row, k] = (y[row, k] - half * c) * c


@compiled
def rectify_exactly(added: Reals, base: Reals, s: float, wide: Reals) -> None:
    """Write max(base + s added, 0) (n, k) into the first columns of `wide`; `base` has n rows or one."""
    scale, none, rows = added.dtype.type(s), added.dtype.type(0.0), base.shape[0]
    for row in range(added.shape[0]):
        of = row if rows > 1 else 0
        for k in range(added.shape[1]):
            wide[row, k] = max(base[of, k] + scale * added[row, k], none)


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
    products: Floats, start: Floats, rho: float, sigma: float, rows: int, largest: float, factor: Floats
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


@compiled
def gate_first(g: Reals, gate: Reals, rest: Reals) -> float:
    """Multiply g (n, k) by the gates, and return its product with `rest`, summed."""
    total = 0.0
    for row in range(g.shape[0]):
        along = g.dtype.type(0.0)
        for k in range(g.shape[1]):
            g[row, k] *= gate[row, k]
            along += g[row, k] * rest[row, k]
        total += float(along)
    return total


@compiled
def enter_directions(zeta: Reals, information: Reals, grown: float, factor: Reals, turned: Reals) -> None:
    """Write f = (1 + information grown)^(-1/2) and z = f zeta in a frame's directions; all (out, in)."""
    one, times = zeta.dtype.type(1.0), zeta.dtype.type(grown)
    for i in range(zeta.shape[0]):
        for j in range(zeta.shape[1]):
            f = one / np.sqrt(one + information[i, j] * times)
            factor[i, j] = f
            turned[i, j] = zeta[i, j] * f


@compiled
def leave_directions(by_z: Reals, turned: Reals, factor: Reals, zeta: Reals, by_zeta: Reals) -> float:
    """Write the gradient by zeta, given that by z in a frame's directions; return what is gained by log s (negative).

    See `partial_centring.Place.force`: the return value is the sum of (1 - f^2) (z (by_z - z) + 1).
    """
    one, total = zeta.dtype.type(1.0), 0.0
    for i in range(zeta.shape[0]):
        along = zeta.dtype.type(0.0)
        for j in range(zeta.shape[1]):
            f, y = factor[i, j], by_z[i, j] - turned[i, j]
            along += (one - f * f) * (turned[i, j] * y + one)
            by_zeta[i, j] = y * f + zeta[i, j]
        total += float(along)
    return total


@compiled
def gained_in_directions(zeta: Reals, information: Reals, grown: float) -> float:
    """Return the sum of (zeta^2 - z^2) / 2 + log(z / zeta) (`partial_centring.Place.added`)."""
    total, shrunk = 0.0, 1.0
    for i in range(zeta.shape[0]):
        for j in range(zeta.shape[1]):
            lam, at = information[i, j] * grown, float(zeta[i, j])
            total += 0.5 * at * at * (lam / (1.0 + lam))
            shrunk *= 1.0 + lam
            if shrunk > MANY:  # one logarithm for many
                total -= 0.5 * math.log(shrunk)
                shrunk = 1.0
    return total - 0.5 * math.log(shrunk)


@compiled
def kick_and_turn(q: Reals, v: Reals, force: Reals, kick: float, shear: float, sin: float) -> None:
    """Kick v by `kick` times the force, then rotate (q, v) by three shears (`joint_hmc.rotate`); all (size,)."""
    e, a, b = q.dtype.type(kick), q.dtype.type(shear), q.dtype.type(sin)
    for i in range(len(q)):
        u = v[i] + e * force[i]
        at = q[i] + a * u
        u -= b * at
        v[i] = u
        q[i] = at + a * u

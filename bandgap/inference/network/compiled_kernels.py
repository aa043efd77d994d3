r"""Matrix products and compiled loops for one chain on a CPU.

`compiled_force` and `compiled_density` are made of them. With y = x + w and
c = min(max(y, 0), 2 w), the rounded ReLU (`soft_rectifier`) is (y - c / 2) c / (2 w), and its gate
is c / (2 w). Features are stored as (y - c / 2) c and gates as c. The factors 2 w go into the next
layer's weights.

Products are written into existing arrays by numpy on processors of AMD and by torch elsewhere.
torch's library (MKL) uses registers of half the width on processors that are not Intel's.
`python -m benchmarks products` measures both.
"""

import math
import os
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.machine import compiled

Reals = NDArray[np.floating]
Floats = NDArray[np.float64]

LARGE_PRODUCT = 1e100  # of factors, at which their logarithm is taken


def by_numpy(a: Reals, b: Reals, *, out: Reals) -> Reals:
    """Write a @ b into `out` and return it. On overflow numpy warns, unless within `silent`."""
    np.dot(a, b, out=out)
    return out


def by_torch(a: Reals, b: Reals, *, out: Reals) -> Reals:
    """Write a @ b into `out` and return it."""
    torch.mm(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))
    return out


def silent() -> np.errstate:
    """Return the context, or decorator, in which overflow and invalid numbers give no warning."""
    return np.errstate(over="ignore", invalid="ignore")


def _is_amd_processor() -> bool:
    """Return whether this is a processor of AMD, as Linux or Windows says; False if unknown."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        processor = text.partition("\n\n")[0]
    except OSError:
        processor = os.environ.get("PROCESSOR_IDENTIFIER", "")
    return "AuthenticAMD" in processor


multiply = by_numpy if _is_amd_processor() else by_torch


@compiled
def rectify_first(
    added: Reals,
    shifted: Reals,
    fixed: Reals,
    s: float,
    twice_width: float,
    gate: Reals,
    wide: Reals,
) -> None:
    """Write gates (n, k) and features (n, k + 1 or more) of y = shifted + s (added + fixed).

    All of these are (n, k).
    """
    scale = added.dtype.type(s)
    most = added.dtype.type(twice_width)
    half = added.dtype.type(0.5)
    zero = added.dtype.type(0.0)
    for row in range(added.shape[0]):
        for k in range(added.shape[1]):
            y = shifted[row, k] + scale * (added[row, k] + fixed[row, k])
            c = min(max(y, zero), most)
            gate[row, k] = c
            wide[row, k] = (y - half * c) * c


@compiled
def rectify(y: Reals, twice_width: float, gate: Reals, wide: Reals) -> None:
    """Write gates (n, k) and features (n, k + 1 or more) of y (n, k)."""
    most = y.dtype.type(twice_width)
    half = y.dtype.type(0.5)
    zero = y.dtype.type(0.0)
    for row in range(y.shape[0]):
        for k in range(y.shape[1]):
            c = min(max(y[row, k], zero), most)
            gate[row, k] = c
            wide[row, k] = (y[row, k] - half * c) * c


@compiled
def rectify_exactly(added: Reals, base: Reals, s: float, wide: Reals) -> None:
    """Write max(base + s added, 0) (n, k) into the first columns of `wide`.

    `base` has n rows or one.
    """
    scale = added.dtype.type(s)
    zero = added.dtype.type(0.0)
    rows = base.shape[0]
    for row in range(added.shape[0]):
        base_row = row if rows > 1 else 0
        for k in range(added.shape[1]):
            wide[row, k] = max(base[base_row, k] + scale * added[row, k], zero)


@compiled
def add_scaled(a: Reals, b: Reals, scale: float, out: Reals) -> None:
    """Write a + scale b into `out`; all (n, k)."""
    factor = a.dtype.type(scale)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + factor * b[i, j]


@compiled
def inner(a: Reals, b: Reals) -> float:
    """Return the sum of a b, both (n, k): each row in its own precision, their sum in float64."""
    total = 0.0
    for i in range(a.shape[0]):
        row_sum = a.dtype.type(0.0)
        for j in range(a.shape[1]):
            row_sum += a[i, j] * b[i, j]
        total += float(row_sum)
    return total


@compiled
def square(a: Reals) -> float:
    """Return the sum of squares of a (size,), in float64."""
    total = 0.0
    for value in a:
        total += float(value) * float(value)
    return total


@compiled
def gate_first(g: Reals, gate: Reals, fixed: Reals) -> float:
    """Multiply g (n, k) by the gates, and return the sum of its product with `fixed`."""
    total = 0.0
    for row in range(g.shape[0]):
        row_sum = g.dtype.type(0.0)
        for k in range(g.shape[1]):
            g[row, k] *= gate[row, k]
            row_sum += g[row, k] * fixed[row, k]
        total += float(row_sum)
    return total


@compiled
def scale_directions(
    zeta: Reals, information: Reals, relative: float, factor: Reals, rotated: Reals
) -> None:
    """Write f = (1 + information relative)^(-1/2) and f zeta, z in a frame's directions.

    All are (out, in).
    """
    one = zeta.dtype.type(1.0)
    times = zeta.dtype.type(relative)
    for i in range(zeta.shape[0]):
        for j in range(zeta.shape[1]):
            f = one / np.sqrt(one + information[i, j] * times)
            factor[i, j] = f
            rotated[i, j] = zeta[i, j] * f


@compiled
def gradient_by_zeta(
    by_z: Reals, rotated: Reals, factor: Reals, zeta: Reals, by_zeta: Reals
) -> float:
    """Write the gradient by zeta, from that by z in a frame's directions.

    Returns the sum of (1 - f^2) (z (by_z - z) + 1), which is minus what the derivative by log s
    gains (`partial_centring.FramePoint.gradients`).
    """
    one = zeta.dtype.type(1.0)
    total = 0.0
    for i in range(zeta.shape[0]):
        row_sum = zeta.dtype.type(0.0)
        for j in range(zeta.shape[1]):
            f = factor[i, j]
            y = by_z[i, j] - rotated[i, j]
            row_sum += (one - f * f) * (rotated[i, j] * y + one)
            by_zeta[i, j] = y * f + zeta[i, j]
        total += float(row_sum)
    return total


@compiled
def log_density_change(zeta: Reals, information: Reals, relative: float) -> float:
    """Return the sum of (zeta^2 - z^2) / 2 + log(z / zeta).

    This is `partial_centring.FramePoint.log_density_change` of one layer and chain.
    """
    total = 0.0
    product = 1.0
    for i in range(zeta.shape[0]):
        for j in range(zeta.shape[1]):
            lam = information[i, j] * relative
            value = float(zeta[i, j])
            total += 0.5 * value * value * (lam / (1.0 + lam))
            product *= 1.0 + lam
            if product > LARGE_PRODUCT:  # one logarithm for many factors
                total -= 0.5 * math.log(product)
                product = 1.0
    return total - 0.5 * math.log(product)


@compiled
def kick(v: Reals, force: Reals, size: float) -> None:
    """Add `size` times the force to v, both (size,)."""
    e = v.dtype.type(size)
    for i in range(len(v)):
        v[i] += e * force[i]


@compiled
def kick_and_rotate(
    q: Reals, v: Reals, force: Reals, size: float, shear: float, sin: float
) -> None:
    """Kick v, then rotate (q, v) by three shears (`joint_hmc.rotate`); all (size,)."""
    e = q.dtype.type(size)
    a = q.dtype.type(shear)
    b = q.dtype.type(sin)
    for i in range(len(q)):
        kicked = v[i] + e * force[i]
        sheared = q[i] + a * kicked
        kicked -= b * sheared
        v[i] = kicked
        q[i] = sheared + a * kicked

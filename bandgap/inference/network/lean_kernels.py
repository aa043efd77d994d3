r"""What `lean_force` is made of: matrix products, and what stands between them as loops, each one pass over its arrays.

With y = x + w and c = min(max(y, 0), 2 w), the rounded ReLU (`soft_rectifier`) is (y - c / 2) c / (2 w) and its gate
c / (2 w). Features are kept as (y - c / 2) c and gates as c: the factors 2 w go into the weights beside them.

The products themselves, into arrays made before, are made by the faster of two libraries on this processor: torch's
(MKL) keeps to registers of half the width on processors that are not Intel's. `python -m benchmarks products` measures
both: on a Zen 5, numpy's took 0.57 of the time (0.9 where OpenBLAS was told to keep to half the width too).
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

MANY = 1e100


def by_numpy(a: Reals, b: Reals, *, out: Reals) -> Reals:
    """Write a @ b into `out` and return it. Numbers out of range warn: `silent` is for whoever calls it."""
    np.dot(a, b, out=out)
    return out


def by_torch(a: Reals, b: Reals, *, out: Reals) -> Reals:
    """Write a @ b into `out` and return it."""
    torch.mm(torch.from_numpy(a), torch.from_numpy(b), out=torch.from_numpy(out))
    return out


def silent() -> np.errstate:
    """Return the context, or decorator, of products whose numbers may leave their range: entered once for many."""
    return np.errstate(over="ignore", invalid="ignore")


def _made_by_amd() -> bool:
    """Return whether this processor is one of AMD's, as Linux or Windows says; False where nobody says."""
    try:
        said = (
            Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
        )
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
def add_scaled(a: Reals, b: Reals, scale: float, out: Reals) -> None:
    """Write a + scale b into `out`; all (n, k)."""
    times = a.dtype.type(scale)
    for i in range(a.shape[0]):
        for j in range(a.shape[1]):
            out[i, j] = a[i, j] + times * b[i, j]


@compiled
def inner(a: Reals, b: Reals) -> float:
    """Return the sum of a b, both (n, k): rows in their own precision, their sum in float64."""
    total = 0.0
    for i in range(a.shape[0]):
        along = a.dtype.type(0.0)
        for j in range(a.shape[1]):
            along += a[i, j] * b[i, j]
        total += float(along)
    return total


@compiled
def square(a: Reals) -> float:
    """Return the sum of squares of a (size,), added up in float64."""
    total = 0.0
    for value in a:
        total += float(value) * float(value)
    return total


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
def enter_directions(
    zeta: Reals, information: Reals, grown: float, factor: Reals, turned: Reals
) -> None:
    """Write f = (1 + information grown)^(-1/2) and z = f zeta in a frame's directions; all (out, in)."""
    one, times = zeta.dtype.type(1.0), zeta.dtype.type(grown)
    for i in range(zeta.shape[0]):
        for j in range(zeta.shape[1]):
            f = one / np.sqrt(one + information[i, j] * times)
            factor[i, j] = f
            turned[i, j] = zeta[i, j] * f


@compiled
def leave_directions(
    by_z: Reals, turned: Reals, factor: Reals, zeta: Reals, by_zeta: Reals
) -> float:
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
def kick_only(v: Reals, force: Reals, kick: float) -> None:
    """Kick v by `kick` times the force, both (size,)."""
    e = v.dtype.type(kick)
    for i in range(len(v)):
        v[i] += e * force[i]


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

r"""Passes over the rows: assumed-density filtering, or stochastic EP, by single rows or by a few at once.

A row moves every weight to the mean and variance of the posterior under this row alone (Hernandez-Lobato and Adams
2015, equations 6 and 7). Passes of assumed-density filtering count the rows again every time. Stochastic EP (Li,
Hernandez-Lobato and Turner 2015) takes the averaged factor of one row out before a row comes in, and moves the average
towards the row's own factor by 1 / n: no row is counted twice. Of B rows at once, whose messages are of the same
weights, sum g_m and sum (g_m^2 - 2 g_v) move the weights: 1 / v + R, m + v_new G.
"""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.assumed_density.belief import (
    Belief,
    Floats,
    Gamma,
    LikelihoodSites,
    Weights,
    unflattened,
)
from bandgap.inference.assumed_density.row_arrays import message_arrays, network_arrays
from bandgap.inference.assumed_density.row_kernels import backward, forward, noise_step, run_rows

MOST_AT_ONCE: Final = 10  # 32 diverge: each corrects the same residual
ROWS_BETWEEN_UPDATES: Final = 200


@dataclass(frozen=True, eq=False)
class Taken:
    """What a pass says: log Z (n,) of the rows in the order in which they came, and how many came at once."""

    log_z: Floats
    batch: int


def take_in(
    belief: Belief,
    x: Floats,
    y: Floats,
    *,
    rng: np.random.Generator,
    batch: int = 1,
    atoms: bool = False,
    phase: str = "taking in rows",
    progress: Progress = no_progress,
) -> tuple[Belief, Taken]:
    """Take in all rows x (n, p), y (n,), standardised, once, in a random order; `atoms` for the messages of SSPBP.

    A pass in which several rows at once do not fit starts again with half as many. Raises ConfigError for a `batch`
    that is not 1 to 10, InputError for rows of another shape or numbers that are not finite.
    """
    if not 1 <= batch <= MOST_AT_ONCE:
        raise ConfigError(
            f"{batch} rows at once. Accepted: 1 to {MOST_AT_ONCE}; more of them diverge."
        )
    _check(belief.weights, x, y)
    order = rng.permutation(y.size)
    rows, labels = (
        np.ascontiguousarray(x[order], dtype=np.float64),
        np.asarray(y[order], dtype=np.float64),
    )
    while True:
        found = _one_pass(belief, rows, labels, batch, atoms=atoms, phase=phase, progress=progress)
        if found is not None:
            return found
        batch = max(1, batch // 2)
        phase = f"{phase}, {batch} at once"


def _one_pass(
    belief: Belief, x: Floats, y: Floats, batch: int, *, atoms: bool, phase: str, progress: Progress
) -> tuple[Belief, Taken] | None:
    net, messages = (
        network_arrays(belief.weights, atoms=atoms, belief=belief),
        message_arrays(belief.weights, batch),
    )
    site = belief.likelihood
    factor = (0.0, 0.0) if site is None else (site.shape, site.rate)
    noise, log_z = np.array([belief.noise.shape, belief.noise.rate, *factor]), np.zeros(y.size)
    step = ROWS_BETWEEN_UPDATES // batch * batch
    for start in range(0, y.size, step):
        part = slice(start, min(start + step, y.size))
        progress(Update(phase, start, y.size))
        if run_rows(x[part], y[part], net, messages, float(y.size), noise, log_z[part]) < len(
            y[part]
        ):
            return None
    m, v = net.m, net.v
    if site is not None:
        v = 1.0 / net.whole[0]
        m = net.whole[1] * v
        site = LikelihoodSites(net.factor[0], net.factor[1], float(noise[2]), float(noise[3]))
    like = belief.weights.means
    weights = Weights(unflattened(m, like), unflattened(v, like), belief.weights.biased)
    moved = replace(
        belief, weights=weights, noise=Gamma(float(noise[0]), float(noise[1])), likelihood=site
    )
    return moved, Taken(log_z, batch)


@dataclass(frozen=True, eq=False)
class Gradients:
    """Of log Z of rows (n,): sums over them of g_m, and of g_m^2 - 2 g_v, for the weights of every layer."""

    log_z: Floats
    mean: tuple[Floats, ...]
    precision: tuple[Floats, ...]


def gradients(
    weights: Weights, x: Floats, y: Floats, *, noise: Gamma, atoms: bool = False
) -> Gradients:
    """Return the gradients of log Z of rows x (n, p), y (n,), all under the same weights and noise."""
    _check(weights, x, y)
    n, last = y.size, len(weights.means) - 1
    net, msg = network_arrays(weights, atoms=atoms), message_arrays(weights, n)
    forward(np.ascontiguousarray(x, dtype=np.float64), net, msg)
    log_z, found = np.empty(n), np.zeros((2, net.m.size))
    for b in range(n):
        log_z[b], msg.g_am[last, b, 0], msg.g_av[last, b, 0], msg.g_share[last, b], _, _ = (
            noise_step(
                float(y[b]),
                msg.am[last, b, 0],
                msg.av[last, b, 0],
                msg.share[last, b],
                noise.shape,
                noise.rate,
            )
        )
    backward(net, msg, n, float(n), found, False)
    return Gradients(log_z, *(unflattened(part, weights.means) for part in found))


def _check(weights: Weights, x: Floats, y: Floats) -> None:
    if x.ndim != 2 or x.shape != (y.size, weights.n_inputs) or not y.size:
        raise InputError(
            f"rows have shape {x.shape}, labels {y.shape}. Accepted: (n, {weights.n_inputs}) and (n,), at least one."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("rows or labels are not finite. Leave such rows out first.")

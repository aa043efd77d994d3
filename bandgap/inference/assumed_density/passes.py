"""Passes over the rows: assumed-density filtering or stochastic EP, one or several rows at a time.

A row moves every weight to the mean and variance of the posterior given this row alone
(Hernandez-Lobato and Adams 2015, equations 6 and 7). Assumed-density filtering counts the rows
again in every pass. Stochastic EP (Li, Hernandez-Lobato and Turner 2015) removes the averaged
factor of one row before it adds a row, and then moves the average towards the row's factor by 1 /
n: no row is counted twice. A batch of B rows has messages of the same weights; sum g_m = G and sum
(g_m^2 - 2 g_v) = R move the weights by 1 / v + R and m + v_new G.
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

MAX_BATCH: Final = 10  # with 32 rows passes diverge: each row corrects the same residual
ROWS_BETWEEN_UPDATES: Final = 200


@dataclass(frozen=True, eq=False)
class PassResult:
    """Results of a pass.

    `log_z` (n,) of the rows in their random order, and the number of rows of a batch.
    """

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
) -> tuple[Belief, PassResult]:
    """Update the belief by one pass over rows in a random order.

    Parameters
    ----------
    belief
        The belief before the pass.
    x, y
        Standardised rows (n, p) and labels (n,).
    rng
        Generator of the order.
    batch
        Rows at a time, 1 to 10. A pass in which they fit badly restarts with half as many.
    atoms
        Whether the messages are those of SSPBP.
    phase, progress
        Name of the phase and function for progress reports.

    Raises
    ------
    ConfigError
        `batch` is not 1 to 10.
    InputError
        Rows have another shape, or numbers are not finite.
    """
    if not 1 <= batch <= MAX_BATCH:
        raise ConfigError(
            f"{batch} rows at a time. Accepted: 1 to {MAX_BATCH}; passes with more diverge."
        )
    _check(belief.weights, x, y)
    order = rng.permutation(y.size)
    rows = np.ascontiguousarray(x[order], dtype=np.float64)
    labels = np.asarray(y[order], dtype=np.float64)
    while True:
        result = _one_pass(belief, rows, labels, batch, atoms=atoms, phase=phase, progress=progress)
        if result is not None:
            return result
        batch = max(1, batch // 2)
        phase = f"{phase}, {batch} at a time"


def _one_pass(
    belief: Belief, x: Floats, y: Floats, batch: int, *, atoms: bool, phase: str, progress: Progress
) -> tuple[Belief, PassResult] | None:
    net = network_arrays(belief.weights, atoms=atoms, belief=belief)
    messages = message_arrays(belief.weights, batch)
    site = belief.likelihood
    factor = (0.0, 0.0) if site is None else (site.shape, site.rate)
    noise = np.array([belief.noise.shape, belief.noise.rate, *factor])
    log_z = np.zeros(y.size)
    step = ROWS_BETWEEN_UPDATES // batch * batch
    for start in range(0, y.size, step):
        part = slice(start, min(start + step, y.size))
        progress(Update(phase, start, y.size))
        n_used = run_rows(x[part], y[part], net, messages, float(y.size), noise, log_z[part])
        if n_used < len(y[part]):
            return None
    m = net.m
    v = net.v
    if site is not None:
        v = 1.0 / net.posterior[0]
        m = net.posterior[1] * v
        site = LikelihoodSites(net.factor[0], net.factor[1], float(noise[2]), float(noise[3]))
    like = belief.weights.means
    weights = Weights(unflattened(m, like), unflattened(v, like), belief.weights.biased)
    moved = replace(
        belief, weights=weights, noise=Gamma(float(noise[0]), float(noise[1])), likelihood=site
    )
    return moved, PassResult(log_z, batch)


@dataclass(frozen=True, eq=False)
class Gradients:
    """Gradients of log Z of rows (n,), summed over rows, for the weights of every layer.

    `mean` are sums of g_m, `precision` sums of g_m^2 - 2 g_v.
    """

    log_z: Floats
    mean: tuple[Floats, ...]
    precision: tuple[Floats, ...]


def gradients(
    weights: Weights, x: Floats, y: Floats, *, noise: Gamma, atoms: bool = False
) -> Gradients:
    """Return the gradients of log Z of rows x (n, p), y (n,) under the same weights and noise."""
    _check(weights, x, y)
    n = y.size
    last = len(weights.means) - 1
    net = network_arrays(weights, atoms=atoms)
    msg = message_arrays(weights, n)
    forward(np.ascontiguousarray(x, dtype=np.float64), net, msg)
    log_z = np.empty(n)
    sums = np.zeros((2, net.m.size))
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
    backward(net, msg, n, float(n), sums, False)
    return Gradients(log_z, *(unflattened(part, weights.means) for part in sums))


def _check(weights: Weights, x: Floats, y: Floats) -> None:
    if x.ndim != 2 or x.shape != (y.size, weights.n_inputs) or not y.size:
        raise InputError(
            f"rows have shape {x.shape}, labels {y.shape}. Accepted: (n, {weights.n_inputs}) and "
            "(n,), at least one."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("rows or labels are not finite. Leave such rows out first.")

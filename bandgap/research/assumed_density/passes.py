"""Passes over the rows: assumed-density filtering or stochastic EP, one or several rows at a time.

A row moves every weight to the mean and variance of the posterior given this row alone
(Hernandez-Lobato and Adams 2015, equations 6 and 7). Assumed-density filtering counts the rows
again in every pass. Stochastic EP (Li, Hernandez-Lobato and Turner 2015) removes the averaged
factor of one row before it adds a row, and then moves the average towards the row's factor by 1 /
n: no row is counted twice. A batch of B rows has messages of the same weights; sum g_m = G and sum
(g_m^2 - 2 g_v) = R move the weights by 1 / v + R and m + v_new G. Gradients are those of autograd,
with a copy of the weights for every row of a batch.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.assumed_density.belief import (
    Belief,
    Floats,
    Gamma,
    LikelihoodSites,
    Weights,
    flattened,
    unflattened,
)
from bandgap.research.assumed_density.moments import Moments, propagate
from bandgap.research.assumed_density.noise import LEAST_SHAPE, noise_step

MAX_BATCH: Final = 10  # with 32 rows passes diverge: each row corrects the same residual
ROWS_BETWEEN_UPDATES: Final = 200
SMALLEST_VARIANCE: Final = 1e-100  # of a weight
LEAST_PRECISION_SHARE: Final = 0.2  # of a weight's precision after several rows
LEAST_CAVITY: Final = 1e-3  # of a weight's precision after its averaged factor is taken out
WORST_LOG_Z: Final = -50.0  # mean of a batch; below it rows corrected the same residual too often


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


@dataclass(eq=False)
class _State:
    """What a pass changes.

    `weights` (2, weight) are precision and shift of every weight's posterior, `noise` (2,) shape
    and rate. The factors are those of one averaged row, which moves by `step` with every row; all
    are zero for assumed-density filtering.
    """

    weights: Tensor
    noise: Tensor
    weights_factor: Tensor
    noise_factor: Tensor
    step: float


def _one_pass(
    belief: Belief, x: Floats, y: Floats, batch: int, *, atoms: bool, phase: str, progress: Progress
) -> tuple[Belief, PassResult] | None:
    state = _state_of(belief, y.size)
    rows = torch.from_numpy(x)
    labels = torch.from_numpy(y)
    log_z = np.zeros(y.size)
    for start in range(0, y.size, batch):
        if start % (ROWS_BETWEEN_UPDATES // batch * batch) == 0:
            progress(Update(phase, start, y.size))
        part = slice(start, start + batch)
        evidence = _take_rows(state, rows[part], labels[part], belief.weights, atoms=atoms)
        if evidence is None:
            return None
        log_z[part] = evidence
    return _belief_of(state, belief), PassResult(log_z, batch)


def _state_of(belief: Belief, n: int) -> _State:
    weights = belief.weights
    mean = torch.from_numpy(flattened(weights.means))
    variance = torch.from_numpy(flattened(weights.variances))
    natural = torch.stack([1.0 / variance, mean / variance])
    noise = torch.tensor([belief.noise.shape, belief.noise.rate], dtype=torch.float64)
    site = belief.likelihood
    if site is None:
        return _State(natural, noise, torch.zeros_like(natural), torch.zeros_like(noise), 0.0)
    factor = torch.from_numpy(np.stack([site.precision, site.shift]))
    noise_factor = torch.tensor([site.shape, site.rate], dtype=torch.float64)
    return _State(natural, noise, factor, noise_factor, 1.0 / n)


def _belief_of(state: _State, before: Belief) -> Belief:
    precision, shift = state.weights.numpy()
    like = before.weights.means
    means = unflattened(shift / precision, like)
    variances = unflattened(1.0 / precision, like)
    site = before.likelihood
    if site is not None:
        site = LikelihoodSites(*state.weights_factor.numpy(), *state.noise_factor.tolist())
    weights = Weights(means, variances, before.weights.biased)
    return replace(before, weights=weights, noise=Gamma(*state.noise.tolist()), likelihood=site)


def _take_rows(state: _State, x: Tensor, y: Tensor, like: Weights, *, atoms: bool) -> Tensor | None:
    """Move the state by rows; return their log Z, or None without a change of the weights.

    None means that several rows fit badly together.
    """
    n = len(y)
    cavity = state.weights
    if state.step:
        cavity = state.weights - n * state.weights_factor
        cavity[0] = torch.maximum(cavity[0], LEAST_CAVITY * state.weights[0])
    v = 1.0 / cavity[0]
    m = cavity[1] * v
    leaves = [part.expand(n, -1).requires_grad_() for part in (m, v)]
    means, variances = (
        [
            part.view(n, *layer.shape)
            for part, layer in zip(torch.split(leaf, list(like.sizes), 1), like.means, strict=True)
        ]
        for leaf in leaves
    )
    output = propagate(means, variances, x, biased=like.biased, atoms=atoms)[-1]
    log_z = torch.cat([_label_log_z(state, y[b], output.row(b)) for b in range(n)])
    if n > 1 and not log_z.mean() > WORST_LOG_Z:
        return None
    g_m, g_v = torch.autograd.grad(log_z.sum(), leaves)
    g = g_m.sum(0)
    bend = v * (g_m.square() - 2.0 * g_v).sum(0)
    if n == 1:
        new_m = m + v * g
        new_v = v - v * bend
    else:
        new_v = v / (1.0 + bend).clamp_min(LEAST_PRECISION_SHARE)
        new_m = m + new_v * g
    is_good = (new_v > SMALLEST_VARIANCE) & (new_v < math.inf) & (new_m.abs() < math.inf)
    moved = torch.stack([1.0 / new_v, new_m / new_v])
    if state.step:
        change = state.step * (moved - cavity - n * state.weights_factor)
        state.weights_factor += torch.where(is_good, change, 0.0)
    state.weights = torch.where(is_good, moved, state.weights)
    return log_z.detach()


def _label_log_z(state: _State, y: Tensor, output: Moments) -> Tensor:
    """Return log Z of a label, and move the noise by it."""
    before = state.noise - state.noise_factor
    is_proper = bool(before[0] >= LEAST_SHAPE and before[1] > 0.0)
    if not is_proper:
        before = state.noise
    log_z, *gamma = noise_step(y, output, *before)
    state.noise = torch.cat(gamma)
    if is_proper:
        state.noise_factor += state.step * (state.noise - before - state.noise_factor)
    return log_z


def _check(weights: Weights, x: Floats, y: Floats) -> None:
    if x.ndim != 2 or x.shape != (y.size, weights.n_inputs) or not y.size:
        raise InputError(
            f"rows have shape {x.shape}, labels {y.shape}. Accepted: (n, {weights.n_inputs}) and "
            "(n,), at least one."
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise InputError("rows or labels are not finite. Leave such rows out first.")

r"""Sweeps of the horseshoe's sampler and of plain Gibbs sampling, timed beside bare Cholesky factorisations (dpotrf).

The sides take turns every few sweeps, so that whatever else the machine does meets all alike, and are compared by
ratios. Plain Gibbs sampling has the same model, the same reduced problem and the same draws of the coefficients.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from bandgap.benchmarks.plain_gibbs import gibbs_start, gibbs_sweep
from bandgap.benchmarks.stopwatch import timed
from bandgap.inference import diagnostics
from bandgap.inference.coefficient_draws import GramForm, form_of
from bandgap.inference.horseshoe import HorseshoeChain
from bandgap.inference.horseshoe_sweep import NoisePrior, Response
from bandgap.inference.reduced_regression import ReducedRegression
from bandgap.progress import Progress, Update, no_progress

OURS, PLAIN, CHOLESKY = "bandgap", "plain Gibbs", "dpotrf"
TURN = 20  # sweeps of a side before it is the next one's turn
CPU = torch.device("cpu")

Floats = NDArray[np.float64]
Walk = Callable[[], float]


@dataclass(frozen=True)
class SpeedRun:
    """Chains of each side, their warm-up and timed sweeps, and the parts of these whose rates give the median."""

    chains: int = 2
    warmup: int = 400
    sweeps: int = 2000
    repeats: int = 5


class Factorisations:
    """Bare Cholesky factorisations of one size, in place; the copy that restores the matrix is not timed."""

    def __init__(self, size: int, *, seed: int) -> None:
        rows = np.random.default_rng(seed).standard_normal((2 * size, size))
        self._matrix = np.asfortranarray(rows.T @ rows)
        self._factor = np.empty_like(self._matrix)

    def seconds(self, count: int) -> float:
        """Return the seconds that `count` factorisations take."""
        total = 0.0
        for _ in range(count):
            self._factor[:] = self._matrix
            _, spent = timed(partial(dpotrf, self._factor, lower=1, clean=0, overwrite_a=1), device=CPU)
            total += spent
        return total


def measure_sweeps(
    problem: ReducedRegression, *, units: int, run: SpeedRun, seed: int, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return rates of sweeps and of (units x units) factorisations, and effective draws of log tau, by side."""
    factorisations = Factorisations(units, seed=seed)
    rngs = [np.random.default_rng([seed, chain]).spawn(2) for chain in range(run.chains)]
    sides = {
        OURS: [_our_walk(problem, run.warmup, rng) for rng, _ in rngs],
        PLAIN: [_plain_walk(problem, run.warmup, rng) for _, rng in rngs],
    }
    log_tau = {side: np.empty((run.chains, run.sweeps)) for side in sides}
    seconds = {side: np.zeros(run.repeats) for side in (*sides, CHOLESKY)}
    parts = np.array_split(np.arange(run.sweeps), run.repeats)
    for repeat, part in enumerate(parts):
        for turn in np.array_split(part, max(1, part.size // TURN)):
            for chain in range(run.chains):
                for side, walks in sides.items():
                    values, spent = timed(partial(_sweep, walks[chain], turn.size), device=CPU)
                    log_tau[side][chain, turn] = values
                    seconds[side][repeat] += spent
                seconds[CHOLESKY][repeat] += factorisations.seconds(turn.size)
        progress(Update("measuring sweeps", repeat + 1, run.repeats))
    rates = {side: run.chains * np.array([part.size for part in parts]) / spent for side, spent in seconds.items()}
    form = "p x p" if isinstance(form_of(problem), GramForm) else "n x n"
    return {
        "form": form,
        "changes": problem.moment.size,
        "dpotrf_per_second": float(np.median(rates[CHOLESKY])),
        "sides": {side: _figures(log_tau[side], rates[side], rates[CHOLESKY]) for side in sides},
    }


def measure_fits(
    fit: Callable[[], object], *, units: int, repeats: int, seed: int, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return the seconds of `fit`, the median, and in (units x units) factorisations, timed before each fit."""
    factorisations, spent, each = Factorisations(units, seed=seed), [], []
    for repeat in range(repeats):
        each.append(factorisations.seconds(TURN) / TURN)
        spent.append(timed(fit, device=CPU)[1])
        progress(Update("measuring fits", repeat + 1, repeats))
    in_dpotrf = np.array(spent) / np.array(each)
    return {"seconds": float(np.median(spent)), "in_dpotrf": float(np.median(in_dpotrf)), "all": in_dpotrf.tolist()}


def _figures(log_tau: Floats, rates: Floats, of_dpotrf: Floats) -> dict[str, Any]:
    ess, rate = float(diagnostics.ess_bulk(log_tau)), float(np.median(rates))
    return {
        "sweeps_per_second": rate,
        "of_dpotrf": float(np.median(rates / of_dpotrf)),
        "all_of_dpotrf": (rates / of_dpotrf).tolist(),
        "ess_per_1000": 1000.0 * ess / log_tau.size,
        "ess_per_second": ess / log_tau.size * rate,
        "mean_log_tau": float(log_tau.mean()),
        "rhat_log_tau": float(diagnostics.rhat(log_tau)),
    }


def _sweep(walk: Walk, count: int) -> list[float]:
    return [walk() for _ in range(count)]


def _our_walk(problem: ReducedRegression, warmup: int, rng: np.random.Generator) -> Walk:
    """Return a function that makes one sweep of a chain that is warmed up, and returns log tau."""
    chain = HorseshoeChain(problem, rng=rng)
    for _ in range(warmup):
        chain.warm_up()
    return lambda: chain.step().log_tau


def _plain_walk(problem: ReducedRegression, warmup: int, rng: np.random.Generator) -> Walk:
    """Return the same for plain Gibbs sampling."""
    form, response, state = form_of(problem), Response(problem.square, problem.n, NoisePrior()), gibbs_start(problem)

    def walk() -> float:
        nonlocal state
        state = gibbs_sweep(state, form, problem.moment, response, rng)
        return float(0.5 * np.log(state.tau2))

    for _ in range(warmup):
        walk()
    return walk

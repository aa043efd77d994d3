r"""Speed of the horseshoe's sampler, of plain Gibbs sampling and of Cholesky factorisations.

The three are timed in turn every few sweeps, so that load on the machine affects all of them, and
compared by ratios. Plain Gibbs sampling has the same model, reduced problem and linear algebra, and
draws all coefficients jointly. bandgap's sampler may draw them in halves (`coefficient_updates`),
so effective draws are compared, not sweeps.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf

from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import diagnostics
from bandgap.inference.last_layer.coefficient_draws import GramForm, form_of
from bandgap.inference.last_layer.coefficient_updates import HalvesUpdate, update_of
from bandgap.inference.last_layer.horseshoe import HorseshoeChain
from bandgap.inference.last_layer.noise_variance import NoisePrior, Response
from bandgap.inference.last_layer.reduced_regression import ReducedRegression
from benchmarks.plain_gibbs import gibbs_start, gibbs_sweep
from benchmarks.stopwatch import timed

OURS = "bandgap"
PLAIN = "plain Gibbs"
CHOLESKY = "dpotrf"
TURN = 20  # Sweeps of a sampler before the next one is timed.
CPU = torch.device("cpu")

Floats = NDArray[np.float64]
Walk = Callable[[], tuple[float, Floats]]  # Makes a sweep and returns log tau and delta (p,).


@dataclass(frozen=True)
class SpeedRun:
    """Chains of each sampler, warm-up and timed sweeps, and parts whose rates give the median."""

    chains: int = 2
    warmup: int = 400
    sweeps: int = 2000
    repeats: int = 5


class Factorisations:
    """Cholesky factorisations in place; the copy that restores the matrix is not timed."""

    def __init__(self, size: int, *, seed: int) -> None:
        rows = np.random.default_rng(seed).standard_normal((2 * size, size))
        self._matrix = np.asfortranarray(rows.T @ rows)
        self._factor = np.empty_like(self._matrix)

    def seconds(self, count: int) -> float:
        """Return the seconds that `count` factorisations take."""
        total = 0.0
        for _ in range(count):
            self._factor[:] = self._matrix
            _, spent = timed(
                partial(dpotrf, self._factor, lower=1, clean=0, overwrite_a=1), device=CPU
            )
            total += spent
        return total


def measure_sweeps(
    problem: ReducedRegression,
    rows: Floats,
    *,
    units: int,
    run: SpeedRun,
    seed: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return rates of sweeps and of (units x units) factorisations, and effective draws.

    Effective draws are those of log tau and of the change of the predictions at `rows` (k, p).
    """
    factorisations = Factorisations(units, seed=seed)
    rngs = [np.random.default_rng([seed, chain]).spawn(2) for chain in range(run.chains)]
    sides = {
        OURS: [_our_walk(problem, run.warmup, rng) for rng, _ in rngs],
        PLAIN: [_plain_walk(problem, run.warmup, rng) for _, rng in rngs],
    }
    draws = {side: np.empty((run.chains, run.sweeps, 1 + len(rows))) for side in sides}
    seconds = {side: np.zeros(run.repeats) for side in (*sides, CHOLESKY)}
    parts = np.array_split(np.arange(run.sweeps), run.repeats)
    for repeat, part in enumerate(parts):
        for turn in np.array_split(part, max(1, part.size // TURN)):
            for chain in range(run.chains):
                for side, walks in sides.items():
                    states, spent = timed(partial(_sweep, walks[chain], turn.size), device=CPU)
                    draws[side][chain, turn] = [
                        np.append(log_tau, rows @ delta) for log_tau, delta in states
                    ]
                    seconds[side][repeat] += spent
                seconds[CHOLESKY][repeat] += factorisations.seconds(turn.size)
        progress(Update("measuring sweeps", repeat + 1, run.repeats))
    rates = {
        side: run.chains * np.array([part.size for part in parts]) / spent
        for side, spent in seconds.items()
    }
    halves = isinstance(update_of(problem), HalvesUpdate)
    return {
        "form": "p x p" if isinstance(form_of(problem), GramForm) else "n x n",
        "in_halves": {OURS: halves, PLAIN: False},
        "changes": problem.moment.size,
        "dpotrf_per_second": float(np.median(rates[CHOLESKY])),
        "sides": {side: _figures(draws[side], rates[side], rates[CHOLESKY]) for side in sides},
    }


def measure_fits(
    fit: Callable[[], object],
    *,
    units: int,
    repeats: int,
    seed: int,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return the median seconds of `fit`, and their ratio to (units x units) factorisations.

    Factorisations are timed before each fit.
    """
    factorisations = Factorisations(units, seed=seed)
    spent = []
    factorisation_s = []
    for repeat in range(repeats):
        factorisation_s.append(factorisations.seconds(TURN) / TURN)
        spent.append(timed(fit, device=CPU)[1])
        progress(Update("measuring fits", repeat + 1, repeats))
    in_dpotrf = np.array(spent) / np.array(factorisation_s)
    return {
        "seconds": float(np.median(spent)),
        "in_dpotrf": float(np.median(in_dpotrf)),
        "all": in_dpotrf.tolist(),
    }


def _figures(draws: Floats, rates: Floats, of_dpotrf: Floats) -> dict[str, Any]:
    """Return rates and effective draws of a sampler.

    `draws` (chain, sweep, 1 + k) are those of log tau and of k predictions.
    """
    rate = float(np.median(rates))
    sweeps = draws.shape[0] * draws.shape[1]
    tau, *fits = (diagnostics.ess_bulk(draws) / sweeps).tolist()
    return {
        "sweeps_per_second": rate,
        "of_dpotrf": float(np.median(rates / of_dpotrf)),
        "all_of_dpotrf": (rates / of_dpotrf).tolist(),
        "ess_tau_per_1000": 1000.0 * tau,
        "ess_tau_per_second": tau * rate,
        "ess_fit_per_1000": 1000.0 * float(np.median(fits)),
        "ess_fit_per_second": float(np.median(fits)) * rate,
        "ess_least_fit_per_second": min(fits) * rate,
        "mean_log_tau": float(draws[..., 0].mean()),
        "rhat_log_tau": float(diagnostics.rhat(draws[..., 0])),
    }


def _sweep(walk: Walk, count: int) -> list[tuple[float, Floats]]:
    return [walk() for _ in range(count)]


def _our_walk(problem: ReducedRegression, warmup: int, rng: np.random.Generator) -> Walk:
    chain = HorseshoeChain(problem, rng=rng)
    for _ in range(warmup):
        chain.warm_up()

    def walk() -> tuple[float, Floats]:
        state = chain.step()
        return state.log_tau, state.delta

    return walk


def _plain_walk(problem: ReducedRegression, warmup: int, rng: np.random.Generator) -> Walk:
    form = form_of(problem)
    response = Response(problem.square, problem.n, NoisePrior())
    state = gibbs_start(problem)

    def walk() -> tuple[float, Floats]:
        nonlocal state
        state = gibbs_sweep(state, form, problem.moment, response, rng)
        return 0.5 * math.log(state.tau2), state.delta

    for _ in range(warmup):
        walk()
    return walk

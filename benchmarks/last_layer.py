r"""Transfer methods of the output layer on a synthetic problem: speed, errors and dead units.

Rates are compared with those of a Cholesky factorisation of a 512 x 512 matrix in the same run. The
horseshoe's sampler is compared with plain Gibbs sampling of the same posterior (`plain_gibbs`).

Intervals are quantiles of draws of new observations. Errors are compared with those expected for
512 units, 40,000 source rows, a change of variance 0.5 and noise of variance 0.3. The expected
errors are means over targets, computed by an independent implementation of the same estimators with
other random units. A single target differs from them by some hundredths.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.evaluation.metrics import coverage, mean_width
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.last_layer.horseshoe import HorseshoeConfig, sample_horseshoe
from bandgap.posterior import Posterior
from bandgap.research.methods import last_layer_ols
from bandgap.sources.stored import source_predictions_eV
from bandgap.transfer import last_layer_horseshoe, last_layer_pcp, last_layer_ridge
from bandgap.transfer.shared.last_layer_problem import WATCHED_ROWS, last_layer_problem
from bandgap.transfer.shared.method import Fitting
from benchmarks.last_layer_design import Change, LastLayerDesign, LastLayerTask, make_task
from benchmarks.last_layer_speed import SpeedRun, measure_fits, measure_sweeps

MIN_SWEEPS = 20
LEVEL = 0.95
HORSESHOE = "horseshoe"
PCP = "PCP"
PCP_SOURCE = "PCP, shape of the source's error"
RIDGE = "ridge on the change"
RIDGE_TARGET = "ridge on the target"
OLS = "least squares"
SHIFT = "source and shift"
# Expected mean squared errors on test rows, by change and number of rows.
EXPECTED: dict[tuple[Change, int], dict[str, tuple[float, float]]] = {
    ("sparse", 500): {
        HORSESHOE: (0.36, 0.37),
        PCP: (0.47, 0.47),
        PCP_SOURCE: (0.555, 0.555),
        RIDGE_TARGET: (0.6, 0.6),
    },
    ("sparse", 2000): {
        HORSESHOE: (0.32, 0.32),
        PCP: (0.365, 0.365),
        PCP_SOURCE: (0.38, 0.38),
        RIDGE_TARGET: (0.385, 0.385),
    },
    ("dense", 500): {HORSESHOE: (0.49, 0.54), PCP: (0.45, 0.5), RIDGE_TARGET: (0.65, 0.65)},
    ("dense", 2000): {HORSESHOE: (0.37, 0.4), PCP: (0.36, 0.38), RIDGE_TARGET: (0.41, 0.41)},
}
EXPECTED_SHIFT = {"sparse": (0.8, 0.8), "dense": (0.81, 0.81)}
# The scales of the design are those of the source.
UNSCALED: dict[str, Any] = {"standardise": "source", "gap_scale": "source"}

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LastLayerBenchmark:
    """Training rows, design, timed sweeps, settings of the horseshoe, and dead units."""

    sizes: tuple[int, ...] = (200, 500, 2000)
    design: LastLayerDesign = field(default_factory=LastLayerDesign)
    speed: SpeedRun = field(default_factory=SpeedRun)
    sampler: HorseshoeConfig = field(default_factory=HorseshoeConfig)
    accuracy: bool = True
    dead: int = 100
    dead_rows: int = 500
    seed: int = 0

    def __post_init__(self) -> None:
        s = self.speed
        if (
            not self.sizes
            or min(self.sizes) < 5
            or min(s.chains, s.warmup, s.repeats) < 1
            or s.sweeps < MIN_SWEEPS
        ):
            raise ConfigError(
                f"benchmark last-layer: {self.sizes} rows, {s.chains} chains, "
                f"{s.warmup} warm-up sweeps, {s.sweeps} sweeps in {s.repeats} parts. "
                f"Accepted: at least 5 rows, {MIN_SWEEPS} sweeps, and 1 of all others."
            )
        if s.repeats > s.sweeps:
            raise ConfigError(
                f"benchmark last-layer: {s.repeats} repeats of {s.sweeps} sweeps. "
                "Accepted: fewer repeats."
            )


def run_benchmark(
    config: LastLayerBenchmark, *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Measure on the CPU with one thread; return plain values."""
    with few_blas_threads():
        sizes = {n: _measure_size(config, n, progress) for n in config.sizes}
        dead = _measure_dead(config, progress) if config.dead and config.accuracy else None
    return {
        "units": config.design.units,
        "change": config.design.change,
        "sweeps": config.speed.chains * config.speed.sweeps,
        "repeats": config.speed.repeats,
        "sizes": sizes,
        "dead": dead,
    }


def _measure_size(config: LastLayerBenchmark, n: int, progress: Progress) -> dict[str, Any]:
    seed = config.seed
    units = config.design.units
    task = make_task(config.design, n, seed=seed)
    problem = last_layer_problem(task.source, task.data, statistics="source", gap_scale="source")
    pcp = last_layer_pcp.LastLayerPcpConfig(**UNSCALED)

    def fit_pcp() -> object:
        return last_layer_pcp.fit(task.source, task.data, pcp, Fitting(seed))

    rows = problem.rows[:WATCHED_ROWS, problem.has_change]
    run = config.speed
    figures: dict[str, Any] = {
        "n_dropped": units - problem.n_changes,
        "speed": measure_sweeps(
            problem.regression, rows, units=units, run=run, seed=seed, progress=progress
        ),
        "pcp": measure_fits(
            fit_pcp, units=units, repeats=run.repeats, seed=seed, progress=progress
        ),
        "methods": None,
    }
    if config.accuracy:
        change = config.design.change
        figures["methods"] = measure_methods(
            task, change=change, sampler=config.sampler, seed=seed, progress=progress
        )
    return figures


def _measure_dead(config: LastLayerBenchmark, progress: Progress) -> dict[str, Any]:
    task = make_task(replace(config.design, dead=config.dead), config.dead_rows, seed=config.seed)
    runs = measure_dead(task, sampler=config.sampler, seed=config.seed, progress=progress)
    return {"units": config.dead, "n": config.dead_rows, "runs": runs}


def measure_methods(
    task: LastLayerTask,
    *,
    change: Change,
    sampler: HorseshoeConfig,
    seed: int,
    progress: Progress = no_progress,
) -> dict[str, dict[str, Any]]:
    """Return test error, coverage and mean width of 95 % intervals, and dropped units."""
    result = {}
    n = task.data.gaps_eV.size
    for i, (name, fit) in enumerate(_fits(task, sampler, seed).items()):
        result[name] = figures_on_test(fit(), task, seed=seed)
        progress(Update("comparing methods", i + 1, 6))
    result[SHIFT] = _source_and_shift(task)
    expected = EXPECTED.get((change, n), {}) | {SHIFT: EXPECTED_SHIFT[change]}
    return {name: row | {"expected_mse": expected.get(name)} for name, row in result.items()}


def measure_dead(
    task: LastLayerTask, *, sampler: HorseshoeConfig, seed: int, progress: Progress = no_progress
) -> dict[str, list[dict[str, Any]]]:
    """Return figures of two runs of the horseshoe with and without the rule for dead units."""
    config = last_layer_horseshoe.LastLayerHorseshoeConfig(**UNSCALED, sampler=sampler)
    result: dict[str, list[dict[str, Any]]] = {"with the rule": [], "without": []}
    for run in (seed, seed + 1):
        with_rule = last_layer_horseshoe.fit(task.source, task.data, config, Fitting(run))
        result["with the rule"].append(figures_on_test(with_rule, task, seed=run))
        without_rule = _without_rule(task, sampler, seed=run)
        result["without"].append(figures_on_test(without_rule, task, seed=run))
        progress(Update("measuring dead units", run - seed + 1, 2))
    return result


def figures_on_test(posterior: Posterior, task: LastLayerTask, *, seed: int) -> dict[str, Any]:
    """Return error, coverage and width on the test rows.

    Coverage and width are None if least squares has no degrees of freedom for a variance.
    """
    draws = posterior.predictive_draws(task.x_test)
    figures = posterior.diagnostics.figures
    noise = np.random.default_rng([seed, 3]).standard_normal(draws.centres_eV.shape)
    observations = (
        draws.centres_eV
        + np.broadcast_to(draws.sds_eV, draws.sds_eV.shape).reshape(len(noise), -1) * noise
    )
    low, high = np.quantile(observations, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    figures_of_test = _figures(task.y_test, draws.flat_means_eV.mean(axis=0), low, high)
    if figures.get("rows_left") == 0.0:
        figures_of_test |= {"coverage": None, "width": None}
    return figures_of_test | {
        "n_dropped": int(figures["n_dropped"]) if "n_dropped" in figures else None
    }


def _fits(
    task: LastLayerTask, sampler: HorseshoeConfig, seed: int
) -> dict[str, Callable[[], Posterior]]:
    """Return a function for each method that fits it."""
    source = task.source
    data = task.data
    horseshoe = last_layer_horseshoe.LastLayerHorseshoeConfig(**UNSCALED, sampler=sampler)
    pcp = last_layer_pcp.LastLayerPcpConfig(**UNSCALED)
    pcp_source = last_layer_pcp.LastLayerPcpConfig(**UNSCALED, structure="source")
    ridge = last_layer_ridge.LastLayerRidgeConfig(**UNSCALED)
    ridge_target = last_layer_ridge.LastLayerRidgeConfig(**UNSCALED, about="target")
    ols = last_layer_ols.LastLayerOlsConfig(**UNSCALED)
    return {
        HORSESHOE: lambda: last_layer_horseshoe.fit(source, data, horseshoe, Fitting(seed)),
        PCP: lambda: last_layer_pcp.fit(source, data, pcp, Fitting(seed)),
        PCP_SOURCE: lambda: last_layer_pcp.fit(source, data, pcp_source, Fitting(seed)),
        RIDGE: lambda: last_layer_ridge.fit(source, data, ridge, Fitting(seed)),
        RIDGE_TARGET: lambda: last_layer_ridge.fit(source, data, ridge_target, Fitting(seed)),
        OLS: lambda: last_layer_ols.fit(source, data, ols, Fitting(seed)),
    }


def _without_rule(task: LastLayerTask, sampler: HorseshoeConfig, *, seed: int) -> Posterior:
    """Fit the horseshoe with a change of each unit, including dead ones."""
    problem = last_layer_problem(
        task.source, task.data, statistics="source", gap_scale="source", min_ss=0.0
    )
    draws, _ = sample_horseshoe(problem.regression, config=sampler, seed=seed)
    return problem.posterior(draws.delta, draws.sigma2, seed=seed, figures={})


def _source_and_shift(task: LastLayerTask) -> dict[str, Any]:
    """Return the figures of the source's predictions plus their mean error on the training rows."""
    unchanged = source_predictions_eV(task.source, task.data.features)
    error = task.data.gaps_eV - unchanged
    mean = source_predictions_eV(task.source, task.x_test) + error.mean()
    half = (
        float(ndtri(0.5 + LEVEL / 2)) * float(error.std(ddof=1)) * np.sqrt(1.0 + 1.0 / error.size)
    )
    return _figures(task.y_test, mean, mean - half, mean + half) | {"n_dropped": None}


def _figures(y: Floats, mean: Floats, low: Floats, high: Floats) -> dict[str, Any]:
    return {
        "mse": float(((y - mean) ** 2).mean()),
        "coverage": coverage(y, low, upper=high),
        "width": mean_width(low, high),
    }

r"""The transfers of the output layer on a synthetic problem of 512 units: speed, effective draws, errors, dead units.

Every rate stands beside that of a bare Cholesky factorisation of a 512 x 512 matrix in the same run, and the
horseshoe's sampler beside plain Gibbs sampling of the same posterior (`plain_gibbs`).
"""

from dataclasses import dataclass, field, replace
from typing import Any

from bandgap.benchmarks.last_layer_accuracy import UNSCALED, measure_dead, measure_methods
from bandgap.benchmarks.last_layer_design import LastLayerDesign, LastLayerTask, make_task
from bandgap.benchmarks.last_layer_speed import SpeedRun, measure_fits, measure_sweeps
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, no_progress
from bandgap.inference.last_layer.horseshoe import HorseshoeConfig
from bandgap.transfer import last_layer_pcp
from bandgap.transfer.shared.last_layer_problem import WATCHED_ROWS, last_layer_problem

MIN_SWEEPS = 20


@dataclass(frozen=True)
class LastLayerBenchmark:
    """Training rows of every target, the design, the timed sweeps, the horseshoe's fits, units dead in one more."""

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
        if not self.sizes or min(self.sizes) < 5 or min(s.chains, s.warmup, s.repeats) < 1 or s.sweeps < MIN_SWEEPS:
            raise ConfigError(
                f"bench last-layer: {self.sizes} rows, {s.chains} chains, {s.warmup} warm-up sweeps, {s.sweeps} sweeps "
                f"in {s.repeats} parts. Accepted: at least 5 rows, {MIN_SWEEPS} sweeps, and one of the rest."
            )
        if s.repeats > s.sweeps:
            raise ConfigError(f"bench last-layer: {s.repeats} repeats of {s.sweeps} sweeps. Accepted: fewer repeats.")


def run_benchmark(config: LastLayerBenchmark, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Measure on the processor with one thread; return plain values."""
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
    task, units, seed = make_task(config.design, n, seed=config.seed), config.design.units, config.seed
    problem = last_layer_problem(task.source, task.data, statistics="source", gap_scale="source")
    pcp = last_layer_pcp.LastLayerPcpConfig(**UNSCALED)

    def fit_pcp() -> object:
        return last_layer_pcp.fit(task.source, task.data, pcp, seed=seed)

    rows, run = problem.rows[:WATCHED_ROWS, problem.kept], config.speed
    return {
        "n_dropped": units - problem.n_changes,
        "speed": measure_sweeps(problem.regression, rows, units=units, run=run, seed=seed, progress=progress),
        "pcp": measure_fits(fit_pcp, units=units, repeats=config.speed.repeats, seed=seed, progress=progress),
        "methods": _measure_methods(config, task, progress) if config.accuracy else None,
    }


def _measure_methods(config: LastLayerBenchmark, task: LastLayerTask, progress: Progress) -> dict[str, dict[str, Any]]:
    return measure_methods(
        task, change=config.design.change, sampler=config.sampler, seed=config.seed, progress=progress
    )


def _measure_dead(config: LastLayerBenchmark, progress: Progress) -> dict[str, Any]:
    task = make_task(replace(config.design, dead=config.dead), config.dead_rows, seed=config.seed)
    found = measure_dead(task, sampler=config.sampler, seed=config.seed, progress=progress)
    return {"units": config.dead, "n": config.dead_rows, "runs": found}

r"""Gaussian processes with a Vecchia likelihood: accuracy, time of a pass, and effective draws.

There are three parts:

- QM9 gaps on the last hidden features of a source: RMSE, CRPS, coverage of the 95 % interval and
  time, compared with SVGP, VNNGP and an exact process on some of the rows (`vecchia_rivals`).
- Time of a pass over all sites and of a step with a batch, for growing fields in the plane, with
  compiled loops (`vecchia_engines` compares them with batched tensors).
- Effective draws per second of SGRLD and of Metropolis on all sites (NNGP), for the same density.

Times are CPU times of one thread. Each part is measured `repeats` times, QM9 on different splits
and the chains on different fields, and medians are returned.
"""

import functools
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import coverage, crps_mixture, rmse
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.diagnostics import ess_bulk, mean_error
from bandgap.predictions.mixtures import mixture_quantiles
from bandgap.research.vecchia import gp
from bandgap.research.vecchia.chains import Draws
from bandgap.research.vecchia.langevin import LangevinConfig, sample_langevin
from bandgap.research.vecchia.likelihood import Blocks, Theta, build_blocks
from bandgap.research.vecchia.metropolis import MetropolisConfig, sample_metropolis
from bandgap.research.vecchia.scoring import find_mode
from bandgap.research.vecchia.target import Target
from benchmarks.kept_parts import Parts, file_digest
from benchmarks.medians import medians
from benchmarks.vecchia_rivals import RivalPrediction, gpytorch_process, sklearn_exact
from benchmarks.vecchia_rows import FILE, Rows, read_rows

TRUTH: Final = Theta(1.0, 0.03, 0.5, 0.2)  # Of the fields in the unit square.
FIELD_NEIGHBOURS: Final = 15
LEVEL: Final = 0.95
# Numbers of rows of additional fits, for which `gp.fit` chooses the likelihood.
FEWER_ROWS: Final = (500, 5_000)


@dataclass(frozen=True)
class VecchiaBenchmark:
    """Rows, neighbours, sizes of the other libraries' models, sizes of fields, and chains."""

    n: int = 14_000
    n_test: int = 2_000
    neighbours: int = 60
    rivals: bool = True
    inducing: int = 1_000
    rival_neighbours: int = 64
    exact_rows: int = 4_000
    passes: int = 60
    patience: int = 3
    sizes: tuple[int, ...] = (4_000, 8_000, 16_000, 32_000, 64_000)
    chain_sites: int = 5_000
    chain_draws: int = 4_000
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.n, self.n_test, self.neighbours, self.chain_draws, self.repeats) < 1
            or self.chain_sites < 50
        ):
            raise ConfigError(
                f"benchmark vecchia: {self}. "
                "Accepted: whole numbers from 1, at least 50 sites for the chains."
            )


def accuracy(
    data: Path,
    config: VecchiaBenchmark,
    *,
    parts: Parts | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return the figures of each library on QM9, in eV and CPU seconds, as medians over splits.

    `fewer_rows` has the medians of `fits_of_fewer_rows`. `parts` stores finished splits.
    """
    parts = parts or Parts()
    digest = file_digest(data / FILE)

    def of_split(split_config: VecchiaBenchmark) -> dict[str, Any]:
        train, test = read_rows(
            data,
            n=split_config.n,
            n_test=split_config.n_test,
            seed=split_config.seed,
            cache=cache,
            progress=progress,
        )
        sides = compare_sides(train, test, split_config, progress=progress)
        fewer = fits_of_fewer_rows(
            train, settings=gp.GPConfig(), seed=split_config.seed, progress=progress
        )
        return {"sides": sides, "fewer_rows": fewer}

    splits = [
        replace(config, repeats=1, seed=config.seed + repeat) for repeat in range(config.repeats)
    ]
    figures_of_splits = [
        parts.get("split", asdict(split_config) | {"data": digest}, partial(of_split, split_config))
        for split_config in splits
    ]
    return {**medians(figures_of_splits), "each": [split["sides"] for split in figures_of_splits]}


def fits_of_fewer_rows(
    train: Rows, *, settings: gp.GPConfig, seed: int, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return seconds of a fit and whether its likelihood was exact, by number of rows."""
    fits = {}
    for n in (n for n in FEWER_ROWS if n <= len(train.y)):
        part = train.part(slice(n))
        started = time.process_time()
        gp.fit(
            part.points,
            part.y,
            settings,
            covariates=part.trend,
            seed=seed,
            device="cpu",
            progress=progress,
        )
        fits[str(n)] = {"fit_s": time.process_time() - started, "exact": settings.is_exact(n)}
    return fits


def compare_sides(
    train: Rows, test: Rows, config: VecchiaBenchmark, *, progress: Progress = no_progress
) -> dict[str, dict[str, float]]:
    """Return figures of each library. The others get the smoothness fitted by bandgap."""
    settings = gp.GPConfig(neighbours=config.neighbours, likelihood="vecchia")
    started = time.process_time()
    fitted = gp.fit(
        train.points,
        train.y,
        settings,
        covariates=train.trend,
        seed=config.seed,
        device="cpu",
        progress=progress,
    )
    middle = time.process_time()
    prediction = fitted.predict(test.points, test.trend)
    ended = time.process_time()
    sd = np.hypot(prediction.sds, prediction.noise[:, None])
    sides = {
        "vecchia": _figures(test, prediction.means, sd)
        | {"fit_s": middle - started, "predict_s": ended - middle}
    }
    sides["vecchia"] |= {"smoothness": fitted.nu, "neighbours": float(config.neighbours)}
    if not config.rivals:
        return sides
    common: dict[str, Any] = {
        "nu": fitted.nu,
        "passes": config.passes,
        "patience": config.patience,
        "seed": config.seed,
    }
    rivals: dict[str, Callable[[], RivalPrediction]] = {
        "SVGP": lambda: gpytorch_process(
            "svgp", train, test, inducing=config.inducing, progress=progress, **common
        ),
        "VNNGP": lambda: gpytorch_process(
            "vnngp", train, test, inducing=config.rival_neighbours, progress=progress, **common
        ),
        "scikit-learn": lambda: sklearn_exact(train, test, nu=fitted.nu, rows=config.exact_rows),
    }
    for name, rival in rivals.items():
        prediction_of_rival = rival()
        figures = _figures(test, prediction_of_rival.mean[None], prediction_of_rival.sd[None])
        sides[name] = figures | {
            "fit_s": prediction_of_rival.fit_s,
            "predict_s": prediction_of_rival.predict_s,
            "passes": float(prediction_of_rival.passes),
        }
    return sides


def _gradients(blocks: Any, index: Any, count: int) -> None:
    """Compute the gradient of the sites `index` `count` times."""
    for _ in range(count):
        _gradient(blocks, index)


def costs(config: VecchiaBenchmark, *, progress: Progress = no_progress) -> dict[str, Any]:
    """Return seconds of a pass and of a step of 250 sites by size, and the log-log slope."""
    rows: list[dict[str, float]] = []
    for done, n in enumerate(config.sizes):
        blocks = field_of(n, seed=config.seed, order="random")
        index = np.random.default_rng(n).choice(n, min(250, n), replace=False)
        pass_s = _seconds(functools.partial(_gradient, blocks, None), config.repeats)
        steps_s = _seconds(functools.partial(_gradients, blocks, index, 20), config.repeats)
        rows.append({"n": float(n), "pass_s": pass_s, "step_s": steps_s / 20})
        progress(Update("passes", done + 1, len(config.sizes)))
    x = np.log([row["n"] for row in rows])
    y = np.log([row["pass_s"] for row in rows])
    slope = float(np.polyfit(x, y, 1)[0]) if len(rows) > 1 else float("nan")
    return {"sizes": rows, "slope": slope, "neighbours": FIELD_NEIGHBOURS}


def chains(
    config: VecchiaBenchmark, *, parts: Parts | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return medians of `chains_on_field` over fields, the largest `apart`, and all fields.

    `parts` stores finished fields.
    """
    parts = parts or Parts()
    fields = [
        replace(config, repeats=1, seed=config.seed + repeat) for repeat in range(config.repeats)
    ]
    figures_of_fields = [
        parts.get(
            "field", asdict(field_config), partial(chains_on_field, field_config, progress=progress)
        )
        for field_config in fields
    ]
    largest_differences = {
        name: max(figures_of_field["apart"][name] for figures_of_field in figures_of_fields)
        for name in figures_of_fields[0]["apart"]
    }
    return {**medians(figures_of_fields), "apart": largest_differences, "each": figures_of_fields}


def chains_on_field(
    config: VecchiaBenchmark, *, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return effective draws per second of SGRLD and Metropolis, and the difference of their means.

    Seconds are those of the draws, without warm-up. `apart` is the difference in Monte-Carlo
    standard errors, `apart_sd` in posterior standard deviations.
    """
    blocks = field_of(config.chain_sites, seed=config.seed, order="auto")
    target = Target(blocks, gp.weak_priors(TRUTH), nu=TRUTH.nu)
    mode = find_mode(target, target.eta(TRUTH))
    warmup = 200
    lengths = {"SGRLD": 10 * config.chain_draws, "Metropolis": config.chain_draws // 4 or 1}
    fast = LangevinConfig(step=0.1, batch=100, warmup=warmup, draws=lengths["SGRLD"], thin=2)
    slow = MetropolisConfig(warmup=warmup, draws=lengths["Metropolis"], independent=False)
    draws = {}
    seconds = {}
    runs: dict[str, Callable[[], Draws]] = {
        "SGRLD": lambda: sample_langevin(target, mode, fast, seed=config.seed, progress=progress),
        "Metropolis": lambda: sample_metropolis(
            target, mode, slow, seed=config.seed, progress=progress
        ),
    }
    for name, run in runs.items():
        started = time.process_time()
        draws[name] = run()
        seconds[name] = (time.process_time() - started) * lengths[name] / (warmup + lengths[name])
    sides = {name: _rates(draws_of_side, seconds[name]) for name, draws_of_side in draws.items()}
    means = {name: draws_of_side.eta.mean(axis=(0, 1)) for name, draws_of_side in draws.items()}
    errors = np.hypot(mean_error(draws["SGRLD"].eta), mean_error(draws["Metropolis"].eta))
    difference = np.abs(means["SGRLD"] - means["Metropolis"])
    sd = draws["Metropolis"].eta.std(axis=(0, 1))
    return {
        "sides": sides,
        "sites": config.chain_sites,
        "step": fast.step,
        "batch": fast.batch,
        "ratio": sides["SGRLD"]["worst_ess_per_s"] / sides["Metropolis"]["worst_ess_per_s"],
        "apart": {
            name: float(v) for name, v in zip(target.names, difference / errors, strict=True)
        },
        "apart_sd": {name: float(v) for name, v in zip(target.names, difference / sd, strict=True)},
        "sd_ratio": {
            name: float(v)
            for name, v in zip(target.names, draws["SGRLD"].eta.std(axis=(0, 1)) / sd, strict=True)
        },
    }


def _figures(test: Rows, centres: Any, sds: Any) -> dict[str, float]:
    low, high = mixture_quantiles(centres, sds, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2])
    return {
        "rmse_eV": test.unit_eV * rmse(test.y, centres.mean(axis=0)),
        "crps_eV": test.unit_eV * crps_mixture(test.y, centres, sds=sds),
        "coverage": coverage(test.y, low, upper=high),
    }


def _rates(draws: Draws, seconds: float) -> dict[str, float]:
    both = np.concatenate([draws.eta, draws.beta], axis=-1)
    worst = float(ess_bulk(both).min())
    return {
        "seconds": seconds,
        "draws": float(both.shape[0] * both.shape[1]),
        "worst_ess": worst,
    } | {"worst_ess_per_s": worst / seconds}


def field_of(n: int, *, seed: int, order: Any, neighbours: int = FIELD_NEIGHBOURS) -> Blocks:
    """Return a field in the unit square; observations are drawn given their neighbours."""
    rng = np.random.default_rng([seed, n])
    points = rng.random((n, 2))
    rows = np.ones((n, 1))
    empty = build_blocks(points, rows, np.zeros(n), m=neighbours, order=order, seed=seed)
    y = np.zeros(n)
    noise = rng.standard_normal(n)
    for i in range(n):
        near = empty.neighbours[i][empty.neighbours[i] >= 0]
        indices = np.append(near, i)
        distances = np.linalg.norm(empty.points[indices][:, None] - empty.points[indices], axis=-1)
        covariance = TRUTH.sigma2 * np.exp(-distances / TRUTH.rho) + TRUTH.tau2 * np.eye(
            len(indices)
        )
        lower = np.linalg.cholesky(covariance)
        y[i] = lower[-1, :-1] @ np.linalg.solve(lower[:-1, :-1], y[near]) + lower[-1, -1] * noise[i]
    return replace(empty, y=y)


def _gradient(blocks: Blocks, index: Any) -> Any:
    return blocks.terms(index, TRUTH, np.zeros(1))


def _seconds(work: Callable[[], Any], repeats: int) -> float:
    work()
    times = []
    for _ in range(repeats):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return median(times)

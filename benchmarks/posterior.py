r"""Effective draws per second of BTL-PCP-PE, compared with NumPyro's NUTS on the same density.

A side is a sampler with several chains, each a process of one thread. All sides end by the same
rule: when the smallest ESS and every R-hat are good enough, or at the time limit. R-hat is checked
because short chains with a high R-hat overestimate their ESS.

The result is the smallest bulk ESS per second of tau, sigma, each c and the median test prediction
(arviz-stats; Vehtari et al., 2021), with and without warm-up. Seconds are CPU time, the mean over
chains. Posterior means that agree within their Monte-Carlo errors show that both sides sample the
same posterior. Each side is written to the file of results when it ends; a later call resumes
there.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandgap.datasets.demo import demo_source_folder, inorganic_source_folder, load_demo
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import cores
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import diagnostics
from bandgap.inference.network.sampler_config import SamplerConfig
from benchmarks.chain_processes import ChainRun, MakeChain, run_chains
from benchmarks.crystals import SETS, labelled_of
from benchmarks.numpyro_btl import check_numpyro, make_chain
from benchmarks.posterior_chain import ProductChain
from benchmarks.posterior_problem import Floats, PosteriorProblem, problem_of

OURS = "bandgap"
ALL = "NumPyro NUTS, all inputs"
ROW_SPACE = "NumPyro NUTS, row space"
SIDES: Mapping[str, MakeChain] = {
    OURS: ProductChain,
    ALL: make_chain("all"),
    ROW_SPACE: make_chain("row space"),
}
MEDIAN = "prediction"  # The median over test predictions.
# Largest R-hat at which a side ends.
RHAT_PREDICTION = 1.01
RHAT_SCALE = 1.05
MIN_DRAWS = 20  # Per chain.


@dataclass(frozen=True)
class PosteriorBenchmark:
    """Numbers of training crystals, test predictions, chains and repeats; warm-up; end of a side.

    `warmup` is that of NUTS, `own_warmup` that of bandgap. A side ends at the smallest ESS `ess` or
    after `minutes`. The crystals are those of the demo, or the perovskites in the folder of data
    sets `perovskites`.
    """

    n: int = 500
    n_test: int = 100
    chains: int = 4
    repeats: int = 1
    warmup: int = 300
    own_warmup: int = SamplerConfig(coordinates="partially centred").n_warmup
    ess: float = 100.0
    minutes: float = 30.0
    seed: int = 0
    perovskites: str = ""

    def __post_init__(self) -> None:
        if (
            min(self.n, self.n_test) < 10
            or min(self.repeats, self.chains - 1) < 1
            or self.warmup < 20
        ):
            raise ConfigError(
                f"benchmark posterior: {self.n} crystals, {self.n_test} test predictions, "
                f"{self.chains} chains, {self.repeats} repeats, {self.warmup} iterations of "
                "warm-up. Accepted: at least 10 crystals and test predictions, 2 chains, 1 repeat "
                "and 20 iterations."
            )
        if not (self.ess > 0 and self.minutes > 0):
            raise ConfigError(
                f"benchmark posterior: ess {self.ess:g}, minutes {self.minutes:g}. "
                "Accepted: above 0."
            )


def run_benchmark(
    config: PosteriorBenchmark,
    *,
    file: Path | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure all sides in turn, `repeats` times; return plain values.

    Parameters
    ----------
    file
        File of results, updated after each side. A later call resumes from it.

    Raises
    ------
    ConfigError
        If NumPyro is missing, or `file` has a run with other settings or an unfinished run of
        another version.
    """
    result = _stored_result(config, file)
    repeats = result["repeats"]
    repeats += [{} for _ in range(config.repeats - len(repeats))]
    missing = [
        (repeat, name)
        for repeat in range(config.repeats)
        for name in SIDES
        if name not in repeats[repeat]
    ]
    if not missing:
        return result
    if any(repeats) and result.get("bandgap") != version("bandgap"):
        raise ConfigError(
            f"{file} has figures of version {result.get('bandgap', 'unknown')} of bandgap and "
            f"cannot be resumed by version {version('bandgap')}. Give another file."
        )
    check_numpyro()
    result |= _machine()
    if config.perovskites:
        crystals = labelled_of(SETS["perovskites"], Path(config.perovskites), progress)
        folder = inorganic_source_folder()
    else:
        crystals, folder = load_demo("crystals"), demo_source_folder()
    problem = problem_of(
        crystals,
        folder,
        n=config.n,
        n_test=config.n_test,
        seed=config.seed,
        cache=cache,
        progress=progress,
    )
    for repeat, name in missing:
        repeats[repeat][name] = measure_side(
            config, problem, name, repeat=repeat, progress=progress
        )
        _save(result, file)
    return result


def measure_side(
    config: PosteriorBenchmark,
    problem: PosteriorProblem,
    name: str,
    *,
    repeat: int,
    progress: Progress,
) -> dict[str, Any]:
    """Run the chains of a side; return seconds, and ESS, R-hat, mean and sd of each quantity."""
    sequence = np.random.SeedSequence([config.seed, repeat, list(SIDES).index(name)])
    seeds = [int(seed) for seed in sequence.generate_state(config.chains)]
    names = problem.names

    def report(spent_s: float) -> None:
        minutes = max(1, round(config.minutes))
        phase = f"{name}, run {repeat + 1} of {config.repeats}"
        progress(Update(phase, min(minutes, int(spent_s / 60)), minutes))

    run = run_chains(
        SIDES[name],
        problem,
        seeds=seeds,
        warmup=config.own_warmup if name == OURS else config.warmup,
        limit_s=60 * config.minutes,
        enough=lambda draws: has_converged(draws, names, config.ess),
        on_progress=report,
    )
    return side_figures(run, names)


def side_figures(run: ChainRun, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the figures of a side from its draws (chain, draw, quantity)."""
    ess = diagnostics.ess_bulk(run.draws)
    rhat = diagnostics.rhat(run.draws)
    error = diagnostics.mean_error(run.draws)
    ess_by_name = ess_of_quantities(ess, names)
    worst = min(ess_by_name, key=lambda name: ess_by_name[name])
    return {
        "draws": int(run.draws.shape[1]),
        "prepare_s": run.prepare_s,
        "warmup_s": run.warmup_s,
        "sampling_s": run.sampling_s,
        "wall_s": run.wall_s,
        "ess": ess_by_name,
        "rhat": {
            **_by_name(rhat[: _scales(names)], names),
            MEDIAN: float(rhat[_scales(names) :].max()),
        },
        "worst": worst,
        "ess_per_s": ess_by_name[worst] / run.sampling_s,
        "ess_per_s_with_warmup": ess_by_name[worst] / (run.sampling_s + run.warmup_s),
        "mean": _by_name(run.draws.mean((0, 1)), names),
        "sd": _by_name(run.draws.std((0, 1)), names),
        "mean_error": _by_name(error, names),
    }


def ess_of_quantities(ess: Floats, names: tuple[str, ...]) -> dict[str, float]:
    """Return the ESS of each scale and, as `prediction`, the median ESS of the predictions."""
    return {
        **_by_name(ess[: _scales(names)], names),
        MEDIAN: float(np.median(ess[_scales(names) :])),
    }


def compare_sides(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return ratios of ESS per second, and differences of means in Monte-Carlo errors."""
    scores = {
        name: (ours["mean"][name] - theirs["mean"][name])
        / float(np.hypot(ours["mean_error"][name], theirs["mean_error"][name]))
        for name in ours["mean"]
    }
    f = np.array([score for name, score in scores.items() if is_prediction(name)])
    return {
        "ratio": ours["ess_per_s"] / theirs["ess_per_s"],
        "ratio_with_warmup": ours["ess_per_s_with_warmup"] / theirs["ess_per_s_with_warmup"],
        "z": {name: score for name, score in scores.items() if not is_prediction(name)},
        "z_predictions_rms": float(np.sqrt((f**2).mean())),
        "z_predictions_largest": float(np.abs(f).max()),
    }


def is_prediction(name: str) -> bool:
    """Return whether a quantity is f at a test input."""
    return name.startswith("f")


def _scales(names: tuple[str, ...]) -> int:
    return sum(not is_prediction(name) for name in names)


def _by_name(values: Floats, names: tuple[str, ...]) -> dict[str, float]:
    return {name: float(value) for name, value in zip(names, values, strict=False)}


def has_converged(draws: Floats, names: tuple[str, ...], ess: float) -> bool:
    """Return whether the smallest ESS is at least `ess` and every R-hat is low enough."""
    if draws.shape[1] < MIN_DRAWS:
        return False
    if min(ess_of_quantities(diagnostics.ess_bulk(draws), names).values()) < ess:
        return False
    rhat = diagnostics.rhat(draws)
    scales = _scales(names)
    return bool(rhat[:scales].max() <= RHAT_SCALE and rhat[scales:].max() <= RHAT_PREDICTION)


def _stored_result(config: PosteriorBenchmark, file: Path | None) -> dict[str, Any]:
    """Return the results of `file`, or empty ones if there is no file."""
    settings = {key: value for key, value in asdict(config).items() if key != "repeats"}
    if file is None or not file.exists():
        return {"settings": settings, "repeats": []}
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if result.get("settings") != settings:
        raise ConfigError(
            f"{file} has a run with settings {result.get('settings')}, not {settings}. "
            "Give the same settings to resume it, or another file."
        )
    return result


def _machine() -> dict[str, Any]:
    return {"cores": cores(), "torch": torch.__version__} | {
        name: version(name) for name in ("bandgap", "jax", "numpyro")
    }


def _save(result: dict[str, Any], file: Path | None) -> None:
    if file is not None:
        partial = file.with_name(file.name + ".partial")
        partial.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        partial.replace(file)

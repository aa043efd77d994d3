r"""Effective draws per second of BTL-PCP-PE: the product's sampler beside NumPyro's NUTS on the same density.

A side is four chains, each a process with one thread, and all sides end by the same rule: where the worst ESS and R-hat
suffice, or at the limit of time; short chains with a high R-hat report more effective draws than they have. What counts
is the smallest of the bulk ESS per second of tau, sigma, every c and the median test prediction (arviz-stats; Vehtari
et al., 2021), with warm-up and without; a second is one of the mean chain's processor time. Equal posterior means,
within their Monte-Carlo errors, say that both sides sample the same posterior. Every side is written to the file of
results as it ends, from where a later call goes on.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import cores
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference import diagnostics
from bandgap.inference.network.sampler_config import SamplerConfig
from benchmarks.chain_processes import ChainRun, MakeChain, run_chains
from benchmarks.numpyro_btl import check_numpyro, make_chain
from benchmarks.posterior_chain import ProductChain
from benchmarks.posterior_problem import Floats, PosteriorProblem, demo_problem

OURS, ALL, ROW_SPACE = "bandgap", "NumPyro NUTS, all inputs", "NumPyro NUTS, row space"
SIDES: Mapping[str, MakeChain] = {
    OURS: ProductChain,
    ALL: make_chain("all"),
    ROW_SPACE: make_chain("row space"),
}
MEDIAN = "prediction"  # the median over test predictions
RHAT_PREDICTION, RHAT_SCALE = 1.01, 1.05  # what chains must reach
MIN_DRAWS = 20  # of every chain


@dataclass(frozen=True)
class PosteriorBenchmark:
    """Crystals to train on, test predictions, chains, repeats, warm-up, and where a side ends.

    `warmup` is that of NUTS; `own_warmup` is the product's own default.
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

    def __post_init__(self) -> None:
        if (
            min(self.n, self.n_test) < 10
            or min(self.repeats, self.chains - 1) < 1
            or self.warmup < 20
        ):
            raise ConfigError(
                f"benchmark posterior: {self.n} crystals, {self.n_test} test predictions, {self.chains} chains, "
                f"{self.repeats} repeats, {self.warmup} iterations of warm-up. Accepted: at least 10 crystals and test "
                "predictions, 2 chains, 1 repeat and 20 iterations."
            )
        if not (self.ess > 0 and self.minutes > 0):
            raise ConfigError(
                f"benchmark posterior: ess {self.ess:g}, minutes {self.minutes:g}. Accepted: above 0."
            )


def run_benchmark(
    config: PosteriorBenchmark,
    *,
    file: Path | None = None,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure all sides in turn, `repeats` times; return plain values, which `file` holds too as far as they go.

    Raises ConfigError where NumPyro is missing, or where `file` holds a run with other settings, or an unfinished one
    of another version.
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
            f"{file} holds figures of version {result.get('bandgap', 'unknown')} of bandgap, and this is "
            f"{version('bandgap')}: they cannot be resumed. Give another file."
        )
    check_numpyro()
    result |= _machine()
    problem = demo_problem(
        config.n, n_test=config.n_test, seed=config.seed, cache=cache, progress=progress
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
    """Run the chains of a side; return seconds, and ESS, R-hat, mean, sd and its Monte-Carlo error by quantity."""
    places = np.random.SeedSequence([config.seed, repeat, list(SIDES).index(name)]).generate_state(
        config.chains
    )
    names = problem.names

    def look(spent_s: float) -> None:
        minutes = max(1, round(config.minutes))
        progress(
            Update(
                f"{name}, run {repeat + 1} of {config.repeats}",
                min(minutes, int(spent_s / 60)),
                minutes,
            )
        )

    run = run_chains(
        SIDES[name],
        problem,
        seeds=[int(place) for place in places],
        warmup=config.own_warmup if name == OURS else config.warmup,
        limit_s=60 * config.minutes,
        enough=lambda draws: suffice(draws, names, config.ess),
        look=look,
    )
    return side_figures(run, names)


def side_figures(run: ChainRun, names: tuple[str, ...]) -> dict[str, Any]:
    """Return what is reported of the draws (chain, draw, quantity) of a side."""
    ess, rhat = diagnostics.ess_bulk(run.draws), diagnostics.rhat(run.draws)
    error = diagnostics.mean_error(run.draws)
    ess_by_name = shown_ess(ess, names)
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


def shown_ess(ess: Floats, names: tuple[str, ...]) -> dict[str, float]:
    """Return the ESS of every scale and, as `prediction`, the median of those of the predictions."""
    return {
        **_by_name(ess[: _scales(names)], names),
        MEDIAN: float(np.median(ess[_scales(names) :])),
    }


def compare_sides(ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return ratios of ESS per second, and differences of the posterior means in their Monte-Carlo errors."""
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


def suffice(draws: Floats, names: tuple[str, ...], ess: float) -> bool:
    """Return whether the smallest ESS and every R-hat suffice."""
    if (
        draws.shape[1] < MIN_DRAWS
        or min(shown_ess(diagnostics.ess_bulk(draws), names).values()) < ess
    ):
        return False
    rhat, scales = diagnostics.rhat(draws), _scales(names)
    return bool(rhat[:scales].max() <= RHAT_SCALE and rhat[scales:].max() <= RHAT_PREDICTION)


def _stored_result(config: PosteriorBenchmark, file: Path | None) -> dict[str, Any]:
    """Return the results to go on from."""
    settings = {key: value for key, value in asdict(config).items() if key != "repeats"}
    if file is None or not file.exists():
        return {"settings": settings, "repeats": []}
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    if result.get("settings") != settings:
        raise ConfigError(
            f"{file} holds a run with settings {result.get('settings')}, not {settings}. Give the same settings to go "
            "on with it, or another file."
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

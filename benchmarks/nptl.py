r"""Speed of NPTL compared with a plain loop, and accuracy compared with an ensemble.

Speed: both train the same samples of alpha = 1 on 9/10 of the rows, from the same start, with the
same optimiser, epochs and number of steps. A mini-batch of 32 crystals has two rows of each: 64.
Both fit their noise to the held-out rows. The time of scales, basis and probe counts for bandgap.

Accuracy: the ensemble has the same number of networks, which differ only in the order of their
rows, with the same start, optimiser and rule for the noise. Differences are paired by split.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.splits import permuted_split
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import rmse
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.batch.training import StackTraining
from bandgap.posterior import Floats, NetworkPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.stored import load_source
from bandgap.transfer import ensemble, nptl
from bandgap.transfer.shared.folds import (
    HELD_OUT_SHARE,
    fit_sigma,
    held_out_masks,
    row_nll,
    start_of,
)
from bandgap.transfer.shared.method import Fitting, TargetData
from benchmarks.stopwatch import peak_memory_MB, timed
from benchmarks.textbook import predict_eV, textbook_nptl

LOOP = "textbook loop"
LOOP_SMALL = "textbook loop, batches of 32 of the 2n rows"
OURS = "bandgap"
SGD = StackTraining(optimiser="sgd", learning_rate=1e-3)
VARIANTS = {
    OURS: StackTraining(),
    "bandgap, SGD": SGD,
    "bandgap, one by one": StackTraining(chunk=1),
    "bandgap, all coordinates": StackTraining(coordinates="full"),
    "bandgap, all coordinates, one by one": StackTraining(coordinates="full", chunk=1),
}


@dataclass(frozen=True)
class NptlBenchmark:
    """Training rows, samples and repeats; splits and rows of the comparison; test rows."""

    n: int = 180
    samples: int = 20
    repeats: int = 3
    splits: int = 6
    n_paired: int = 200
    n_test: int = 500
    epochs: int = 40
    seed: int = 0

    def __post_init__(self) -> None:
        if (
            min(self.samples, self.repeats, self.epochs) < 1
            or min(self.n, self.n_paired) < 10
            or self.splits < 0
        ):
            raise ConfigError(
                f"benchmark nptl: {self.n} and {self.n_paired} rows, {self.samples} samples, "
                f"{self.repeats} repeats, {self.splits} splits, {self.epochs} epochs. "
                "Accepted: at least 10 rows, whole numbers from 1."
            )


def run_benchmark(
    config: NptlBenchmark,
    *,
    device: str = "auto",
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Measure on the crystals and the source of the demo; return plain values."""
    source = load_source(demo_source_folder())
    crystals = load_demo("crystals")
    table = learnable(
        crystals.records,
        crystals.gaps_eV,
        descriptor=source.descriptor,
        cache=cache,
        n_jobs=1,
        progress=progress,
    )
    place = choose_device(device)
    return {
        "device": str(place),
        "n": config.n,
        "samples": config.samples,
        "optimiser": "Adam, learning rate 3e-4, cosine to 0",
        "epochs": config.epochs,
        "speed": measure_speed(config, source, table, device=device, progress=progress),
        "memory_MB_per_sample": None
        if place.type == "cuda"
        else measure_memory(config, source, table),
        "paired": measure_pairs(config, source, table, device=device, progress=progress)
        if config.splits
        else None,
    }


def measure_speed(
    config: NptlBenchmark, source: SourceModel, table: Table, *, device: str, progress: Progress
) -> dict[str, dict[str, Any]]:
    """Return times, their ratio to the loop, RMSE, NLL and noise of each variant."""
    data, x_test, y_test = _split(
        table, round(config.n / (1 - HELD_OUT_SHARE)), config, seed=config.seed
    )
    place = choose_device(device)
    seconds: dict[str, list[float]] = {}
    predicted: dict[str, tuple[Floats, float]] = {}
    for repeat in range(config.repeats):
        for name, side in _sides(
            config, source, data, x_test, device=device, progress=progress
        ).items():
            predicted[name], spent = timed(side, device=place)
            seconds.setdefault(name, []).append(spent)
        progress(Update("measuring speed", repeat + 1, config.repeats))
    loop = float(np.median(seconds[LOOP]))
    return {
        name: {
            "seconds": float(np.median(spent)),
            "seconds_each": float(np.median(spent)) / config.samples,
            "all_seconds": spent,
            "ratio": loop / float(np.median(spent)),
            **_figures(y_test, *predicted[name]),
        }
        for name, spent in seconds.items()
    }


def measure_memory(config: NptlBenchmark, source: SourceModel, table: Table) -> dict[str, float]:
    """Return the memory in MB of one additional sample in batched training.

    It is the difference between the peak memory of two processes, divided by the difference
    between their numbers of samples.
    """
    data, _, _ = _split(table, round(config.n / (1 - HELD_OUT_SHARE)), config, seed=config.seed)
    n_small = 20
    n_large = 120
    result = {}
    for name, training in (
        ("row space", StackTraining()),
        ("all coordinates", StackTraining(coordinates="full")),
    ):
        short_training = replace(training, chunk=n_large, epochs=1)
        peaks = [
            peak_memory_MB(_fit, source, data, count, short_training, config.seed)
            for count in (n_small, n_large)
        ]
        result[name] = (peaks[1] - peaks[0]) / (n_large - n_small)
    return result


def measure_pairs(
    config: NptlBenchmark, source: SourceModel, table: Table, *, device: str, progress: Progress
) -> dict[str, Any]:
    """Return figures of NPTL and of the ensemble for each split, and mean differences.

    Splits share one pool of crystals, so the standard error is somewhat too small.
    """
    training = StackTraining(epochs=config.epochs)
    rows: list[dict[str, dict[str, float]]] = []
    for split in range(config.splits):
        data, x_test, y_test = _split(table, config.n_paired, config, seed=split)
        ours = nptl.NptlConfig(
            samples=config.samples, choice_samples=min(10, config.samples), training=training
        )
        plain = ensemble.EnsembleConfig(
            members=config.samples, fold_members=ours.choice_samples, training=training
        )
        fits = {
            "nptl": nptl.fit(source, data, ours, Fitting(split, device=device)),
            "ensemble": ensemble.fit(source, data, plain, Fitting(split, device=device)),
        }
        row = {}
        for name, posterior in fits.items():
            means = posterior.mean_draws_eV(x_test)[0]
            row[name] = _figures(y_test, means, float(posterior.sigma_eV[0, 0]))
            row[name] |= {k: v for k, v in posterior.diagnostics.figures.items() if k == "alpha"}
        rows.append(row)
        progress(Update("comparing with the ensemble", split + 1, config.splits))
    return {"splits": rows} | {
        key: _paired([row["nptl"][key] - row["ensemble"][key] for row in rows])
        for key in ("nll", "nll_best_sigma", "rmse_eV")
    }


def _paired(differences: list[float]) -> dict[str, float]:
    values = np.array(differences)
    error = float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")
    return {"mean": float(values.mean()), "standard_error": error, "won": int((values < 0).sum())}


def _sides(
    config: NptlBenchmark,
    source: SourceModel,
    data: TargetData,
    x_test: Floats,
    *,
    device: str,
    progress: Progress,
) -> dict[str, Callable[[], tuple[Floats, float]]]:
    """Return the variants: functions that train and return test gaps (sample, m) and sigma."""
    mask = held_out_masks(data.gaps_eV.size, rule="val", seed=config.seed)[0]
    start = start_of(
        source, data, trained=mask, statistics="auto", gap_scale="calibrated", coordinates="full"
    )
    x, new_rows = (start.standardiser.features(rows) for rows in (data.features, x_test))

    def loop(batch_size: int) -> tuple[Floats, float]:
        networks = textbook_nptl(
            source,
            start,
            x,
            samples=config.samples,
            alpha=1.0,
            blocks=10,
            config=StackTraining(epochs=config.epochs),
            batch_size=batch_size,
            seed=config.seed,
            device=choose_device(device),
            progress=progress,
        )
        sigma = fit_sigma(data.gaps_eV[~mask], predict_eV(networks, start, x[~mask]))
        return predict_eV(networks, start, new_rows), sigma

    def ours(training: StackTraining) -> tuple[Floats, float]:
        changed = replace(training, epochs=config.epochs)
        posterior = _fit(source, data, config.samples, changed, config.seed, device)
        return posterior.mean_draws_eV(x_test)[0], float(posterior.sigma_eV[0, 0])

    sides: dict[str, Callable[[], tuple[Floats, float]]] = {
        LOOP: lambda: loop(64),
        LOOP_SMALL: lambda: loop(32),
    }
    return sides | {name: (lambda t=training: ours(t)) for name, training in VARIANTS.items()}


def _fit(
    source: SourceModel,
    data: TargetData,
    samples: int,
    training: StackTraining,
    seed: int,
    device: str = "cpu",
) -> NetworkPosterior:
    """Fit NPTL at alpha = 1, with the noise from held-out rows."""
    config = nptl.NptlConfig(samples=samples, alphas=(1.0,), sigma="val", training=training)
    return nptl.fit(source, data, config, Fitting(seed, device=device))


def _figures(y: Floats, means: Floats, sigma: float) -> dict[str, float]:
    """Return errors on the test rows. `nll_best_sigma` uses the sigma that is best for them."""
    best = fit_sigma(y, means)
    return {
        "rmse_eV": rmse(y, means.mean(0)),
        "nll": float(row_nll(y, means, sigma=sigma).mean()),
        "nll_best_sigma": float(row_nll(y, means, sigma=best).mean()),
        "sigma_eV": sigma,
        "spread_eV": float(means.std(0).mean()),
    }


def _split(
    table: Table, n: int, config: NptlBenchmark, *, seed: int
) -> tuple[TargetData, Floats, Floats]:
    split = permuted_split(table.ids, n_test=config.n_test, n_train=n, seed=seed)
    train = table.rows(split.train)
    test = table.rows(split.test)
    return TargetData(train.features, train.gaps_eV), test.features.astype(np.float64), test.gaps_eV

"""Speed on a GPU: gradients of the network sampler, and NPTL one by one and batched.

Rows, labels and source weights are random, because only shapes matter for time. The benchmark also
runs on a CPU, for comparison.
"""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import choose_device
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.inference.batch.rows import FirstLayer, Samples, first_layer
from bandgap.inference.batch.training import StackTraining, train_stack
from bandgap.inference.network.scales import Scales
from bandgap.inference.network.whitened_network import (
    gradient,
    hidden_features,
    integrate_output,
    whiten,
)
from benchmarks.stopwatch import timed


@dataclass(frozen=True)
class GpuBenchmark:
    """Rows n, features p, hidden widths; numbers of chains and samples to measure; repeats."""

    n: int = 180
    p: int = 1260
    hidden: tuple[int, ...] = (128, 64)
    chains: tuple[int, ...] = (4, 16, 64)
    samples: tuple[int, ...] = (10, 100, 300)
    one_by_one: int = 10
    gradients: int = 50
    epochs: int = 40
    repeats: int = 3
    seed: int = 0

    def __post_init__(self) -> None:
        counts = (
            self.n,
            self.p,
            self.one_by_one,
            self.gradients,
            self.epochs,
            self.repeats,
            *self.hidden,
        )
        if min(counts) < 1 or min(*self.chains, *self.samples) < 1:
            raise ConfigError(f"benchmark gpu: {self}. Accepted: whole numbers from 1.")


def run_benchmark(
    config: GpuBenchmark, *, device: str = "cuda", progress: Progress = no_progress
) -> dict[str, Any]:
    """Measure on one device; raise ConfigError if it is "cuda" and there is none."""
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError(
            f"benchmark gpu: torch {torch.__version__} finds no CUDA device here. "
            "Nothing was measured. Run it on a machine with a GPU, or measure the CPU with "
            "--device cpu."
        )
    place = choose_device(device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else "CPU, one thread"
    return {
        "device": name,
        "torch": torch.__version__,
        "ms_per_gradient": measure_gradients(config, place, progress=progress),
        "nptl": measure_nptl(config, place, progress=progress),
    }


def measure_gradients(
    config: GpuBenchmark, place: torch.device, *, progress: Progress = no_progress
) -> dict[int, dict[str, float]]:
    """Return milliseconds of a gradient, of all chains and per chain, by number of chains."""
    layers, x = _problem(config)
    y = torch.randn(
        config.n, generator=torch.Generator().manual_seed(config.seed), dtype=torch.float64
    )
    net = whiten(
        [layer.float() for layer in layers],
        torch.from_numpy(x),
        y,
        device=place,
        dtype=torch.float32,
    )
    result = {}
    for chains in config.chains:
        generator = torch.Generator().manual_seed(config.seed)
        z = [torch.randn(chains, *shape, generator=generator).to(place) for shape in net.shapes]
        s = torch.full((chains, net.n_layers), 0.1, dtype=torch.float64, device=place)
        sigma = torch.full((chains,), 0.4, dtype=torch.float64, device=place)
        scales = Scales(s, (s[:, -1] / sigma) ** 2, sigma)

        # The closures are called before the variables of the loop change.
        def steps(count: int) -> None:
            for _ in range(count):
                hidden = hidden_features(net, z, scales)  # noqa: B023
                output = integrate_output(net, hidden, scales)  # noqa: B023
                gradient(net, z, scales, hidden, output)  # noqa: B023

        steps(3)
        spent = [
            timed(lambda: steps(config.gradients), device=place)[1] for _ in range(config.repeats)
        ]
        all_chains_ms = 1e3 * float(np.median(spent)) / config.gradients
        result[chains] = {"all_chains": all_chains_ms, "each_chain": all_chains_ms / chains}
        progress(Update("gradients of the sampler", len(result), len(config.chains)))
    return result


def measure_nptl(
    config: GpuBenchmark, place: torch.device, *, progress: Progress = no_progress
) -> dict[str, dict[str, float]]:
    """Return seconds per sample one by one and batched, their ratio, and on CUDA MB per sample."""
    layers, x = _problem(config)
    layer = first_layer(
        layers[0], x, trained=np.ones(config.n, dtype=np.bool_), coordinates="row_space"
    )
    between = [t.T.float().contiguous() for t in layers[1:-1]]
    _train(config, layer, between, [0], place)  # The first use of a device loads its libraries.

    def one_by_one() -> None:
        for number in range(config.one_by_one):
            _train(config, layer, between, [number], place)

    times = [timed(one_by_one, device=place)[1] for _ in range(config.repeats)]
    seconds_one_by_one = float(np.median(times)) / config.one_by_one
    result = {"one by one": {"seconds_each": seconds_one_by_one}}
    for number, count in enumerate(config.samples, start=1):
        if place.type == "cuda":
            torch.cuda.reset_peak_memory_stats(place)
        spent = [
            timed(partial(_train, config, layer, between, range(count), place), device=place)[1]
            for _ in range(config.repeats)
        ]
        seconds_each = float(np.median(spent)) / count
        result[f"{count} at once"] = {
            "seconds_each": seconds_each,
            "ratio": seconds_one_by_one / seconds_each,
        }
        if place.type == "cuda":
            result[f"{count} at once"]["MB_each"] = (
                torch.cuda.max_memory_allocated(place) / 1e6 / count
            )
        progress(Update("NPTL", number, len(config.samples)))
    return result


def _train(
    config: GpuBenchmark,
    layer: FirstLayer,
    between: list[torch.Tensor],
    numbers: Any,
    place: torch.device,
) -> None:
    count = len(numbers)
    n = config.n
    last = config.hidden[-1]
    rng = np.random.default_rng(config.seed)
    samples = Samples(
        layer=np.zeros(count, dtype=np.int64),
        omega=rng.exponential(2.0, size=(count, n)),
        labels=rng.normal(size=(count, n)),
        heads=np.tile(rng.normal(size=last + 1) / np.sqrt(last), (count, 1)),
        numbers=np.array(numbers, dtype=np.int64),
        folds=np.full(count, -1),
        n_rows=np.full(count, n),
        variances=np.ones(count),
    )
    training = StackTraining(epochs=config.epochs)
    train_stack([layer], between, samples, config=training, seed=config.seed, device=place)


def _problem(
    config: GpuBenchmark,
) -> tuple[list[torch.Tensor], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return layers (out, in + 1) and rows x (n, p)."""
    rng = np.random.default_rng(config.seed)
    widths = (config.p, *config.hidden, 1)
    layers = [
        torch.from_numpy(rng.normal(size=(outputs, inputs + 1)) / np.sqrt(inputs + 1))
        for inputs, outputs in pairwise(widths)
    ]
    return layers, rng.normal(size=(config.n, config.p))

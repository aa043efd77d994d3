"""Matrix products of a step of the sampler by torch and by numpy, on one CPU thread, in turn."""

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads, set_threads
from bandgap.inference.network.compiled_kernels import Reals, by_numpy, by_torch, multiply

SIDES = {"torch": by_torch, "numpy": by_numpy}


@dataclass(frozen=True)
class ProductsBenchmark:
    """Rows, inputs, units of the two hidden layers, steps of a timing, and number of timings."""

    n: int = 500
    inputs: int = 64
    units: tuple[int, int] = (128, 64)
    steps: int = 200
    repeats: int = 15

    def __post_init__(self) -> None:
        if min(self.n, self.inputs, *self.units, self.steps, self.repeats) < 1:
            raise ConfigError(
                f"benchmark products: {self.n} rows, {self.inputs} inputs, {self.units} units, "
                f"{self.steps} steps, {self.repeats} repeats. Accepted: at least 1 of each."
            )


def run_benchmark(config: ProductsBenchmark) -> dict[str, Any]:
    """Return median milliseconds of a step, the library of the sampler, and OpenBLAS' kernels."""
    set_threads(1)
    factors = factors_of_step(config)
    into = [np.empty((a.shape[0], b.shape[1]), np.float32) for a, b in factors]
    spent: dict[str, list[float]] = {side: [] for side in SIDES}
    with few_blas_threads(1):
        for repeat in range(config.repeats + 1):
            for side, product in SIDES.items():
                started = time.perf_counter()
                for _ in range(config.steps):
                    for (a, b), out in zip(factors, into, strict=True):
                        product(a, b, out=out)
                if repeat:  # The first one is warm-up.
                    spent[side].append(1000.0 * (time.perf_counter() - started) / config.steps)
    return {
        "settings": asdict(config),
        "ms": {side: statistics.median(times) for side, times in spent.items()},
        "taken": next(side for side, product in SIDES.items() if product is multiply),
        "openblas": sorted(
            {lib["architecture"] for lib in threadpool_info() if lib["internal_api"] == "openblas"}
        ),
    }


def factors_of_step(config: ProductsBenchmark) -> Sequence[tuple[Reals, Reals]]:
    """Return pairs of matrices with the shapes and layouts of a step of the sampler."""
    k, q = config.units
    generator = np.random.default_rng(0)

    def matrix(*shape: int) -> Reals:
        return generator.standard_normal(shape, dtype=np.float32)

    x = matrix(config.n, config.inputs)
    h = matrix(config.n, k + 1)
    wide = matrix(config.n, q + 2)
    first = matrix(k, config.inputs)
    second = matrix(q, k + 1)
    tail = matrix(q + 2, q)
    by_first = matrix(config.n, k)
    by_second = matrix(config.n, q)
    left_1 = matrix(k, k)
    left_2 = matrix(q, q)
    right_2 = matrix(k + 1, k + 1)
    return (
        *((x, first.T), (h, second.T), (wide.T, wide)),  # forward
        *((wide, tail), (by_second.T, h), (by_second, second[:, :-1]), (by_first.T, x)),  # back
        *((left_1, first), (left_2, second), (second, right_2.T)),  # into the directions of frames
        *((left_1.T, first), (left_2.T, second), (second, right_2)),  # and out of them
    )

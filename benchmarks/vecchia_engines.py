"""Times of compiled loops and batched tensors: a pass with gradient, and a step of 250 sites.

Both are timed in turn, so that load on the machine affects both. Figures are medians and ratios of
medians. Loops run on one core. Tensors run on one core and, if there is a device, on CUDA, where
times are wall-clock times.
"""

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any, Final

import numpy as np
import torch

from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.vecchia.engines import sites_on
from bandgap.research.vecchia.likelihood import Sites
from benchmarks.stopwatch import timed
from benchmarks.vecchia import FIELD_NEIGHBOURS, TRUTH, VecchiaBenchmark, field_of

NEIGHBOURS: Final = (FIELD_NEIGHBOURS, 60)  # 60 is the default of a fit.
SIZES: Final = 2  # Number of fields, the smallest ones.
STEP_SITES: Final = 250
STEPS: Final = 20
CPU: Final = torch.device("cpu")


def engines(
    config: VecchiaBenchmark, *, progress: Progress = no_progress
) -> dict[str, list[dict[str, float]]]:
    """Return a row for each field, by device: seconds of loops and tensors, and their ratio.

    The numbers of neighbours are those of the fields of the other parts and of a default fit.
    """
    devices = {"CPU, one core": CPU}
    if torch.cuda.is_available():
        devices[torch.cuda.get_device_name()] = torch.device("cuda")
    rows_by_device: dict[str, list[dict[str, float]]] = {name: [] for name in devices}
    cases = [(n, m) for m in NEIGHBOURS for n in sorted(config.sizes)[:SIZES]]
    for done, (n, m) in enumerate(cases):
        blocks = field_of(n, seed=config.seed, order="random", neighbours=m)
        index = np.random.default_rng(n).choice(n, min(STEP_SITES, n), replace=False)
        for name, device in devices.items():
            sides = {"loops": (sites_on(blocks, "loops", device=CPU), CPU)}
            sides["batched"] = (sites_on(blocks, "batched", device=device), device)
            pass_s = _in_turn(
                sides, lambda sites: sites.terms(None, TRUTH, np.zeros(1)), config.repeats
            )
            steps_s = _in_turn(sides, partial(_steps, index), config.repeats)
            row = {"n": float(n), "neighbours": float(m)}
            for work, seconds, times in (("pass", pass_s, 1), ("step", steps_s, STEPS)):
                row |= {f"{side}_{work}_s": spent_s / times for side, spent_s in seconds.items()}
                row[f"{work}_ratio"] = seconds["batched"] / seconds["loops"]
            rows_by_device[name].append(row)
        progress(Update("engines", done + 1, len(cases)))
    return rows_by_device


def _steps(index: Any, sites: Sites) -> None:
    for _ in range(STEPS):
        sites.terms(index, TRUTH, np.zeros(1))


def _in_turn(
    sides: dict[str, tuple[Sites, torch.device]], work: Callable[[Sites], object], repeats: int
) -> dict[str, float]:
    """Return median seconds of `work` by side; the first turn, which compiles, does not count."""
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats + 1):
        for name, (sites, device) in sides.items():
            spent[name].append(timed(partial(work, sites), device=device)[1])
    return {name: median(times[1:]) for name, times in spent.items()}

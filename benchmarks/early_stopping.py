"""Early stopping of the source network: the settings of Abba (2023) and those of this package.

Networks learn from molecules of the demo. The error is measured on molecules that no network uses
for training or for stopping. Both settings have the same start, rows and held-out rows.
"""

import time
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.datasets.demo import demo_source_folder, load_demo
from bandgap.datasets.table import learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import rmse
from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.perceptron import NetworkConfig, forward
from bandgap.networks.training import TrainingConfig
from bandgap.sources.one_set import train_fresh
from bandgap.sources.stored import load_source

Floats = NDArray[np.float64]

OURS: Final = "this package"
PAPER: Final = "thesis"
# Appendix A.2. The epochs of a plateau are not stated; 3 lets it act before the training ends.
SETTINGS: Final = {
    OURS: TrainingConfig(),
    PAPER: replace(TrainingConfig(), patience=6, plateau_epochs=3, plateau_factor=0.7),
} | {f"batches of {size}": TrainingConfig(batch_size=size) for size in (16, 32, 128)}


@dataclass(frozen=True)
class EarlyStopping:
    """Numbers of molecules to learn from and to test on, and of splits."""

    n: int = 1500
    n_test: int = 2000
    splits: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        if self.n < 10 or min(self.n_test, self.splits) < 1:
            raise ConfigError(
                f"benchmark early-stopping: {self.n} molecules, {self.n_test} for testing, "
                f"{self.splits} splits. Accepted: at least 10 molecules, whole numbers from 1."
            )


def run_benchmark(
    config: EarlyStopping, *, cache: DescriptorCache | None = None, progress: Progress = no_progress
) -> dict[str, Any]:
    """Return errors in eV, epochs and CPU seconds of every setting and split."""
    source = load_source(demo_source_folder())
    molecules = load_demo("molecules")
    n_used = config.n + config.n_test
    rows = np.random.default_rng(config.seed).permutation(len(molecules.records))[:n_used]
    if len(rows) < n_used:
        raise ConfigError(
            f"benchmark early-stopping: {n_used} molecules are needed, the demo has {len(rows)}. "
            "Give a smaller --n."
        )
    table = learnable(
        [molecules.records[i] for i in rows],
        molecules.gaps_eV[rows],
        descriptor=source.descriptor,
        cache=cache,
        n_jobs=1,
        progress=progress,
    )
    x = np.asarray(table.features, dtype=np.float64)
    sides: dict[str, list[dict[str, float]]] = {name: [] for name in SETTINGS}
    for number in range(config.splits):
        order = np.random.default_rng([config.seed, number]).permutation(len(table))
        parts = order[: config.n], order[config.n :]
        for name, training in SETTINGS.items():
            sides[name].append(train_and_test(x, table.gaps_eV, parts, training, seed=number))
        progress(Update("training", number + 1, config.splits))
    return {"settings": asdict(config), "sides": sides}


def train_and_test(
    x: Floats,
    gaps_eV: Floats,
    parts: tuple[NDArray[np.intp], NDArray[np.intp]],
    training: TrainingConfig,
    *,
    seed: int,
) -> dict[str, float]:
    """Train on the first part of the rows and return the error on the second."""
    rows, test_rows = parts
    start = time.process_time()
    standardiser, trained = train_fresh(
        x[rows],
        gaps_eV[rows],
        network=NetworkConfig(x.shape[1]),
        config=training,
        seed=seed,
        device="cpu",
    )
    seconds = time.process_time() - start
    inputs = torch.from_numpy(standardiser.features(x[test_rows])).float()
    with torch.no_grad():
        predicted = standardiser.gaps_eV(forward(trained.params, inputs).double().numpy())
    return {
        "rmse_eV": rmse(gaps_eV[test_rows], predicted),
        "epochs": float(len(trained.history)),
        "cpu_seconds": seconds,
    }


def paired_difference(sides: dict[str, list[dict[str, float]]], name: str) -> tuple[float, float]:
    """Return the mean error of a setting minus that of this package in eV, and its standard error.

    The standard error is NaN for one split.
    """
    errors = {side: np.array([row["rmse_eV"] for row in sides[side]]) for side in (name, OURS)}
    difference = errors[name] - errors[OURS]
    if difference.size < 2:
        return float(difference.mean()), float("nan")
    return float(difference.mean()), float(difference.std(ddof=1) / np.sqrt(difference.size))

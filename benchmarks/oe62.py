"""OE62: memory and time at its published size, and errors on real molecules.

The published file is not shipped. A file of the same layout and size is written from real rows
(1,911 molecules of df_5k.json with GW levels) and from copies with displaced atoms. Missing columns
get made-up levels. Errors of a training on this file mean nothing, because copies are on both sides
of a split: it only measures time and memory. Errors are measured by cross-validation on the real
molecules.
"""

import gzip
import itertools
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.gaps import labels_from_info
from bandgap.datasets.oe62 import LEVELS
from bandgap.datasets.table import Table, learnable
from bandgap.descriptors import PRESETS
from bandgap.descriptors.cache import DescriptorCache
from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.sources.model import SourceConfig
from bandgap.sources.one_set import train_source
from bandgap.sources.stored import source_predictions_eV
from bandgap.structures import read_paths
from bandgap.transfer.kernel_ridge import KernelRidgeConfig, best_ridge
from benchmarks.prediction_speed import Measured, measure

ROWS: Final = "oe62_gw/df_5k_subset_split.json.gz"
MOLECULES: Final = "oe62_gw/oe62_gw.extxyz.gz"
LEVEL: Final = "gw_qzvp"
PRESET: Final = "oe62-16-roots"  # 5,473 features.
PUBLISHED_ROWS: Final = 61_489
PUBLISHED_BYTES: Final = 387_000_000
DISPLACED_ANGSTROM: Final = 0.02
# Levels whose columns fill the file to its size.
_MADE_UP: Final = ("pbe", "pbe0")
_CHARACTERS_A_LEVEL: Final = 10.9
_READ: Final = (
    "import sys\nfrom bandgap.datasets.oe62 import read_oe62\n"
    f"print(read_oe62(sys.argv[1], level={LEVEL!r}).summary)"
)
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CrossValidation:
    """Number of folds, descriptor presets, and number of source networks that are averaged."""

    folds: int = 5
    presets: tuple[str, ...] = ("oe62-16", PRESET)
    networks: int = 4
    seed: int = 0

    def __post_init__(self) -> None:
        if self.folds < 2 or self.networks < 1 or not set(self.presets) <= set(PRESETS):
            raise ConfigError(
                f"benchmark oe62: {self.folds} folds, {self.networks} networks, "
                f"presets {', '.join(self.presets)}. "
                f"Accepted: at least 2 folds, at least 1 network, {', '.join(PRESETS)}."
            )


def write_large(
    path: Path,
    real: Path,
    *,
    rows: int = PUBLISHED_ROWS,
    n_bytes: int = PUBLISHED_BYTES,
    progress: Progress,
) -> int:
    """Write a file of the published layout with `rows` rows and about `n_bytes` bytes.

    Parameters
    ----------
    path
        File to write.
    real
        File of the real rows.

    Returns
    -------
    int
        Size of the file in bytes.

    Raises
    ------
    InputError
        If `real` is missing.
    """
    if not real.is_file():
        raise InputError(f"{real} is missing. Give the folder that contains the data sets.")
    with gzip.open(real, "rt", encoding="utf-8") as stream:
        table = json.load(stream)
    columns = table["columns"]
    data = table["data"]
    made_up = [column for level in _MADE_UP for column in LEVELS[level][:2]]
    bytes_per_row = n_bytes / rows - sum(len(json.dumps(row)) for row in data) / len(data)
    n_levels = max(1, round(bytes_per_row / (len(_MADE_UP) * _CHARACTERS_A_LEVEL)))
    rng = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        file.write(f'{{"columns":{json.dumps([*columns, *made_up])},')
        file.write(f'"index":{json.dumps([*range(rows)])},"data":[')
        for k in range(rows):
            row = dict(zip(columns, data[k % len(data)], strict=True))
            if k >= len(data):
                row["xyz_pbe_relaxed"] = _displaced(row["xyz_pbe_relaxed"], rng)
            homo = row[LEVELS[LEVEL][0]][-1]
            occupied = np.round(homo - np.linspace(20.0, 0.0, n_levels) ** 1.1, 5).tolist()
            values = [*row.values(), *(occupied, [0.1]) * len(_MADE_UP)]
            file.write(f"{',' if k else ''}{json.dumps(values)}")
            if k % 5000 == 0:
                progress(Update("writing a file of the published size", k, rows))
        file.write("]}")
    return path.stat().st_size


def _displaced(xyz: str, rng: np.random.Generator) -> str:
    """Return XYZ text with normal noise on every coordinate."""
    lines = xyz.rstrip("\n").split("\n")
    cells = [line.split() for line in lines[2:]]
    moved = np.array([cell[1:4] for cell in cells], dtype=np.float64)
    moved += rng.normal(0.0, DISPLACED_ANGSTROM, moved.shape)
    atoms = [
        f"{cell[0]} {x:.8f} {y:.8f} {z:.8f}" for cell, (x, y, z) in zip(cells, moved, strict=True)
    ]
    return "\n".join([*lines[:2], *atoms, ""])


def run_size(
    data: Path,
    *,
    rows: int,
    split: tuple[int, int],
    max_epochs: int,
    jobs: int = 1,
    progress: Progress = no_progress,
) -> dict[str, Any]:
    """Return size, time and peak memory of reading and of `train-source` on a large file.

    `split` has the numbers of training and stopping molecules. Each process starts with an empty
    cache.
    """
    with tempfile.TemporaryDirectory(prefix="bandgap-oe62-") as folder:
        file = Path(folder) / "df_62k.json"
        n_bytes = write_large(
            file,
            data / ROWS,
            rows=rows,
            n_bytes=PUBLISHED_BYTES * rows // PUBLISHED_ROWS,
            progress=progress,
        )
        progress(Update("reading the file"))
        reading = measure((file,), program=_READ)
        progress(Update(f"training on {split[0]:,} molecules, stopping by {split[1]:,}"))
        options = {
            "--oe62": file,
            "--level": LEVEL,
            "--preset": PRESET,
            "--jobs": jobs,
            "--device": "cpu",
            "--split": f"{split[0]},{split[1]}",
            "--max-epochs": max_epochs,
            "--out": Path(folder) / "source",
        }
        training = measure(("train-source", *itertools.chain.from_iterable(options.items())))
    return {
        "rows": rows,
        "bytes": n_bytes,
        "split": list(split),
        "reading": _figures(reading),
        "training": _figures(training),
    }


def _figures(measured: Measured) -> dict[str, Any]:
    log_lines = [
        line for line in measured.output.splitlines() if "kept" in line or "epochs" in line
    ]
    return {
        "clock_s": measured.clock_s,
        "processor_s": measured.processor_s,
        "peak_MB": measured.peak_bytes / 1e6,
        "said": log_lines,
    }


def cross_validate(
    data: Path,
    config: CrossValidation,
    *,
    cache: DescriptorCache | None = None,
    progress: Progress = no_progress,
) -> Iterator[dict[str, Any]]:
    """Yield RMSE and MAE in eV over all molecules for each preset and model.

    Each molecule is predicted once, by models that were trained without its fold.

    Raises
    ------
    InputError
        If the file of molecules is missing.
    """
    if not (data / MOLECULES).is_file():
        raise InputError(f"{data} has no {MOLECULES}. Give the folder that contains the data sets.")
    records = read_paths([data / MOLECULES], progress=progress)
    gaps = labels_from_info(records, "gap_eV", unit="eV")
    for preset in config.presets:
        table = learnable(records, gaps, descriptor=PRESETS[preset], cache=cache, progress=progress)
        fold = np.random.default_rng(config.seed).permutation(np.arange(len(table)) % config.folds)
        errors: dict[str, Floats] = {}
        for k in range(config.folds):
            progress(Update(f"cross-validation with {preset}", k, config.folds))
            train_rows = np.flatnonzero(fold != k)
            test_rows = np.flatnonzero(fold == k)
            for name, predicted in _predictions(
                table, train_rows, test_rows, preset=preset, config=config, progress=progress
            ):
                errors.setdefault(name, np.full(len(table), np.nan))[test_rows] = (
                    predicted - table.gaps_eV[test_rows]
                )
        for name, errors_eV in errors.items():
            by_fold = [
                float(np.sqrt(np.mean(errors_eV[fold == k] ** 2))) for k in range(config.folds)
            ]
            yield {
                "preset": preset,
                "model": name,
                "n": len(table),
                "rmse_eV": float(np.sqrt(np.mean(errors_eV**2))),
                "mae_eV": float(np.abs(errors_eV).mean()),
                "rmse_of_folds_eV": by_fold,
            }


def _predictions(
    table: Table,
    train_rows: NDArray[np.int64],
    test_rows: NDArray[np.int64],
    *,
    preset: str,
    config: CrossValidation,
    progress: Progress,
) -> Iterator[tuple[str, Floats]]:
    """Yield the name of each model and its predictions in eV for `test_rows`."""
    x = table.features[train_rows]
    y = table.gaps_eV[train_rows]
    new = table.features[test_rows]
    yield "the mean gap", np.full(test_rows.size, y.mean())
    predictions = []
    for seed in range(config.networks):
        source = train_source(
            x,
            y,
            descriptor=PRESETS[preset],
            config=SourceConfig(),
            data=(),
            elements=(),
            seed=seed,
            device="cpu",
            progress=_with_phase(progress, f"network {seed + 1}"),
        )
        predictions.append(source_predictions_eV(source, new))
    yield "source network", predictions[0]
    if config.networks > 1:
        yield f"mean of {config.networks} source networks", np.mean(predictions, axis=0)
    yield "kernel ridge", kernel_ridge(x, y, new)


def kernel_ridge(x: NDArray[np.floating[Any]], y: Floats, new: NDArray[np.floating[Any]]) -> Floats:
    """Return predictions (m,) for `new` (m, p) by kernel ridge regression, Laplacian kernel.

    Leave-one-out errors choose length and penalty from those of the method `kernel_ridge`.
    """
    config = KernelRidgeConfig()
    rows = TrainingRows.of(x)
    with few_blas_threads():
        distances = rows.own_distances("cityblock")
        lengths = typical_distance(distances) * np.array(config.lengths)
        fits = [
            best_ridge(np.exp(-distances / s), y - y.mean(), penalties=config.penalties)
            for s in lengths
        ]
        best = int(np.argmin([fit.mean_square for fit in fits]))
        kernel = np.exp(-rows.distances(new, "cityblock") / lengths[best])
        predicted: Floats = y.mean() + kernel @ fits[best].coefficients
    return predicted


def _with_phase(progress: Progress, phase: str) -> Progress:
    """Return a progress function that replaces the phase of its updates."""

    def report(update: Update, /) -> None:
        progress(replace(update, phase=phase))

    return report

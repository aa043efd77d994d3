r"""PBP and SSPBP on the UCI regression sets by the protocol of Hernandez-Lobato and Adams (2015).

Splits of 90/10 are stored with the data. Inputs and labels are standardised with the training
rows. There are 40 passes, a step of the prior after each, and priors Gamma(6, 6). Figures are in
the units of the labels: RMSE, mean log density, coverage of the central 90 % interval, and the
share of the weights in the predictive variance.

Passes of assumed-density filtering ("adf") count each row in every pass. After 40 passes the share
of the weights is near zero, and intervals hardly differ between rows. "sep" counts each row once.
"""

import gzip
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import numpy as np

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.research.assumed_density.belief import Belief, Floats, fresh_belief, with_average
from bandgap.research.assumed_density.passes import MAX_BATCH, take_in
from bandgap.research.assumed_density.predictive import predict
from bandgap.research.assumed_density.prior_sites import refine_prior
from benchmarks.uci_published import PAPER

FOLDER: Final = "uci_regression"


@dataclass(frozen=True)
class UciStudy:
    """Sets, method, hidden widths, settings of the passes, and number of splits of each set.

    `seed` and the number of a split determine the start and the order of the rows.
    """

    sets: tuple[str, ...] = tuple(PAPER)
    method: Literal["pbp", "sspbp"] = "pbp"
    hidden: tuple[int, ...] = (50,)
    biased: bool = True
    likelihood: Literal["adf", "sep"] = "adf"
    passes: int = 40
    batch_size: int = 1
    splits: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        unknown = [name for name in self.sets if name not in PAPER]
        if unknown:
            raise ConfigError(
                f"benchmark uci: no set {unknown[0]!r}. Accepted: {', '.join(PAPER)}."
            )
        if min(self.passes, self.splits, *self.hidden) < 1 or not 1 <= self.batch_size <= MAX_BATCH:
            raise ConfigError(
                f"benchmark uci: {self.passes} passes, {self.splits} splits, hidden {self.hidden}, "
                f"batch_size {self.batch_size}. "
                f"Accepted: whole numbers from 1, at most {MAX_BATCH} rows in a batch."
            )


@dataclass(frozen=True)
class UciFit:
    """Figures of a split: error, log density, coverage of 90 %, share of the weights, seconds."""

    name: str
    split: int
    rmse: float
    log_density: float
    coverage: float
    weights_share: float
    slab_share: float
    prior_precision: float
    seconds: float


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test rows of a set, not standardised: x (n, p) and y (n,)."""

    x: Floats
    y: Floats
    x_test: Floats
    y_test: Floats


def run_uci(data: Path, config: UciStudy, *, progress: Progress = no_progress) -> Iterator[UciFit]:
    """Yield each fit; raise InputError if a set is missing in `data`, or a split in its file."""
    for name in config.sets:
        for number in range(config.splits):
            yield fit_split(name, number, read_split(data, name, number), config)
            progress(Update(f"{name}: splits", number + 1, config.splits))


def read_split(data: Path, name: str, number: int) -> Split:
    """Return a split of a set in `data`, or in its folder `uci_regression`."""
    folder = data / FOLDER if (data / FOLDER).is_dir() else data
    table = folder / f"{name}.csv.gz"
    splits = folder / f"{name}.test_indices.json.gz"
    for path in (table, splits):
        if not path.is_file():
            raise InputError(
                f"{folder} has no {path.name}. Give the folder that contains the UCI sets."
            )
    with gzip.open(table, "rt", encoding="utf-8") as file:
        rows = np.loadtxt(file, delimiter=",", skiprows=1)
    with gzip.open(splits, "rt", encoding="utf-8") as file:
        indices_of_splits = json.load(file)
    if number >= len(indices_of_splits):
        raise InputError(
            f"{splits.name} has {len(indices_of_splits)} splits, but none with number {number}. "
            "Ask for fewer splits."
        )
    test = np.zeros(len(rows), dtype=bool)
    test[indices_of_splits[number]] = True
    return Split(rows[~test, :-1], rows[~test, -1], rows[test, :-1], rows[test, -1])


def fit_belief(
    split: Split, config: UciStudy, *, number: int
) -> tuple[Belief, Callable[[Floats], Floats]]:
    """Fit the training rows of a split; return the belief and the function that scales inputs."""
    mean = split.x.mean(0)
    sd = split.x.std(0)
    sd[sd == 0] = 1.0

    def scaled(x: Floats) -> Floats:
        rows: Floats = (x - mean) / sd
        return rows

    x = scaled(split.x)
    y = (split.y - split.y.mean()) / split.y.std()
    rng = np.random.default_rng([config.seed, number])
    atoms = config.method == "sspbp"
    averaged = config.likelihood == "sep"
    widths = (x.shape[1], *config.hidden, 1)
    belief = start = fresh_belief(widths, biased=config.biased, rng=rng)
    for done in range(config.passes):
        belief, _ = take_in(
            belief, x, y, rng=rng, batch=config.batch_size if done else 1, atoms=atoms
        )
        belief = with_average(belief, start, n=y.size) if averaged and not done else belief
        belief = refine_prior(belief, order="together" if averaged else "one by one")
    return belief, scaled


def fit_split(name: str, number: int, split: Split, config: UciStudy) -> UciFit:
    """Fit the training rows of a split and predict its test rows."""
    started = time.perf_counter()
    belief, scaled = fit_belief(split, config, number=number)
    seconds = time.perf_counter() - started
    y_mean = float(split.y.mean())
    y_sd = float(split.y.std())
    predictive = predict(
        belief, scaled(split.x_test), atoms=config.method == "sspbp", y_mean=y_mean, y_sd=y_sd
    )
    place = predictive.cdf(split.y_test)
    return UciFit(
        name,
        number,
        rmse=float(np.sqrt(np.mean((split.y_test - predictive.mean) ** 2))),
        log_density=float(predictive.log_density(split.y_test).mean()),
        coverage=float(np.mean((place > 0.05) & (place < 0.95))),
        weights_share=float(predictive.weights_share.mean()),
        slab_share=float(predictive.share.mean()),
        prior_precision=belief.precisions[0].shape / belief.precisions[0].rate,
        seconds=seconds,
    )

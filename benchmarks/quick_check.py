"""Does a cross-validation on the user's labels choose a better method than the measured table?

The proposed method follows from errors on crystals of the same kind. On every split this benchmark
also cross-validates all candidates on the training structures alone, picks the one with the lowest
error, and compares both choices on the test structures.
"""

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from bandgap.datasets.table import Table, learnable
from bandgap.descriptors.cache import DescriptorCache
from bandgap.evaluation.metrics import rmse
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Progress, Update, no_progress
from benchmarks.crystals import (
    SETS,
    CrystalsBenchmark,
    CrystalsJob,
    Entrant,
    entrant_on,
    labelled_of,
    parts_of,
)
from benchmarks.kept_parts import Parts

# The first method of a set is the proposed one.
CANDIDATES: Final[Mapping[str, tuple[str, ...]]] = {
    "organic": (
        "feature_gp+both",
        "stacking+both",
        "parts_gp+both",
        "gaussian_process+both",
        "kernel_ridge+both",
        "gradient_boosting+both",
    ),
    "perovskites": (
        "stacking+molecules",
        "parts_gp+molecules",
        "gaussian_process+molecules",
        "kernel_ridge+molecules",
        "random_forest+molecules",
        "gradient_boosting+molecules",
    ),
    "inorganic": (
        "stacking",
        "parts_gp",
        "gaussian_process",
        "kernel_ridge",
        "random_forest",
        "gradient_boosting",
    ),
}
SIZES: Final = {"organic": 100, "perovskites": 100, "inorganic": 200}
CONFIDENCE: Final = 0.95

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class QuickCheck:
    """Sets, splits, folds of the cross-validation, and potentials of methods without a source."""

    sets: tuple[str, ...] = tuple(SETS)
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    n_folds: int = 5
    potentials: tuple[str, ...] = ("none",)

    @property
    def of_crystals(self) -> CrystalsBenchmark:
        """The settings of `crystals`, which describes the structures and fits the methods.

        Raises InputError for an unknown set.
        """
        for name in self.sets:
            if name not in CANDIDATES:
                raise InputError(f"set {name!r}. Accepted: {', '.join(CANDIDATES)}.")
        methods = {name for set_name in self.sets for name in CANDIDATES[set_name]}
        return CrystalsBenchmark(
            tuple(sorted(methods)), self.sets, self.seeds, peers=False, potentials=self.potentials
        )


@dataclass(frozen=True)
class Candidate:
    """Errors of a candidate on a split: cross-validated on the training structures, and tested.

    `seconds` is the CPU time of the cross-validation.
    """

    method: str
    seed: int
    validated_eV: float
    tested_eV: float
    seconds: float


@dataclass(frozen=True)
class Choices:
    """Errors (splits,) in eV of the proposed method, of the chosen one, and of the best one.

    The best one has the lowest error on the test structures, which no choice can know. `n_changed`
    is the number of splits on which the chosen method is not the proposed one.
    """

    proposed_eV: Floats
    chosen_eV: Floats
    best_eV: Floats
    n_changed: int
    seconds: float

    def difference(self) -> tuple[float, float]:
        """Return chosen minus proposed error in eV, and half its interval of 95 %."""
        differences = self.chosen_eV - self.proposed_eV
        n = len(differences)
        if n < 2:
            return float(differences.mean()), float("nan")
        error = float(differences.std(ddof=1)) / n**0.5
        half = float(student.ppf((1.0 + CONFIDENCE) / 2.0, n - 1)) * error
        return float(differences.mean()), half


def run_quick_check(
    name: str,
    data: Path,
    config: QuickCheck,
    *,
    parts: Parts,
    cache: DescriptorCache | None = None,
    n_jobs: int = 1,
    progress: Progress = no_progress,
) -> Iterator[Candidate]:
    """Yield the candidates of a set on every split; those that `parts` has are not computed again.

    Raises InputError for an unknown set.
    """
    crystals = config.of_crystals
    job = CrystalsJob(data, Path(), crystals, {"cache": cache, "n_jobs": n_jobs}, progress)
    labelled = labelled_of(SETS[name], data, progress)
    for method in CANDIDATES[name]:
        entrant = entrant_on(method, labelled, SETS[name], job)
        table = learnable(
            labelled.records,
            labelled.gaps_eV,
            descriptor=entrant.descriptor,
            progress=progress,
            **job.settings,
        )
        for seed in config.seeds:
            progress(Update(f"{name}, {method}, split {seed}"))
            train, test = parts_of(
                table, labelled, n=SIZES[name], n_test=SETS[name].n_test, seed=seed
            )
            settings = {
                "method": method,
                "seed": seed,
                "n": SIZES[name],
                "n_folds": config.n_folds,
                "potentials": list(config.potentials),
            }

            measure = functools.partial(
                _errors, entrant, train, test, n_folds=config.n_folds, seed=seed
            )
            yield Candidate(method, seed, **parts.get(name, settings, measure))


def choices_of(candidates: Sequence[Candidate], *, proposed: str) -> Choices:
    """Return the errors of the choices on every split."""
    seeds = sorted({candidate.seed for candidate in candidates})
    proposed_eV, chosen_eV, best_eV, changed, seconds = [], [], [], [], []
    for seed in seeds:
        of_split = [candidate for candidate in candidates if candidate.seed == seed]
        best_validated = min(of_split, key=lambda candidate: candidate.validated_eV)
        proposed_eV += [c.tested_eV for c in of_split if c.method == proposed]
        chosen_eV.append(best_validated.tested_eV)
        best_eV.append(min(candidate.tested_eV for candidate in of_split))
        changed.append(best_validated.method != proposed)
        seconds.append(sum(candidate.seconds for candidate in of_split))
    return Choices(
        np.array(proposed_eV),
        np.array(chosen_eV),
        np.array(best_eV),
        sum(changed),
        float(np.mean(seconds)),
    )


def _errors(
    entrant: Entrant, train: Table, test: Table, *, n_folds: int, seed: int
) -> dict[str, Any]:
    started = time.process_time()
    folds = np.random.default_rng(seed).permutation(len(train)) % n_folds
    means = np.empty(len(train))
    for fold in range(n_folds):
        fitted_rows = train.rows(np.flatnonzero(folds != fold))
        is_left_out = folds == fold
        left_out = train.rows(np.flatnonzero(is_left_out))
        means[is_left_out] = _means_eV(entrant, fitted_rows, left_out, seed)
    seconds = time.process_time() - started
    return {
        "validated_eV": rmse(train.gaps_eV, means),
        "tested_eV": rmse(test.gaps_eV, _means_eV(entrant, train, test, seed)),
        "seconds": seconds,
    }


def _means_eV(entrant: Entrant, train: Table, test: Table, seed: int) -> Floats:
    means: Floats = entrant.predict(train, test, seed).flat_means_eV.mean(axis=0)
    return means

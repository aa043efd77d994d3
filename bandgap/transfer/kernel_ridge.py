r"""Kernel ridge with a Laplacian kernel on the descriptor alone, no transfer, with cross-conformal intervals.

f(x) = m + sum_i a_i exp(-|x - x_i|_1 / length), (K + penalty I) a = y - m with m the mean gap: scikit-learn's
KernelRidge, here from one eigendecomposition a length, so that all penalties come at once. Length and penalty are those
of the smallest leave-one-out error, whose residuals are a_i / (K + penalty I)^-1_ii (Rasmussen and Williams, 2006,
section 5.4.2), and are chosen anew for every fold (`cross_conformal`). Laplacian kernels on many-body descriptors:
Huo and Rupp (2022), Mach. Learn.: Sci. Technol. 3, 045017.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.machine import few_blas_threads
from bandgap.foundation.progress import Progress, no_progress
from bandgap.posterior import ConformalPosterior, Floats
from bandgap.posterior.fold_models import LaplacianModels
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.cross_conformal import (
    FOLDS,
    check_folds,
    conformal_posterior,
    fold_of_rows,
    without_each,
)
from bandgap.transfer.shared.method import Method, TargetData


@dataclass(frozen=True)
class KernelRidgeConfig:
    """Folds; lengths to choose from, in units of the median distance of two training rows, and penalties."""

    folds: int = FOLDS
    lengths: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    penalties: tuple[float, ...] = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)

    def __post_init__(self) -> None:
        check_folds(self.folds, method="kernel_ridge")
        for name in ("lengths", "penalties"):
            values = getattr(self, name)
            if not values or not all(v > 0 for v in values):
                raise ConfigError(
                    f"kernel_ridge: {name} = {list(values)}. Accepted: one or more numbers above 0."
                )


@dataclass(frozen=True, eq=False)
class Ridge:
    """One fit: coefficients (n,) in the unit of y, the penalty, and the leave-one-out error that chose it."""

    coefficients: Floats
    penalty: float
    mean_square: float


def fit(
    source: SourceModel,
    data: TargetData,
    config: KernelRidgeConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> ConformalPosterior:
    """Fit without each fold in turn, on the CPU; rows are features (n, p) and gaps in eV, folds come from the seed."""
    y, rows = data.gaps_eV, TrainingRows.of(data.features)
    fold = fold_of_rows(y.size, folds=config.folds, seed=seed)
    k = int(fold.max()) + 1
    lengths, intercepts, coefficients = np.empty(k), np.empty(k), np.zeros((k, y.size))
    with few_blas_threads():
        distances = rows.own_distances("cityblock")
        choices = typical_distance(distances) * np.array(config.lengths)
        for i, used in without_each(
            fold, phase="fitting kernel ridge without each fold", progress=progress
        ):
            intercepts[i] = y[used].mean()
            near, left = distances[np.ix_(used, used)], y[used] - intercepts[i]
            fits = [
                best_ridge(np.exp(-near / length), left, penalties=config.penalties)
                for length in choices
            ]
            best = int(np.argmin([f.mean_square for f in fits]))
            lengths[i], coefficients[i, used] = choices[best], fits[best].coefficients
        return conformal_posterior(
            LaplacianModels(rows, lengths, coefficients, intercepts), data, fold
        )


def best_ridge(kernel: Floats, y: Floats, *, penalties: tuple[float, ...]) -> Ridge:
    """Return the fit to y (n,) with kernel (n, n) whose penalty has the smallest leave-one-out error."""
    values, vectors = np.linalg.eigh(kernel)
    inside, squares = vectors.T @ y, vectors**2
    fits = []
    for penalty in penalties:
        shrunk = 1.0 / (np.maximum(values, 0.0) + penalty)
        coefficients = vectors @ (shrunk * inside)
        fits.append(
            Ridge(coefficients, penalty, float(np.mean((coefficients / (squares @ shrunk)) ** 2)))
        )
    return min(fits, key=lambda f: f.mean_square)


METHOD: Final = Method(
    name="kernel_ridge",
    family="without transfer",
    standing="alternative",
    title="Kernel ridge, no transfer",
    summary=(
        "Kernel ridge regression on the descriptor, without the source model. Conformal intervals."
    ),
    duration="seconds; about 10 for 1,000 crystals, eight times that for twice as many",
    cost=Cost(0.2, 0.5),
    config=KernelRidgeConfig,
    fit=fit,
    levels=True,
)

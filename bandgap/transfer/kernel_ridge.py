"""Kernel ridge with a Laplacian kernel on the descriptor alone, with cross-conformal intervals.

f(x) = m + sum_i a_i exp(-|x - x_i|_1 / length), (K + penalty I) a = y - m with m the mean gap: the
model of scikit-learn's KernelRidge, computed from one eigendecomposition for each length, which
gives all penalties together. Length and penalty minimise the leave-one-out error, whose residuals
are a_i / (K + penalty I)^-1_ii (Rasmussen and Williams, 2006, section 5.4.2). They are chosen
separately for every fold (`cross_conformal`). Laplacian kernels on many-body descriptors: Huo and
Rupp (2022), Mach. Learn.: Sci. Technol. 3, 045017.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import AtLeastTwo, OneOrMore, Positive, Settings
from bandgap.foundation.machine import few_blas_threads
from bandgap.posterior import ConformalPosterior, Floats
from bandgap.posterior.fold_models import LaplacianModels
from bandgap.posterior.training_rows import TrainingRows, typical_distance
from bandgap.sources.model import SourceModel
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.cross_conformal import (
    FOLDS,
    conformal_posterior,
    fold_of_rows,
    without_each,
)
from bandgap.transfer.shared.method import Fitting, Method, TargetData


@dataclass(frozen=True)
class KernelRidgeConfig(Settings):
    """Folds, and the lengths and penalties to choose from.

    Lengths are in units of the median distance between training rows.
    """

    folds: AtLeastTwo = FOLDS
    lengths: OneOrMore[Positive] = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
    penalties: OneOrMore[Positive] = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


@dataclass(frozen=True, eq=False)
class Ridge:
    """One fit: coefficients (n,) in the unit of y, penalty, and leave-one-out mean square error."""

    coefficients: Floats
    penalty: float
    mean_square: float


def fit(
    source: SourceModel, data: TargetData, config: KernelRidgeConfig, fitting: Fitting
) -> ConformalPosterior:
    """Fit without each fold in turn on rows (features (n, p), gaps in eV), on the CPU."""
    y = data.gaps_eV
    rows = TrainingRows.of(data.features)
    fold = fold_of_rows(y.size, folds=config.folds, seed=fitting.seed, groups=data.groups)
    k = int(fold.max()) + 1
    lengths = np.empty(k)
    intercepts = np.empty(k)
    coefficients = np.zeros((k, y.size))
    with few_blas_threads():
        distances = rows.own_distances("cityblock")
        choices = typical_distance(distances) * np.array(config.lengths)
        for i, train_rows in without_each(
            fold, phase="fitting kernel ridge without each fold", progress=fitting.progress
        ):
            intercepts[i] = y[train_rows].mean()
            fold_distances = distances[np.ix_(train_rows, train_rows)]
            residuals = y[train_rows] - intercepts[i]
            fits = [
                best_ridge(np.exp(-fold_distances / length), residuals, penalties=config.penalties)
                for length in choices
            ]
            best = int(np.argmin([f.mean_square for f in fits]))
            lengths[i] = choices[best]
            coefficients[i, train_rows] = fits[best].coefficients
        return conformal_posterior(
            LaplacianModels(rows, lengths, coefficients, intercepts), data, fold
        )


def best_ridge(kernel: Floats, y: Floats, *, penalties: tuple[float, ...]) -> Ridge:
    """Return the fit to y (n,) with kernel (n, n) of the smallest leave-one-out error."""
    values, vectors = np.linalg.eigh(kernel)
    projected = vectors.T @ y
    squares = vectors**2
    fits = []
    for penalty in penalties:
        inverse = 1.0 / (np.maximum(values, 0.0) + penalty)
        coefficients = vectors @ (inverse * projected)
        residuals = coefficients / (squares @ inverse)
        fits.append(Ridge(coefficients, penalty, float(np.mean(residuals**2))))
    return min(fits, key=lambda f: f.mean_square)


METHOD: Final = Method(
    name="kernel_ridge",
    family="without transfer",
    standing="alternative",
    title="Kernel ridge, no transfer",
    summary=(
        "Kernel ridge regression on the descriptor, without the source model. Conformal intervals."
    ),
    references=(citations.MBTR,),
    duration="seconds; about 10 for 1,000 crystals, eight times that for twice as many",
    cost=Cost(0.2, 0.5, thousand_s=10, matrices=7),
    config=KernelRidgeConfig,
    fit=fit,
    levels=True,
)

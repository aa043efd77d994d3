"""The output of a source network from which a transfer starts: the one with the best quick ridge.

For every output the gaps are recalibrated (`recalibration`). The residuals are regressed on the
last hidden features by ridge regression, with the penalty of the smallest generalised
cross-validation (Golub, Heath and Wahba, 1979). The error is that of rows held out in folds;
everything is fitted again without them.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.errors import ConfigError
from bandgap.networks.perceptron import hidden_features
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import source_gaps_eV, standardiser_for
from bandgap.sources.statistics import hidden_layers

FOLDS = 5
# For features in units of their standard deviation and gaps in eV.
PENALTIES = np.logspace(-3, 5, 33)

Floats = NDArray[np.float64]


def choose_head(
    members: Sequence[Mapping[str, SourceModel]],
    x: NDArray[np.floating[Any]],
    y_eV: Floats,
    *,
    seed: int,
    head: str | None = None,
) -> tuple[str, dict[str, float]]:
    """Return the name of the best output and the cross-validated errors in eV of all outputs.

    Features beyond those of the source, such as electron levels, are not used. The errors are those
    of the mean over networks, and are empty if there is no choice.

    Parameters
    ----------
    members
        Source models of every network, by output.
    x, y_eV
        Raw features (n, p) and gaps (n,).
    seed
        Seed of the folds.
    head
        Name of the output, if it is given; raises ConfigError if there is none of this name.
    """
    names = list(members[0])
    if head is not None and head not in names:
        raise ConfigError(
            f"source set {head!r} does not exist in this source. Accepted: {', '.join(names)}."
        )
    if head is not None or len(names) == 1:
        return head or names[0], {}
    x = x[:, : members[0][names[0]].network.n_features]
    errors = {
        name: cross_validated_rmse_eV([m[name] for m in members], x, y_eV, seed=seed)
        for name in names
    }
    return min(errors, key=lambda name: errors[name]), errors


def cross_validated_rmse_eV(
    models: Sequence[SourceModel], x: NDArray[np.floating[Any]], y_eV: Floats, *, seed: int
) -> float:
    """Return the error in eV of held-out rows of the mean over models."""
    folds = np.random.default_rng(seed).permutation(y_eV.size) % FOLDS
    squared = np.empty(y_eV.size)
    for fold in range(FOLDS):
        is_held_out = folds == fold
        predicted = [
            _ridge_prediction_eV(model, x[~is_held_out], y_eV[~is_held_out], x[is_held_out])
            for model in models
        ]
        squared[is_held_out] = (np.mean(predicted, axis=0) - y_eV[is_held_out]) ** 2
    return float(np.sqrt(squared.mean()))


def _ridge_prediction_eV(
    model: SourceModel, x: NDArray[np.floating[Any]], y_eV: Floats, new: NDArray[np.floating[Any]]
) -> Floats:
    """Return the gaps (m,) of new rows: the recalibrated source plus a ridge regression."""
    standardiser = standardiser_for(model, x, y_eV)
    hidden = hidden_layers(model.params)

    def features(rows: NDArray[np.floating[Any]]) -> Floats:
        h = hidden_features(hidden, torch.from_numpy(standardiser.features(rows)).float())
        return h.double().numpy()

    h = features(x)
    residual = y_eV - source_gaps_eV(model, standardiser, x)
    mean = h.mean(axis=0)
    scale = h.std(axis=0) if model.features is None else model.features.sd
    is_varying = scale > 1e-9 * scale.max(initial=0.0)
    scaled = (h - mean)[:, is_varying] / scale[is_varying]
    intercept, weights = ridge_by_gcv(scaled, residual)
    new_scaled = (features(new) - mean)[:, is_varying] / scale[is_varying]
    correction: Floats = intercept + new_scaled @ weights
    return source_gaps_eV(model, standardiser, new) + correction


def ridge_by_gcv(x: Floats, y: Floats) -> tuple[float, Floats]:
    """Return intercept and weights (q,) of the ridge regression of y (n,) on features x (n, q).

    The features are centred, and the intercept is not penalised. The penalty is the one of
    `PENALTIES` with the smallest generalised cross-validation.
    """
    n = y.size
    intercept = float(y.mean())
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    projected = u.T @ (y - intercept)
    outside = float(((y - intercept) ** 2).sum() - (projected**2).sum())
    shrink = s**2 / (s**2 + PENALTIES[:, None])
    misfit = outside + ((1.0 - shrink) ** 2 * projected**2).sum(axis=1)
    scores = misfit / np.maximum(n - 1.0 - shrink.sum(axis=1), 1e-9) ** 2
    best = int(np.argmin(scores))
    return intercept, vt.T @ (s / (s**2 + PENALTIES[best]) * projected)

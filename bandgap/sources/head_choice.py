"""Which output of a source network a transfer should start from: the one from which a quick ridge predicts best.

For every output the gaps are recalibrated (`recalibration`), the rest is regressed on the last hidden features by ridge
regression with the penalty of least generalised cross-validation (Golub, Heath and Wahba, 1979), and the error is that
of rows held out in folds, everything fitted anew without them.
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
PENALTIES = np.logspace(-3, 5, 33)  # of features in units of their standard deviation, gaps in eV

Floats = NDArray[np.float64]


def choose_head(
    members: Sequence[Mapping[str, SourceModel]],
    x: NDArray[np.floating[Any]],
    y_eV: Floats,
    *,
    seed: int,
    head: str | None = None,
) -> tuple[str, dict[str, float]]:
    """Return the name of an output and the cross-validated errors in eV of all, for raw features (n, p) and gaps (n,).

    Features beyond those of the source, such as electron levels, are not looked at.
    Errors are those of the mean over members; they are empty where there is nothing to choose. `head` names the output;
    raises ConfigError when there is none of that name.
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
    """Return the error of held-out rows of the mean over models, in eV."""
    folds = np.random.default_rng(seed).permutation(y_eV.size) % FOLDS
    squared = np.empty(y_eV.size)
    for fold in range(FOLDS):
        held = folds == fold
        predicted = [
            _ridge_prediction_eV(model, x[~held], y_eV[~held], x[held]) for model in models
        ]
        squared[held] = (np.mean(predicted, axis=0) - y_eV[held]) ** 2
    return float(np.sqrt(squared.mean()))


def _ridge_prediction_eV(
    model: SourceModel, x: NDArray[np.floating[Any]], y_eV: Floats, new: NDArray[np.floating[Any]]
) -> Floats:
    """Return the gaps (m,) of new rows: the recalibrated source plus a ridge regression of what it leaves."""
    standardiser = standardiser_for(model, x, y_eV)
    hidden = hidden_layers(model.params)

    def features(rows: NDArray[np.floating[Any]]) -> Floats:
        h = hidden_features(hidden, torch.from_numpy(standardiser.features(rows)).float())
        return h.double().numpy()

    h, residual = features(x), y_eV - source_gaps_eV(model, standardiser, x)
    mean, scale = h.mean(axis=0), h.std(axis=0) if model.features is None else model.features.sd
    alive = scale > 1e-9 * scale.max(initial=0.0)
    scaled = (h - mean)[:, alive] / scale[alive]
    intercept, weights = ridge_by_gcv(scaled, residual)
    learned: Floats = intercept + ((features(new) - mean)[:, alive] / scale[alive]) @ weights
    return source_gaps_eV(model, standardiser, new) + learned


def ridge_by_gcv(x: Floats, y: Floats) -> tuple[float, Floats]:
    """Return intercept and weights (q,) of the ridge regression of y (n,) on centred features x (n, q).

    The intercept is not penalised; the penalty is the one of `PENALTIES` with the least generalised cross-validation.
    """
    n, intercept = y.size, float(y.mean())
    u, s, vt = np.linalg.svd(x, full_matrices=False)
    projected = u.T @ (y - intercept)
    rest = float(((y - intercept) ** 2).sum() - (projected**2).sum())
    shrink = s**2 / (s**2 + PENALTIES[:, None])
    misfit = rest + ((1.0 - shrink) ** 2 * projected**2).sum(axis=1)
    scores = misfit / np.maximum(n - 1.0 - shrink.sum(axis=1), 1e-9) ** 2
    best = int(np.argmin(scores))
    return intercept, vt.T @ (s / (s**2 + PENALTIES[best]) * projected)

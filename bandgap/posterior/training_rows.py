"""Training rows of a stored kernel method: the features that vary among them, scaled.

A feature that is equal in all training rows is left out. So an element that no training row has
changes no distance; the column `domain` of the predictions names such structures.
"""

from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.foundation.errors import InputError
from bandgap.networks.standardise import feature_statistics, varies
from bandgap.posterior.protocol import Floats

Metric = Literal["cityblock", "euclidean"]


@dataclass(frozen=True, eq=False)
class TrainingRows:
    """Raw values (n, column) of the varying features, with their mean and scale (column,)."""

    n_features: int
    columns: NDArray[np.int64]
    values: NDArray[np.float32]
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, features: NDArray[np.floating[Any]]) -> Self:
        """Return the rows of raw features (n, p), scaled as in `networks.standardise`.

        Raises InputError if no feature varies.
        """
        columns = varying_columns(features)
        mean, scale = feature_statistics(features)
        values = np.ascontiguousarray(features[:, columns], dtype=np.float32)
        return cls(features.shape[1], columns, values, mean[columns], scale[columns])

    def distances(self, features: NDArray[np.floating[Any]], metric: Metric) -> Floats:
        """Return the distances (m, n) between raw features (m, p) and the training rows, after
        scaling.

        Raises InputError if the number of features differs.
        """
        return cdist(self.scaled(features), self.scaled(), metric)

    def own_distances(self, metric: Metric) -> Floats:
        """Return the distances (n, n) between the training rows."""
        scaled = self.scaled()
        return cdist(scaled, scaled, metric)

    def scaled(self, features: NDArray[np.floating[Any]] | None = None) -> Floats:
        """Return the scaled varying columns (m, column) of raw features (m, p), or of the training
        rows.

        Raises InputError if the number of features differs.
        """
        values = (
            self.values
            if features is None
            else columns_of(features, self.columns, n_features=self.n_features)
        )
        return (values.astype(np.float64) - self.mean) / self.scale


def varying_columns(features: NDArray[np.floating[Any]]) -> NDArray[np.int64]:
    """Return the features that vary among rows (n, p); raises InputError if none does."""
    columns = np.flatnonzero(varies(features)).astype(np.int64)
    if not columns.size:
        raise InputError(
            f"all {len(features)} training structures have the same descriptor. A fit needs "
            "structures that differ."
        )
    return columns


def columns_of(
    features: NDArray[np.floating[Any]], columns: NDArray[np.int64], *, n_features: int
) -> NDArray[np.floating[Any]]:
    """Return some columns of raw features (m, p); raises InputError unless p is `n_features`."""
    if features.ndim != 2 or features.shape[1] != n_features:
        raise InputError(
            f"features have shape {features.shape}, the model was fitted on {n_features} features. "
            "Compute them with the descriptor stored in the model."
        )
    return features[:, columns]


def typical_distance(distances: Floats) -> float:
    """Return the median of the distances (n, n) between different rows, 1 if it is zero."""
    return float(np.median(distances[np.triu_indices(len(distances), 1)])) or 1.0

r"""How far descriptors are from those of known structures, in two ways.

A flow sees principal coordinates only. A structure that differs from the known ones in other
directions, such as a new element or environment, looks familiar to it. Two distances of the
descriptors as computed fill this gap:

    distance    1 - cosine to the nearest known structure, as in the applicability domain
    residual    norm of what the principal components of the known structures leave, the squared
                prediction error or Q of chemometrics (Jackson, Mudholkar 1979)

Every known structure belongs to a fold, and is compared with the structures of the other folds.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

EXPLAINED = 0.95  # share of the variance that the components have
LEAST_COMPONENTS = 8
MOST_COMPONENTS = 32
ROWS_PER_COMPONENT = 10
# Residuals below this share of a row's length are rounding errors of float32 descriptors.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class KnownDescriptors:
    """Directions of known descriptors, and their components without each fold.

    Parameters
    ----------
    n_features
        Number of features p of a descriptor.
    columns
        Features that are nonzero in a known structure, (c,).
    directions
        Unit vectors of the known descriptors, (n, c).
    folds
        Fold of each known structure, (n,).
    centres
        Mean descriptor of the structures outside of each fold, (K, c).
    components
        Orthonormal principal components of these structures, (K, c, D).
    """

    n_features: int
    columns: NDArray[np.int64]
    directions: NDArray[np.float32]
    folds: NDArray[np.int64]
    centres: Floats
    components: Floats

    def scores(self, descriptors: NDArray[Any]) -> tuple[Floats, Floats]:
        """Return the distances and residuals of descriptors (m, p), compared with each fold.

        Both are (K, m). Of fold k are those to the structures outside of it.
        """
        wide = np.asarray(descriptors, dtype=np.float64)
        known_columns = np.ascontiguousarray(wide[:, self.columns])
        square_lengths = (wide**2).sum(axis=1)
        # what a structure has in features that are zero in all known ones
        foreign = np.maximum(square_lengths - (known_columns**2).sum(axis=1), 0.0)
        cosines = self._cosines(known_columns, np.sqrt(square_lengths))
        n_folds = len(self.centres)
        distances = np.empty((n_folds, len(wide)))
        residuals = np.empty((n_folds, len(wide)))
        for k in range(n_folds):
            nearest = cosines[:, self.folds != k].max(axis=1)
            distances[k] = np.clip(1.0 - nearest, 0.0, 2.0)
            square = self._square_residuals(known_columns, k) + foreign
            is_rounding = square <= ROUNDING**2 * square_lengths
            residuals[k] = np.sqrt(np.where(is_rounding, 0.0, square))
        return distances, residuals

    def _cosines(self, known_columns: Floats, lengths: Floats) -> Floats:
        # a row of zeros remains zero, so that its distance from every row is 1
        units = known_columns / np.where(lengths == 0.0, 1.0, lengths)[:, None]
        cosines: Floats = units @ self.directions.astype(np.float64).T
        return cosines

    def _square_residuals(self, known_columns: Floats, k: int) -> Floats:
        centred = known_columns - self.centres[k]
        explained = centred @ self.components[k]
        square: Floats = (centred**2).sum(axis=1) - (explained**2).sum(axis=1)
        return square

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return everything but the folds as arrays for a safetensors file."""
        return {
            "n_features": np.array([self.n_features]),
            "columns": self.columns,
            "directions": self.directions,
            "centres": self.centres,
            "components": self.components,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, NDArray[Any]], folds: NDArray[np.int64]
    ) -> "KnownDescriptors":
        """Rebuild from `to_arrays` and the folds."""
        return cls(
            int(arrays["n_features"][0]),
            np.asarray(arrays["columns"], dtype=np.int64),
            np.asarray(arrays["directions"], dtype=np.float32),
            folds,
            np.asarray(arrays["centres"], dtype=np.float64),
            np.asarray(arrays["components"], dtype=np.float64),
        )


def fit_known_descriptors(
    descriptors: Floats, folds: NDArray[np.int64], *, seed: int
) -> KnownDescriptors:
    """Find the components of descriptors (n, p) without each fold of `folds` (n,).

    `seed` starts the randomised decomposition.
    """
    lengths = np.linalg.norm(descriptors, axis=1, keepdims=True)
    units = descriptors / np.where(lengths == 0.0, 1.0, lengths)
    columns = np.flatnonzero(np.any(descriptors != 0.0, axis=0))
    known_columns = descriptors[:, columns]
    rows_of_folds = [known_columns[folds != k] for k in np.unique(folds)]
    decompositions = [_components(rows, seed) for rows in rows_of_folds]
    n_components = _number_of_components(rows_of_folds[0], decompositions[0][1])
    centres = [rows.mean(axis=0) for rows in rows_of_folds]
    components = [components[:n_components].T for components, _ in decompositions]
    return KnownDescriptors(
        descriptors.shape[1],
        columns.astype(np.int64),
        np.ascontiguousarray(units[:, columns], dtype=np.float32),
        folds,
        np.stack(centres),
        np.stack(components),
    )


def _number_of_components(rows: Floats, variances: Floats) -> int:
    """Return how many of the components have `EXPLAINED` of the variance, at least a few.

    `variances` are the sums of squares of rows (n, c) along the components.
    """
    total = float(((rows - rows.mean(axis=0)) ** 2).sum())
    explained = np.cumsum(variances) / max(total, np.finfo(np.float64).tiny)
    n_wanted = int((explained < EXPLAINED).sum()) + 1
    return min(max(n_wanted, LEAST_COMPONENTS), len(variances))


def _components(rows: Floats, seed: int) -> tuple[Floats, Floats]:
    """Return the first components (D, c) of rows (n, c), and the sums of squares along them (D,).

    D is the largest number that is used.
    """
    from sklearn.utils.extmath import randomized_svd

    most = min(MOST_COMPONENTS, max(LEAST_COMPONENTS, len(rows) // ROWS_PER_COMPONENT))
    centred = rows - rows.mean(axis=0)
    _, singular, components = randomized_svd(
        centred, n_components=min(most, *centred.shape), random_state=seed
    )
    return components, singular**2

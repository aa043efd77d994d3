"""The linear probe: ridge regression of gaps on hidden features.

The penalty has the least generalised cross-validation score (Golub, Heath and Wahba, 1979,
Technometrics 21, 215-223), in which each degree of freedom counts 1.4 times (Kim and Gu, 2004, J.
R. Statist. Soc. B 66, 337-356). The intercept is not penalised: features and gaps are centred, H =
U D V', and

    score(lambda) = n |y - f|^2 / (n - 1.4 (1 + sum_k d_k^2 / (d_k^2 + lambda)))^2

is minimised over a fixed grid of lambda / d_1^2, so that a probe is a deterministic function of its
rows. Penalties that leave no freedom in it are not taken: the fit has at most n / 1.4 degrees.

Counted once and with a grid that begins near zero, the score is sometimes least without a penalty,
as where one outlying row is the only one in which a unit is active, by little. Its weight is then
thousands, and training that starts from it diverges. The count makes this rare where features are
many for the rows, and the smallest penalty, 1e-6 d_1^2, bounds the weight where rows are many.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

GRID = np.logspace(-6, 3, 91)  # of lambda, relative to the largest squared singular value
COUNTED = 1.4  # times that the score counts a degree of freedom

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Probe:
    """Output layer: weights (q,), intercept, ridge penalty lambda, and residual variance.

    The variance is |y - f|^2 over the degrees of freedom that the fit leaves, each counted once.
    """

    weights: Floats
    intercept: float
    penalty: float
    residual_variance: float

    @property
    def head(self) -> Floats:
        """Weights with the intercept last, (q + 1,)."""
        return np.append(self.weights, self.intercept)

    def predict(self, features: Floats) -> Floats:
        """Return the probe's values (n,) at hidden features (n, q)."""
        return features @ self.weights + self.intercept


def fit_probe(features: Floats, y: Floats) -> Probe:
    """Fit a probe to hidden features (n, q) and standardised gaps (n,).

    Raises InputError for fewer than 3 rows.
    """
    n = y.shape[0]
    if n < 3 or features.shape[0] != n:
        rows = features.shape[0]
        raise InputError(
            f"a linear probe of {rows} rows of features and {n} gaps. Give at least 3 of both."
        )
    centre = features.mean(0)
    mean = float(y.mean())
    u, d, vt = np.linalg.svd(features - centre, full_matrices=False)
    if d.size == 0 or d[0] <= 0:
        return Probe(np.zeros(features.shape[1]), mean, 0.0, float(y.var(ddof=1)))
    residual = y - mean
    coordinates = u.T @ residual
    grid = GRID * d[0] ** 2
    shrink = d**2 / (d**2 + grid[:, None])  # (lambda, k)
    misfit = residual @ residual - ((2.0 - shrink) * shrink * coordinates**2).sum(1)
    degrees = 1.0 + shrink.sum(1)
    freedom = n - COUNTED * degrees
    usable = freedom > 0.5
    score = np.where(
        usable, n * np.maximum(misfit, 0.0) / np.where(usable, freedom, 1.0) ** 2, np.inf
    )
    best = int(np.argmin(score))
    weights = vt.T @ (d / (d**2 + grid[best]) * coordinates)
    variance = float(max(misfit[best], 0.0) / (n - degrees[best]))
    return Probe(weights, float(mean - centre @ weights), float(grid[best]), variance)


def weighted_ridge(features: Floats, labels: Floats, omega: Floats, *, penalty: float) -> Floats:
    """Return argmin over (w, b) of sum_i omega_i (t_i - h_i'w - b)^2 + penalty |w|^2, (q + 1,).

    `labels` t and `omega` are (n,). The intercept b is the last entry and is not penalised.
    """
    total = omega.sum()
    centre = omega @ features / total
    mean = float(omega @ labels / total)
    root = np.sqrt(omega)
    h = root[:, None] * (features - centre)
    t = root * (labels - mean)
    if penalty > 0:
        gram = h.T @ h
        gram[np.diag_indices_from(gram)] += penalty
        weights = np.linalg.solve(gram, h.T @ t)
    else:
        weights = np.linalg.lstsq(h, t, rcond=None)[0]
    return np.append(weights, mean - centre @ weights)

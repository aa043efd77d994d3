r"""The weight of every label in the prediction of a Gaussian process with fixed scales.

The mean at new rows is linear in the labels: with the covariance K of the labels, noise included,
and the covariance c between new and training rows,

    f = W y,    W = c K^-1

Without label i the mean is f_(-i) = f - W_i (y_i - mu_(-i)), where mu_(-i) is the mean of label i
given the others, and y_i - mu_(-i) = (K^-1 y)_i / (K^-1)_ii (Rasmussen and Williams, 2006, eqs.
2.25 and 5.12). This is exact: a label equal to its mean given the others changes nothing.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

Floats = NDArray[np.float64]

MAX_SCALES = 40  # draws of the scales over which weights are averaged


class WeightsAndChanges(NamedTuple):
    """Weights (m, n) of the labels, and prediction minus the one without each label (m, n)."""

    weights: Floats
    changes: Floats


def weights_and_changes(cross: Floats, covariance: Floats, y: Floats) -> WeightsAndChanges:
    """Return weights and changes at fixed scales.

    Parameters
    ----------
    cross
        Covariance (m, n) between new and training rows.
    covariance
        Covariance (n, n) of the training labels, noise included.
    y
        Training labels (n,) about their mean; changes are in their unit.
    """
    inverse = cho_solve(cho_factor(covariance, lower=True), np.eye(y.size))
    weights = cross @ inverse
    return WeightsAndChanges(weights, weights * (inverse @ y / np.diag(inverse)))


def averaged(draws: list[WeightsAndChanges]) -> WeightsAndChanges:
    """Return the means over draws of the scales."""
    return WeightsAndChanges(
        np.mean([draw.weights for draw in draws], axis=0),
        np.mean([draw.changes for draw in draws], axis=0),
    )


def evenly_spaced(n_draws: int) -> NDArray[np.int64]:
    """Return the numbers of at most `MAX_SCALES` draws, evenly spaced."""
    return np.linspace(0, n_draws - 1, min(n_draws, MAX_SCALES)).round().astype(np.int64)

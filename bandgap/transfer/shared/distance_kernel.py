"""A Matern kernel for scikit-learn's Gaussian process that takes rows of distances instead of rows of features.

The distances among the training rows are then computed once, not for every step of the search for the length.
"""

from typing import Any

import numpy as np
from sklearn.gaussian_process.kernels import (
    Hyperparameter,
    Kernel,
    NormalizedKernelMixin,
    StationaryKernelMixin,
)

from bandgap.posterior import Floats
from bandgap.posterior.gaussian_process import matern


class MaternOfDistances(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]  # sklearn is untyped
    """Matern correlation of smoothness 3/2; X is (m, n), distances of m structures to the n training rows."""

    def __init__(
        self, length_scale: float = 1.0, length_scale_bounds: tuple[float, float] = (1e-5, 1e5)
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self) -> Any:
        """The length as scikit-learn searches it: its logarithm."""
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        """Return the correlations (m, n) and, if asked, their derivative (m, n, 1) by the logarithm of the length."""
        k = matern(X, length=self.length_scale)
        if not eval_gradient:
            return k
        r = np.sqrt(3.0) / self.length_scale * X
        return k, (r**2 * np.exp(-r))[:, :, None]

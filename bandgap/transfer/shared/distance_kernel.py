"""A Matern kernel for scikit-learn's Gaussian process, on distances instead of features.

The distances between training rows are then computed once, instead of at every step of the search
for the length scale.
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


# scikit-learn has no types.
class MaternOfDistances(StationaryKernelMixin, NormalizedKernelMixin, Kernel):  # type: ignore[misc]
    """Matern correlation of smoothness 3/2.

    X is (m, n), the distances of m structures to the n training rows.
    """

    def __init__(
        self, length_scale: float = 1.0, length_scale_bounds: tuple[float, float] = (1e-5, 1e5)
    ) -> None:
        self.length_scale = length_scale
        self.length_scale_bounds = length_scale_bounds

    @property
    def hyperparameter_length_scale(self) -> Any:
        """The logarithm of the length scale, which scikit-learn optimises."""
        return Hyperparameter("length_scale", "numeric", self.length_scale_bounds)

    def __call__(self, X: Floats, Y: Floats | None = None, eval_gradient: bool = False) -> Any:
        """Return correlations (m, n) and, if asked, derivatives (m, n, 1) by the log length."""
        k = matern(X, length=self.length_scale)
        if not eval_gradient:
            return k
        r = np.sqrt(3.0) / self.length_scale * X
        return k, (r**2 * np.exp(-r))[:, :, None]

r"""The posterior of a Gaussian process, with mean and standard deviation in closed form.

Rasmussen and Williams (2006), algorithm 2.1: with k = k(x, training rows), K + s^2 I = L L' and
alpha = (K + s^2 I)^-1 y, mean k'alpha and latent variance k(x, x) - |L^-1 k|^2; a new observation
adds s^2. The kernel is a Matern of smoothness 3/2 in the Euclidean distance of the standardised
features, k = v (1 + r) exp(-r), r = sqrt(3) distance / length.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import ndtri

from bandgap.inference.gaussian_process.label_weights import WeightsAndChanges
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws, by_block
from bandgap.posterior.training_rows import TrainingRows

ROWS_PER_BLOCK = 1024  # structures predicted together; bounds the memory


def matern(distances: Floats, *, length: float) -> Floats:
    """Return the Matern correlation of smoothness 3/2 at distances of any shape."""
    r = np.sqrt(3.0) / length * distances
    result: Floats = (1.0 + r) * np.exp(-r)
    return result


# 201 numbers with mean 0 and sd 1.006 whose j/200 quantiles are those of the standard normal,
# j = 1 to 199.
NORMAL_SCORES: Floats = ndtri(np.clip(np.arange(201) / 200.0, 1.0 / 200.0, 199.0 / 200.0))


@dataclass(frozen=True, eq=False)
class GaussianProcessPosterior:
    """Training rows, alpha (n,) and Cholesky factor L (n, n); variances over `y_sd_eV` squared.

    Draws of the mean are its quantiles at fixed probabilities, so their mean and the quantiles that
    the table stores are exact. All structures have the same probabilities: the draws contain no
    correlation between structures.
    """

    kind: ClassVar[str] = "gaussian_process"
    n_chains: ClassVar[int] = 1
    n_members: ClassVar[int] = 1

    rows: TrainingRows
    coefficients: Floats
    factor: Floats
    variance: float
    length: float
    noise_variance: float
    y_mean_eV: float
    y_sd_eV: float
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_draws(self) -> int:
        """Number of draws of the mean."""
        return int(NORMAL_SCORES.size)

    @property
    def noise_eV(self) -> float:
        """Standard deviation of the noise in eV."""
        return float(np.sqrt(self.noise_variance)) * self.y_sd_eV

    def mean_and_sd_eV(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and sd (n,) of the noise-free gap in eV for raw features (n, p)."""
        mean, latent = by_block(self._block, features, rows=ROWS_PER_BLOCK)
        return self.y_mean_eV + self.y_sd_eV * mean, self.y_sd_eV * np.sqrt(latent)

    def _block(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        distances = self.rows.distances(features, "euclidean")
        k = self.variance * matern(distances, length=self.length)
        explained = np.sum(solve_triangular(self.factor, k.T, lower=True) ** 2, axis=0)
        return k @ self.coefficients, np.maximum(self.variance - explained, 0.0)

    def label_weights(self, features: NDArray[np.floating[Any]]) -> WeightsAndChanges:
        """Return weights (m, n) of the labels and changes in eV for raw features (m, p)."""
        distances = self.rows.distances(features, "euclidean")
        inverse = cho_solve((self.factor, True), np.eye(len(self.factor)))
        weights = self.variance * matern(distances, length=self.length) @ inverse
        left_out_residuals = self.y_sd_eV * self.coefficients / np.diag(inverse)
        return WeightsAndChanges(weights, weights * left_out_residuals)

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and one normal for a new observation for raw features (n, p)."""
        mean, sd = self.mean_and_sd_eV(features)
        draws = mean + NORMAL_SCORES[:, None] * sd
        return PredictiveDraws(draws[None], mean[None], np.hypot(sd, self.noise_eV)[None])

    def summaries(self) -> dict[str, Floats]:
        """Return the noise, equal for every draw."""
        return {"sigma_eV": np.full((1, self.n_draws), self.noise_eV)}

"""What earlier runs stored around the posterior of a set with metals. It goes with the release.

Their classifier has a Gaussian process on the descriptor's blocks next to the trees (Rasmussen and
Williams, 2006, section 3.6, by expectation propagation). Some move the semiconductors' gaps by a
straight line in the classifier's score. docs/explanation/metals.md has what both gained.
"""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky, solve_triangular
from scipy.spatial.distance import cdist

from bandgap.inference.gaussian_process.product_kernel import INTERCEPT_VARIANCE, covariance
from bandgap.posterior.metal_classifier import MetalClassifier, MetalScores
from bandgap.posterior.protocol import Floats, PredictiveDraws
from bandgap.posterior.training_rows import TrainingRows, typical_distance

JITTER = 1e-6
_LINE_STREAM = 0x3E7C  # with the seed, it names the stream of the line's draws


@dataclass(frozen=True)
class ScoreLine:
    """A change of the semiconductors' gaps, straight in the classifier's score.

    The change in eV is `intercept_eV` plus `slope_eV` times the excess: the score minus
    `mean_score`, the mean of the semiconductors among the training rows. Scores are limited to
    theirs, `lowest` to `highest`. `covariance_eV2` is that of intercept and slope: two variances
    and the covariance, in this order.
    """

    intercept_eV: float
    slope_eV: float
    covariance_eV2: tuple[float, float, float]
    mean_score: float
    lowest: float
    highest: float

    def moved(self, draws: PredictiveDraws, scores: Floats, *, seed: int) -> PredictiveDraws:
        """Return the draws moved by the line at scores (n,), and widened by its uncertainty."""
        excess = np.clip(scores, self.lowest, self.highest) - self.mean_score
        of_intercept, of_slope, of_both = self.covariance_eV2
        variances_eV2 = of_intercept + 2.0 * of_both * excess + of_slope * excess**2
        n_chains, n_draws, _ = draws.means_eV.shape
        changes_eV = self._draws_eV(excess, n_chains * n_draws, seed=seed)
        return PredictiveDraws(
            draws.means_eV + changes_eV.reshape(draws.means_eV.shape),
            draws.centres_eV + (self.intercept_eV + self.slope_eV * excess),
            np.sqrt(draws.wide_sds_eV**2 + variances_eV2),
        )

    def _draws_eV(self, excess: Floats, n_draws: int, *, seed: int) -> Floats:
        """Return draws (draw, n) of the change of gaps with an excess (n,)."""
        rng = np.random.default_rng([seed, _LINE_STREAM])
        of_intercept, of_slope, of_both = self.covariance_eV2
        # The Cholesky factor of the covariance.
        factor_11 = math.sqrt(of_intercept)
        factor_21 = of_both / factor_11 if factor_11 else 0.0
        factor_22 = math.sqrt(max(of_slope - factor_21**2, 0.0))
        z = rng.standard_normal((n_draws, 2))
        intercepts = self.intercept_eV + factor_11 * z[:, :1]
        slopes = self.slope_eV + factor_21 * z[:, :1] + factor_22 * z[:, 1:]
        result: Floats = intercepts + slopes * excess
        return result


@dataclass(frozen=True, eq=False)
class ProcessClassifier(MetalClassifier):
    """A classifier whose first score is that of a Gaussian process with sites by row."""

    kind: ClassVar[str] = "process"

    rows: TrainingRows
    ends: NDArray[np.int64]  # of the blocks among the varying columns
    theta: Floats
    site_precision: Floats
    site_shift: Floats

    def scores(self, features: NDArray[np.floating[Any]]) -> MetalScores:
        """Return the scores of n structures for raw features (n, p)."""
        mean, variance = self._conditional(*self._squares(self.rows.scaled(features)))
        t = self.tree_scores(features)
        return MetalScores(np.stack([mean, t, np.ones_like(t)]), variance)

    def _conditional(self, *squares: Floats) -> tuple[Floats, Floats]:
        """Return mean and variance (m,) of the process at squared distances (m, n) of rows."""
        theta = self.theta
        root = np.sqrt(self.site_precision)
        c = covariance(theta, squares)
        reduced = solve_triangular(
            self._factor, root[:, None] * c.T, lower=True, check_finite=False
        )
        prior = INTERCEPT_VARIANCE + np.exp(2 * theta[0])
        return c @ self._weights_of_rows, np.maximum(prior - (reduced**2).sum(axis=0), 0.0)

    @cached_property
    def _covariance(self) -> Floats:
        k = covariance(self.theta, self._squares(self.rows.scaled()))
        k[np.diag_indices(len(k))] += JITTER
        return k

    @cached_property
    def _factor(self) -> Floats:
        """The Cholesky factor of 1 + root k root."""
        root = np.sqrt(self.site_precision)
        matrix = root[:, None] * self._covariance * root
        matrix[np.diag_indices(root.size)] += 1.0
        return np.asarray(cholesky(matrix, lower=True, check_finite=False))

    @cached_property
    def _weights_of_rows(self) -> Floats:
        shift = self.site_shift
        root = np.sqrt(self.site_precision)
        solved = cho_solve((self._factor, True), root * (self._covariance @ shift))
        weights: Floats = shift - root * solved
        return weights

    @cached_property
    def _parts(self) -> list[tuple[Floats, float]]:
        """The scaled training rows of each block, and their typical distance."""
        parts = self._by_block(self.rows.scaled())
        return [(x, typical_distance(cdist(x, x))) for x in parts]

    def _squares(self, scaled: Floats) -> tuple[Floats, ...]:
        pairs = zip(self._by_block(scaled), self._parts, strict=True)
        return tuple((cdist(a, b) / typical) ** 2 for a, (b, typical) in pairs)

    def _by_block(self, scaled: Floats) -> list[Floats]:
        return np.split(scaled, self.ends[:-1], axis=1)

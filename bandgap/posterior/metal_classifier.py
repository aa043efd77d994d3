r"""The probability that a structure is a metal.

Boosted trees give a score: t is the normal score of their probability. A probit regression
calibrates it:

    P(metal) = Phi(w_1 t + w_2)

The weights have normal priors and are fitted to scores of left-out rows; their posterior is normal
(Laplace) and is integrated out:

    p = Phi((w' x) / sqrt(1 + x' C x)),     x = (t, 1)

w and C are mean and covariance of the weights. The probability is not closer to 0 or 1 than
1 / (2 n + 2), as n rows cannot show more.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.protocol import Floats

LEAST_TREE_PROBABILITY = 1e-4
_DRAWS_STREAM = 0x3E7A1  # with the seed, it names the stream of the weights' draws


@dataclass(frozen=True, eq=False)
class MetalScores:
    """Scores x (score, n) of structures, the last of them 1, and the variance (n,) of the first."""

    x: Floats
    variance: Floats

    @classmethod
    def of_trees(cls, t: Floats) -> Self:
        """Return the scores of structures from the trees' normal scores (n,)."""
        return cls(np.stack([t, np.ones_like(t)]), np.zeros_like(t))

    def weighted(self, weights: Floats) -> Floats:
        """Return the normal score (n,) of the probability at `weights` (score,)."""
        total = np.sqrt(1.0 + weights[0] ** 2 * self.variance)
        return np.asarray(weights @ self.x / total)


@dataclass(frozen=True, eq=False)
class MetalClassifier:
    """Trees and the weights of their score."""

    kind: ClassVar[str] = "trees"

    trees: TreeModels  # of log odds
    weights: Floats  # (score,)
    weights_covariance: Floats  # (score, score)
    n_rows: int  # rows that the weights were fitted to
    seed: int

    def p_metal(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the probability (n,) of a metal for raw features (n, p)."""
        return self.probability(self.scores(features))

    def probability(self, scores: MetalScores) -> Floats:
        """Return the probability (n,) of a metal for scores of n structures."""
        spread = np.einsum("in,ij,jn->n", scores.x, self.weights_covariance, scores.x)
        total = 1.0 + self.weights[0] ** 2 * scores.variance + spread
        return self._limited(ndtr(self.weights @ scores.x / np.sqrt(total)))

    def p_draws(self, scores: MetalScores, n_draws: int) -> Floats:
        """Return draws (draw, n) of the probability over the weights and the first score.

        Every draw has one normal score of the first score and one vector of weights for all
        structures.
        """
        rng = np.random.default_rng([self.seed, _DRAWS_STREAM])
        of_first = ndtri((rng.permutation(n_draws) + 0.5) / n_draws)
        root = np.linalg.cholesky(self.weights_covariance)
        weights = self.weights + rng.standard_normal((n_draws, self.weights.size)) @ root.T
        first = scores.x[0] + of_first[:, None] * np.sqrt(scores.variance)
        further = weights[:, 1:] @ scores.x[1:]
        return self._limited(ndtr(weights[:, :1] * first + further))

    def _limited(self, probability: Floats) -> Floats:
        least = 1.0 / (2.0 * self.n_rows + 2.0)
        result: Floats = np.clip(probability, least, 1.0 - least)
        return result

    def scores(self, features: NDArray[np.floating[Any]]) -> MetalScores:
        """Return the scores of n structures for raw features (n, p)."""
        return MetalScores.of_trees(self.tree_scores(features))

    def tree_scores(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the trees' normal scores (n,) for raw features (n, p)."""
        return tree_scores(self.trees.predict_eV(features).mean(axis=0))


def tree_scores(log_odds: Floats) -> Floats:
    """Return the normal scores (n,) of the trees' probabilities from their log odds (n,)."""
    limits = (LEAST_TREE_PROBABILITY, 1.0 - LEAST_TREE_PROBABILITY)
    return np.asarray(ndtri(np.clip(expit(log_odds), *limits)), dtype=np.float64)

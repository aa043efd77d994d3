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
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtr, ndtri

from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.protocol import Floats

LEAST_TREE_PROBABILITY = 1e-4
_DRAWS_STREAM = 0x3E7A1  # with the seed, it names the stream of the weights' draws


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

    def probability(self, scores: Floats) -> Floats:
        """Return the probability (n,) of a metal for scores (score, n) of structures."""
        spread = np.einsum("in,ij,jn->n", scores, self.weights_covariance, scores)
        return self._limited(ndtr(self.weights @ scores / np.sqrt(1.0 + spread)))

    def p_draws(self, scores: Floats, n_draws: int) -> Floats:
        """Return draws (draw, n) of the probability over the weights, which all n share."""
        rng = np.random.default_rng([self.seed, _DRAWS_STREAM])
        root = np.linalg.cholesky(self.weights_covariance)
        weights = self.weights + rng.standard_normal((n_draws, self.weights.size)) @ root.T
        return self._limited(ndtr(weights @ scores))

    def _limited(self, probability: Floats) -> Floats:
        least = 1.0 / (2.0 * self.n_rows + 2.0)
        result: Floats = np.clip(probability, least, 1.0 - least)
        return result

    def scores(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the scores (score, n) of structures, (t, 1), for raw features (n, p)."""
        return tree_scores(self.trees.predict_eV(features).mean(axis=0))


def tree_scores(log_odds: Floats) -> Floats:
    """Return (t, 1), (score, n), of n structures from the trees' log odds (n,)."""
    limits = (LEAST_TREE_PROBABILITY, 1.0 - LEAST_TREE_PROBABILITY)
    t = np.asarray(ndtri(np.clip(expit(log_odds), *limits)), dtype=np.float64)
    return np.stack([t, np.ones_like(t)])

r"""The probability that a structure is a metal.

A Gaussian process f on the descriptor's blocks (`inference.gaussian_process.probit`) and boosted
trees give two scores. A probit regression weighs them:

    P(metal) = Phi(w_1 f + w_2 t + w_3)

t is the normal score of the trees' probability. The weights have normal priors and are fitted to
scores of left-out rows, which calibrates the probability; their posterior is normal (Laplace). f
and the weights are integrated out:

    p = Phi((w_1 m + w_2 t + w_3) / sqrt(1 + w_1^2 v + x' C x)),     x = (m, t, 1)

m and v are mean and variance of f, w and C those of the weights. The probability is not closer to 0
or 1 than 1 / (2 n + 2), as n rows cannot show more. `MetalScores` are m, t and v of structures.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import expit, ndtr, ndtri
from torch import Tensor

from bandgap.inference.gaussian_process.probit import ProbitProblem, Sites
from bandgap.posterior.fold_models import TreeModels
from bandgap.posterior.protocol import Floats, part, tensors
from bandgap.posterior.training_rows import TrainingRows, typical_distance

LEAST_TREE_PROBABILITY = 1e-4
_DRAWS_STREAM = 0x3E7A1  # with the seed, it names the stream of the weights' draws
_ARRAYS = (
    "ends",
    "is_metal",
    "theta",
    "site_precision",
    "site_shift",
    "weights",
    "weights_covariance",
)


@dataclass(frozen=True, eq=False)
class MetalScores:
    """Mean and variance (n,) of the Gaussian process, and the trees' normal score (n,)."""

    mean: Floats
    variance: Floats
    t: Floats

    def weighted(self, weights: Floats) -> Floats:
        """Return the normal score (n,) of the probability at `weights` (3,), f integrated out."""
        result: Floats = self.linear(weights) / np.sqrt(1.0 + weights[0] ** 2 * self.variance)
        return result

    def linear(self, weights: Floats) -> Floats:
        """Return the weighted sum (n,) of the scores, in an order that does not depend on n."""
        result: Floats = weights[0] * self.mean + weights[1] * self.t + weights[2]
        return result


@dataclass(frozen=True, eq=False)
class MetalClassifier:
    """Training rows of a Gaussian process with its sites, trees, and the weights of both.

    `ends` (block,) are the ends of the blocks among the varying columns of the rows.
    """

    rows: TrainingRows
    trees: TreeModels  # of log odds
    ends: NDArray[np.int64]
    is_metal: NDArray[np.bool_]  # (n,)
    theta: Floats  # (scale,)
    site_precision: Floats  # (n,)
    site_shift: Floats  # (n,)
    weights: Floats  # (3,)
    weights_covariance: Floats  # (3, 3)
    n_rows: int  # rows that the weights were fitted to
    seed: int

    def p_metal(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the probability (n,) of a metal for raw features (n, p)."""
        return self.probability(self.scores(features))

    def probability(self, scores: MetalScores) -> Floats:
        """Return the probability (n,) of a metal for scores of n structures."""
        x = np.stack([scores.mean, scores.t, np.ones_like(scores.mean)])
        spread = np.einsum("in,ij,jn->n", x, self.weights_covariance, x)
        total = 1.0 + self.weights[0] ** 2 * scores.variance + spread
        return self._limited(ndtr(scores.linear(self.weights) / np.sqrt(total)))

    def p_draws(self, scores: MetalScores, n_draws: int) -> Floats:
        """Return draws (draw, n) of the probability over f and the weights.

        Every draw has one normal score of f and one vector of weights for all structures.
        """
        rng = np.random.default_rng([self.seed, _DRAWS_STREAM])
        of_f = ndtri((rng.permutation(n_draws) + 0.5) / n_draws)
        root = np.linalg.cholesky(self.weights_covariance)
        weights = self.weights + rng.standard_normal((n_draws, 3)) @ root.T
        f = scores.mean + of_f[:, None] * np.sqrt(scores.variance)
        return self._limited(ndtr(weights[:, :1] * f + weights[:, 1:2] * scores.t + weights[:, 2:]))

    def _limited(self, probability: Floats) -> Floats:
        least = 1.0 / (2.0 * self.n_rows + 2.0)
        result: Floats = np.clip(probability, least, 1.0 - least)
        return result

    def scores(self, features: NDArray[np.floating[Any]]) -> MetalScores:
        """Return the scores of n structures for raw features (n, p)."""
        squares = self._squares(self.rows.scaled(features))
        mean, variance = self._problem.conditional(self.theta, self._sites, squares)
        log_odds = self.trees.predict_eV(features).mean(axis=0)
        return MetalScores(mean, variance, tree_scores(log_odds))

    @cached_property
    def _problem(self) -> ProbitProblem:
        y = np.where(self.is_metal, 1.0, -1.0)
        return ProbitProblem(self._squares(self.rows.scaled()), y)

    @property
    def _sites(self) -> Sites:
        return Sites(self.site_precision, self.site_shift, 0.0)

    @cached_property
    def _training_parts(self) -> list[Floats]:
        return by_part(self.rows.scaled(), self.ends)

    @cached_property
    def _typical(self) -> list[float]:
        return [typical_distance(cdist(x, x)) for x in self._training_parts]

    def _squares(self, scaled: Floats) -> tuple[Floats, ...]:
        parts = zip(by_part(scaled, self.ends), self._training_parts, self._typical, strict=True)
        return tuple((cdist(a, b) / typical) ** 2 for a, b, typical in parts)

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything except the scalars as named tensors."""
        trees = {f"trees.{name}": value for name, value in self.trees.to_arrays().items()}
        return self.rows.to_arrays() | trees | tensors(self, _ARRAYS)

    def scalars(self) -> dict[str, Any]:
        """Return the number of features and of rows, and the seed."""
        return {"n_features": self.rows.n_features, "n_rows": self.n_rows, "seed": self.seed}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any]) -> Self:
        """Build a classifier from `to_arrays` and `scalars`."""
        n_features = scalars["n_features"]
        return cls(
            TrainingRows.from_arrays(arrays, n_features=n_features),
            TreeModels.from_arrays(part(arrays, "trees."), scalars={"n_features": n_features}),
            n_rows=scalars["n_rows"],
            seed=scalars["seed"],
            **{name: arrays[name].numpy() for name in _ARRAYS},
        )


def by_part(scaled: Floats, ends: NDArray[np.int64]) -> list[Floats]:
    """Divide scaled columns (n, column) into blocks with these ends."""
    starts = [0, *ends[:-1]]
    return [scaled[:, start:end] for start, end in zip(starts, ends, strict=True)]


def tree_scores(log_odds: Floats) -> Floats:
    """Return the normal scores (n,) of the trees' probabilities from their log odds (n,)."""
    limits = (LEAST_TREE_PROBABILITY, 1.0 - LEAST_TREE_PROBABILITY)
    return np.asarray(ndtri(np.clip(expit(log_odds), *limits)), dtype=np.float64)

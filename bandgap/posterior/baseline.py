r"""A posterior of what a straight line in one known value leaves of the gaps, and the line added back.

y = b (g - mean(g)) + k e(g) + f(x) + noise, g a baseline in eV that every structure has beside its features, such as a
gap of tight binding. f has any posterior; its own level is the line's intercept. e(g) is how far g is outside the range
of the training rows, 0 inside it; k, the change of the slope there, has the prior N(0, s^2) with s the prior standard
deviation of the slope itself (`sources.recalibration`). In Bayesian linear regression the columns e of the training
rows are zero, so the posterior of k is its prior, independent of all else: no label says how the line continues.

b is normal and independent of f and k: a new observation has sd(b)^2 (g - mean(g))^2 + s^2 e(g)^2 more variance. Draws
of the mean have normal scores of b and of k, each stratified over all draws, so that their mean is the one at the mean
of b and at k = 0. One draw alone has this mean.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from bandgap.posterior.protocol import Diagnostics, Floats, Posterior, PredictiveDraws

_SLOPE_STREAM, _OUTSIDE_STREAM = 0xBA5E, 0xBA5F  # of random numbers, next to the seed


@dataclass(frozen=True)
class Baseline:
    """The line in the first feature behind the `n_features` of the descriptor: slope with its sd, centre in eV.

    `lowest_eV` and `highest_eV` are the ends of the baseline over the training rows; beyond them the slope changes by
    a normal variable of standard deviation `outside_sd`. Runs of older versions have neither.
    """

    n_features: int
    slope: float
    slope_sd: float
    centre_eV: float
    lowest_eV: float | None = None
    highest_eV: float | None = None
    outside_sd: float = 0.0

    def values_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the baseline (n,) of raw features (n, p)."""
        return np.asarray(features[:, self.n_features], dtype=np.float64)

    def distances_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return by how much the baseline (n,) of raw features (n, p) is above the centre."""
        return self.values_eV(features) - self.centre_eV

    def excess_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return how far the baseline (n,) of raw features (n, p) is outside the training rows' range, with its sign.

        Zero inside the range, and everywhere where the range is not known.
        """
        values = self.values_eV(features)
        if self.lowest_eV is None or self.highest_eV is None:
            return np.zeros_like(values)
        result: Floats = values - np.clip(values, self.lowest_eV, self.highest_eV)
        return result


@dataclass(frozen=True, eq=False)
class BaselinePosterior:
    """The posterior of the rest, which is given the descriptor's features alone, and the line."""

    kind: ClassVar[str] = "baseline"

    rest: Posterior
    baseline: Baseline
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return self.rest.n_chains

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.rest.n_draws

    @property
    def n_members(self) -> int:
        return self.rest.n_members

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (chain, draw, n), in eV, for raw features (n, p)."""
        return self.rest.mean_draws_eV(
            features[:, : self.baseline.n_features]
        ) + self._line_draws_eV(features)

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean, and the components of a new observation moved and widened, for raw (n, p)."""
        own = self.rest.predictive_draws(features[:, : self.baseline.n_features])
        baseline = self.baseline
        distances = baseline.distances_eV(features)
        of_slope = np.hypot(own.wide_sds_eV, baseline.slope_sd * distances)
        return PredictiveDraws(
            own.means_eV + self._line_draws_eV(features),
            own.centres_eV + baseline.slope * distances,
            np.hypot(of_slope, baseline.outside_sd * baseline.excess_eV(features)),
        )

    def _line_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        baseline = self.baseline
        slopes = baseline.slope + baseline.slope_sd * self._normal_scores(_SLOPE_STREAM)
        changes = baseline.outside_sd * self._normal_scores(_OUTSIDE_STREAM)
        result: Floats = slopes * baseline.distances_eV(features) + changes * baseline.excess_eV(
            features
        )
        return result

    def _normal_scores(self, stream: int) -> Floats:
        """Return normal scores, stratified over all draws, (chain, draw, 1)."""
        order = np.random.default_rng([self.seed, stream]).permutation(self.n_chains * self.n_draws)
        result: Floats = ndtri((order + 0.5) / order.size).reshape(self.n_chains, self.n_draws, 1)
        return result

    def summaries(self) -> dict[str, Floats]:
        """Return those of the rest."""
        return self.rest.summaries()

    def to_arrays(self) -> dict[str, Tensor]:
        """Return the tensors of the rest."""
        return self.rest.to_arrays()

    def scalars(self) -> dict[str, Any]:
        """Return kind and scalars of the rest, the line and the seed."""
        rest = {"kind": self.rest.kind, **self.rest.scalars()}
        return {"rest": rest, "baseline": asdict(self.baseline), "seed": self.seed}

    @classmethod
    def around(
        cls, rest: Posterior, *, scalars: Mapping[str, Any], diagnostics: Diagnostics
    ) -> "BaselinePosterior":
        """Build a posterior from `scalars` and the posterior of the rest."""
        return cls(rest, Baseline(**scalars["baseline"]), scalars["seed"], diagnostics)

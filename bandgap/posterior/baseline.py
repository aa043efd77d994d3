r"""A posterior with a baseline: a line in one known value plus a residual posterior.

    y = b (g - mean(g)) + k e(g) + f(x) + noise

g is a baseline in eV that every structure has in addition to its features, such as a gap by tight
binding. f is the residual, with any posterior; its level is the line's intercept. e(g) is the
distance of g from the range of the training rows, 0 inside it. k is the change of the slope outside
the range. Its prior is N(0, s^2), where s is the prior standard deviation of the slope
(`sources.recalibration`). e is zero for all training rows, so the posterior of k is its prior,
independent of everything else.

b is normal and independent of f and k. So a new observation has the additional variance sd(b)^2 (g
- mean(g))^2 + s^2 e(g)^2. Draws of the mean use normal scores of b and of k, each stratified over
all draws. Their mean is then the one at the mean of b and k = 0, as is a single draw.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.posterior.protocol import Diagnostics, Floats, Posterior, PredictiveDraws

# Numbers that, with the seed, name the random streams.
_SLOPE_STREAM = 0xBA5E
_OUTSIDE_STREAM = 0xBA5F


@dataclass(frozen=True)
class Baseline:
    """The line in the baseline, which is the feature after the `n_features` of the descriptor.

    `centre_eV` is the mean baseline of the training rows; `lowest_eV` and `highest_eV` are its
    range. Outside the range the slope changes by a normal variable with standard deviation
    `outside_sd`. Without a range it never changes.
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
        """Return the baseline minus the centre, (n,), for raw features (n, p)."""
        return self.values_eV(features) - self.centre_eV

    def excess_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the signed distance (n,) of the baseline from the training range.

        It is zero inside the range, and everywhere if there is no range.
        """
        values = self.values_eV(features)
        if self.lowest_eV is None or self.highest_eV is None:
            return np.zeros_like(values)
        result: Floats = values - np.clip(values, self.lowest_eV, self.highest_eV)
        return result


@dataclass(frozen=True, eq=False)
class BaselinePosterior:
    """The line, and the posterior of the residual given the descriptor's features."""

    kind: ClassVar[str] = "baseline"

    residual: Posterior
    baseline: Baseline
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return self.residual.n_chains

    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        return self.residual.n_draws

    @property
    def n_members(self) -> int:
        return self.residual.n_members

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (chain, draw, n), in eV, for raw features (n, p)."""
        return self.residual.mean_draws_eV(
            features[:, : self.baseline.n_features]
        ) + self._line_draws_eV(features)

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and the mixture of a new observation for raw features (n, p)."""
        draws = self.residual.predictive_draws(features[:, : self.baseline.n_features])
        baseline = self.baseline
        distances = baseline.distances_eV(features)
        sds = np.hypot(draws.wide_sds_eV, baseline.slope_sd * distances)
        return PredictiveDraws(
            draws.means_eV + self._line_draws_eV(features),
            draws.centres_eV + baseline.slope * distances,
            np.hypot(sds, baseline.outside_sd * baseline.excess_eV(features)),
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
        """Return the summaries of the residual's posterior."""
        return self.residual.summaries()

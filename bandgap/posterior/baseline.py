r"""A posterior of what a straight line in one known value leaves of the gaps, and the line added back.

y = b (g - mean(g)) + f(x) + noise, g a baseline in eV that every structure has beside its features, such as a gap of
tight binding. f has any posterior; its own level is the line's intercept. b is normal and independent of f: a new
observation has sd(b)^2 (g - mean(g))^2 more variance, and draws of the mean have normal scores of b, stratified over
all draws, so that their mean is the one at the mean of b. One draw alone has this mean.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from torch import Tensor

from bandgap.posterior.protocol import Diagnostics, Floats, Posterior, PredictiveDraws


@dataclass(frozen=True)
class Baseline:
    """The line in the first feature behind the `n_features` of the descriptor: slope with its sd, centre in eV."""

    n_features: int
    slope: float
    slope_sd: float
    centre_eV: float

    def distances_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return by how much the baseline (n,) of raw features (n, p) is above the centre."""
        return np.asarray(features[:, self.n_features], dtype=np.float64) - self.centre_eV


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
        return self.rest.mean_draws_eV(features[:, : self.baseline.n_features]) + self._line_draws_eV(features)

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean, and the components of a new observation moved and widened, for raw (n, p)."""
        own = self.rest.predictive_draws(features[:, : self.baseline.n_features])
        distances = self.baseline.distances_eV(features)
        return PredictiveDraws(
            own.means_eV + self._line_draws_eV(features),
            own.centres_eV + self.baseline.slope * distances,
            np.hypot(own.wide_sds_eV, self.baseline.slope_sd * distances),
        )

    def _line_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        shape, baseline = (self.n_chains, self.n_draws, 1), self.baseline
        order = np.random.default_rng([self.seed, 0xBA5E]).permutation(self.n_chains * self.n_draws)
        scores = ndtri((order + 0.5) / order.size).reshape(shape)
        result: Floats = (baseline.slope + baseline.slope_sd * scores) * baseline.distances_eV(features)
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
    def around(cls, rest: Posterior, *, scalars: Mapping[str, Any], diagnostics: Diagnostics) -> "BaselinePosterior":
        """Build a posterior from `scalars` and the posterior of the rest."""
        return cls(rest, Baseline(**scalars["baseline"]), scalars["seed"], diagnostics)

r"""The posterior of a network with independent normal weights: mean and variance in closed form.

Mean and variance are propagated through the network layer by layer
(`research/assumed_density/moments`). A new observation is normal, with the variance due to the
weights plus the noise variance b / (a - 1). Features are clipped at a number of standard
deviations, in training and in prediction, because the variance grows with their square.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammainccinv

from bandgap.networks.standardise import Standardiser
from bandgap.posterior.gaussian_process import NORMAL_SCORES
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws
from bandgap.research.assumed_density.belief import Gamma, Weights
from bandgap.research.assumed_density.moments import output_moments


@dataclass(frozen=True, eq=False)
class FactorisedNetworkPosterior:
    """Independent normal weights W = sqrt(c) [weight, bias], and the noise's precision.

    Draws of the mean are its quantiles at fixed probabilities, so their mean and the quantiles that
    the table stores are exact. All structures have the same probabilities: the draws contain no
    correlation between structures. `sampled_means_eV` returns draws that do.
    """

    kind: ClassVar[str] = "factorised_network"
    n_chains: ClassVar[int] = 1
    n_members: ClassVar[int] = 1

    standardiser: Standardiser
    weights: Weights
    noise: Gamma  # distribution of the noise's precision, in 1 / y_sd^2
    clip: float  # largest standardised feature
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_draws(self) -> int:
        """Number of draws of the mean."""
        return int(NORMAL_SCORES.size)

    @property
    def noise_eV(self) -> float:
        """Standard deviation of the noise in eV, including its uncertainty."""
        return float(np.sqrt(self.noise.variance)) * self.standardiser.y_sd_eV

    def mean_and_sd_eV(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and sd (n,) of the noise-free gap in eV for raw features (n, p)."""
        moments = output_moments(self.weights, self._inputs(features))
        sds = self.standardiser.y_sd_eV * np.sqrt(moments.variance[:, 0].numpy())
        return self.standardiser.gaps_eV(moments.mean[:, 0].numpy()), sds

    def _inputs(self, features: NDArray[np.floating[Any]]) -> Floats:
        return clipped_features(self.standardiser, features, limit=self.clip)

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and one normal for a new observation for raw features (n, p)."""
        mean, sd = self.mean_and_sd_eV(features)
        draws = mean + NORMAL_SCORES[:, None] * sd
        return PredictiveDraws(draws[None], mean[None], np.hypot(sd, self.noise_eV)[None])

    def sampled_means_eV(
        self, features: NDArray[np.floating[Any]], *, draws: int, seed: int
    ) -> Floats:
        """Return predictions by draws of all weights, (draw, n), in eV, for raw features (n, p)."""
        rng = np.random.default_rng(seed)
        x = self._inputs(features)
        outputs = np.empty((draws, x.shape[0]))
        for draw in range(draws):
            z = x
            for level, (mean, variance) in enumerate(
                zip(self.weights.means, self.weights.variances, strict=True)
            ):
                w = mean + np.sqrt(variance) * rng.standard_normal(mean.shape)
                z = np.maximum(z, 0.0) if level else z
                z = (z @ w[:, :-1].T + w[:, -1]) / np.sqrt(mean.shape[1])
            outputs[draw] = z[:, 0]
        return self.standardiser.gaps_eV(outputs)

    def summaries(self) -> dict[str, Floats]:
        """Return quantiles of the noise in eV, as its draws."""
        probabilities = (np.arange(self.n_draws) + 0.5) / self.n_draws
        precisions = gammainccinv(self.noise.shape, probabilities) / self.noise.rate
        return {"sigma_eV": (self.standardiser.y_sd_eV / np.sqrt(precisions))[None]}


def clipped_features(
    standardiser: Standardiser, features: NDArray[np.floating[Any]], *, limit: float
) -> Floats:
    """Return standardised features of raw features (n, p), clipped to the limit."""
    result: Floats = np.clip(standardiser.features(features), -limit, limit)
    return result

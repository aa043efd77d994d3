"""Common parts of the posteriors of Gaussian processes with draws of the kernel's scales.

Gaps are standardised with the mean and standard deviation of the training rows. Draws of the mean
at a structure are normal scores of its conditional distribution. They are stratified over all draws
of the scales, so that their quantiles are those of the mixture.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws, by_block
from bandgap.posterior.stratified import stratified_scores

SCORES: Final = 8  # draws of the mean for each draw of the scales
ROWS_PER_BLOCK: Final = 1024  # structures predicted together


class Problem(Protocol):
    """The density of the scales, from which they are drawn."""

    def log_density(self, theta: Floats) -> tuple[float, Floats]:
        """Return the log density of scales (k,) and its gradient (k,)."""
        ...

    def log_value(self, theta: Floats) -> float:
        """Return the log density alone."""
        ...


@dataclass(frozen=True, eq=False, kw_only=True)
class ScaleDraws:
    """Gaps of the training rows and draws of the scales.

    The last scale is the log of the standard deviation of the noise.
    """

    n_chains: ClassVar[int] = 1
    n_members: ClassVar[int] = 1

    gaps_eV: Floats  # (n,)
    theta: Floats  # (draw, scale)
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def problem(self) -> Problem:
        """The density of the scales given the training rows."""
        raise NotImplementedError

    def conditional(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and variance (draw, n) at raw features (n, p) for each draw of the scales."""
        raise NotImplementedError

    def with_draws(self, theta: Floats, diagnostics: Diagnostics) -> Self:
        """Return a copy with draws (draw, scale) of the scales."""
        return replace(self, theta=theta, diagnostics=diagnostics)

    @property
    def n_draws(self) -> int:
        """Number of draws of the mean."""
        return SCORES * len(self.theta)

    @cached_property
    def y_mean_eV(self) -> float:
        """Mean of the training gaps."""
        return float(self.gaps_eV.mean())

    @cached_property
    def y_sd_eV(self) -> float:
        """Standard deviation of the training gaps."""
        return float(self.gaps_eV.std())

    @cached_property
    def _scores(self) -> Floats:
        """Normal scores (draw of the scales, SCORES), stratified over all of them."""
        return stratified_scores(len(self.theta), SCORES, seed=self.seed)

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and the mixture of a new observation for raw features (n, p)."""
        means, centres, sds = by_block(self._block, features, rows=ROWS_PER_BLOCK)
        return PredictiveDraws(means[None], centres, sds)

    def _block(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats, Floats]:
        centres, latent = self.conditional(features)
        draws = centres[:, None] + np.sqrt(latent)[:, None] * self._scores[:, :, None]
        means = self.y_mean_eV + self.y_sd_eV * draws.reshape(self.n_draws, len(features))
        noise = np.exp(2 * self.theta[:, -1:])
        return (
            means,
            self.y_mean_eV + self.y_sd_eV * centres,
            self.y_sd_eV * np.sqrt(latent + noise),
        )

    def summaries(self) -> dict[str, Floats]:
        """Return draws of the noise in eV."""
        return {"sigma_eV": (np.exp(self.theta[:, -1]) * self.y_sd_eV)[None]}

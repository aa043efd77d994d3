"""The posterior of a Gaussian process on the last hidden features of the source network.

The process has a trend (1, f_source) and a Matern covariance in the distance of the features.
Features are centred on the training rows and divided by one common scale. Draws of the mean at a
structure are normal scores of its conditional distribution. They are stratified over the draws of a
chain, so that their quantiles are those of the mixture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from bandgap.networks.hidden_layers import hidden_in_double
from bandgap.networks.perceptron import Params
from bandgap.networks.standardise import Standardiser
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws, by_block

if TYPE_CHECKING:
    # Imported when predicting, because they import numba.
    from bandgap.research.vecchia.kriging import Kriged
    from bandgap.research.vecchia.likelihood import Theta

SCORES = 8  # draws of the mean for each draw of the scales
ROWS_PER_BLOCK = 1024
# Spread of the source's features or predictions below which they count as constant.
LEAST_SPREAD = 1e-6


@dataclass(frozen=True, eq=False)
class DeepKernelPosterior:
    """Training rows with draws of theta (chain, draw, 4) and of beta (chain, draw, p).

    theta is (sigma2, rho, nu, tau2) in standardised gaps and scaled features. `output` (q + 1,) are
    the source's output weights, the bias last. A prediction uses the `predict_from` nearest
    training rows, all if it is 0.
    """

    kind: ClassVar[str] = "deep_kernel"
    n_members: ClassVar[int] = 1

    standardiser: Standardiser
    hidden: Params
    output: Floats
    centre: Floats  # (q,)
    scale: float
    points: Floats  # (n, q)
    trend: Floats  # (n, p)
    gaps: Floats  # (n,), standardised
    theta: Floats
    beta: Floats
    predict_from: int
    seed: int
    # (p, p): precision of beta given fixed scales; beta is then integrated out.
    precision: Floats | None = None
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @classmethod
    def of_rows(
        cls,
        params: Params,
        hidden: Params,
        standardiser: Standardiser,
        features: NDArray[np.floating[Any]],
        gaps_eV: Floats,
        *,
        seed: int,
    ) -> Self:
        """Return the posterior without draws for the training rows with raw features (n, p)."""
        last = max(int(name.split(".")[1]) for name in params)
        weight, bias = (params[f"{name}.{last}"].double().numpy() for name in ("weight", "bias"))
        output = np.append(weight[0], bias[0])
        h = _hidden(hidden, standardiser, features)
        centre = h.mean(axis=0)
        largest_sd = float(np.linalg.norm(h - centre, ord=2)) / np.sqrt(len(h))
        scale = largest_sd if largest_sd > LEAST_SPREAD else 1.0
        varies = float((h @ output[:-1]).std()) > LEAST_SPREAD
        empty = np.empty((0, 0, 0))
        start = cls(
            standardiser=standardiser,
            hidden=hidden,
            output=output if varies else np.empty(0),
            centre=centre,
            scale=scale,
            points=np.empty((0, 0)),
            trend=np.empty((0, 0)),
            gaps=standardiser.gaps(gaps_eV),
            theta=empty,
            beta=empty,
            predict_from=0,
            seed=seed,
        )
        points, trend = start.coordinates_and_trend(features)
        return replace(start, points=points, trend=trend)

    def coordinates_and_trend(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return coordinates (n, q) and trend (n, p) of raw features (n, number of features)."""
        return self._of_hidden(_hidden(self.hidden, self.standardiser, features))

    def _of_hidden(self, h: Floats) -> tuple[Floats, Floats]:
        ones = np.ones((len(h), 1))
        trend = (
            np.hstack([ones, h @ self.output[:-1, None] + self.output[-1]])
            if self.output.size
            else ones
        )
        return np.ascontiguousarray((h - self.centre) / self.scale), trend

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.theta.shape[0])

    @property
    def n_draws(self) -> int:
        """Number of draws of the mean of each chain."""
        return SCORES * int(self.theta.shape[1])

    @property
    def thetas(self) -> list[Theta]:
        """The draws of the scales, chain after chain."""
        from bandgap.research.vecchia.likelihood import Theta

        return [Theta(*map(float, row)) for row in self.theta.reshape(-1, 4)]

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (chain, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and the mixture of a new observation for raw features (n, p)."""
        means, centres, sds = by_block(self._block, features, rows=ROWS_PER_BLOCK)
        shape = (self.n_chains, self.n_draws, len(features))
        return PredictiveDraws(means.reshape(shape), centres, sds)

    def _block(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats, Floats]:
        points, trend = self.coordinates_and_trend(features)
        betas = self.beta.reshape(-1, self.beta.shape[-1])
        kriged = self._kriged(self.thetas, betas, points, trend, precision_beta=self.precision)
        sd = np.sqrt(kriged.latent)
        draws = kriged.mean[:, None] + sd[:, None] * self._scores[:, :, None]
        noise = self.theta.reshape(-1, 4)[:, 3:]
        y_sd = self.standardiser.y_sd_eV
        to_eV = self.standardiser.gaps_eV
        flat = (SCORES * len(betas), len(features))
        return to_eV(draws.reshape(flat)), to_eV(kriged.mean), y_sd * np.sqrt(kriged.latent + noise)

    @property
    def _scores(self) -> Floats:
        """Normal scores (draw of the scales, SCORES), stratified over the draws of each chain."""
        rng = np.random.default_rng(self.seed)
        chains, k = self.theta.shape[:2]
        order = np.array([[rng.permutation(k) for _ in range(SCORES)] for _ in range(chains)])
        ranks = (np.arange(SCORES)[None, :, None] + (order + 0.5) / k) / SCORES
        return np.asarray(ndtri(ranks).transpose(0, 2, 1).reshape(-1, SCORES), dtype=np.float64)

    def far_share(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return the sd of the noise-free gap over the sd far from all data, (n,), from 0 to 1."""
        from bandgap.research.vecchia.likelihood import Theta

        points, trend = self.coordinates_and_trend(features)
        theta = Theta(*np.median(self.theta.reshape(-1, 4), axis=0))
        beta = self.beta.reshape(-1, self.beta.shape[-1]).mean(axis=0)
        kriged = self._kriged([theta], beta[None], points, trend)
        return np.asarray(np.sqrt(kriged.latent[0] / theta.sigma2))

    def _kriged(
        self,
        thetas: Sequence[Theta],
        betas: Floats,
        points: Floats,
        trend: Floats,
        *,
        precision_beta: Floats | None = None,
    ) -> Kriged:
        from bandgap.research.vecchia.kriging import Observed, predict

        return predict(
            Observed(self.points, self.trend, self.gaps),
            thetas,
            betas,
            points,
            trend,
            m=self.predict_from,
            precision_beta=precision_beta,
        )

    def summaries(self) -> dict[str, Floats]:
        """Return draws of the noise in eV."""
        return {"sigma_eV": self.standardiser.y_sd_eV * np.sqrt(self.theta[..., 3])}


def _hidden(
    hidden: Params, standardiser: Standardiser, features: NDArray[np.floating[Any]]
) -> Floats:
    return hidden_in_double(hidden, standardiser.features(features))[-1]

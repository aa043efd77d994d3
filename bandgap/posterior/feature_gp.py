"""The posterior of a Gaussian process on a source network's features and on the descriptor (`inference.sum_kernel`).

Stored are the training rows as the kernels see them and draws of the kernel's scales; factors are computed again where
predictions are wanted, one for each draw. Draws of the mean at a structure are normal scores of its conditional
distribution, stratified over all draws, so that their quantiles are those of the mixture.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import ndtri
from torch import Tensor

from bandgap.inference.sum_kernel import INTERCEPT_VARIANCE, Kernels, SumKernelProblem
from bandgap.networks import Params, forward, hidden_features
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws
from bandgap.source_statistics import hidden_layers
from bandgap.standardise import Standardiser

SCORES = 8  # draws of the mean for each draw of the scales
ROWS_PER_BLOCK = 1024  # structures predicted at once

_ARRAYS = ("kernel_mean", "kernel_scale", "columns", "rows", "feature_mean", "feature_scale", "phi", "f", "y", "theta")


@dataclass(frozen=True, eq=False)
class FeatureGPPosterior:
    """Training rows and draws of the scales; gaps in standardised units of `standardiser`, residuals over `y_scale`."""

    kind: ClassVar[str] = "feature_gp"

    standardiser: Standardiser
    params: Params  # of the source network
    kernel_mean: Floats  # (p,)
    kernel_scale: Floats  # (p,)
    columns: NDArray[np.int64]  # features that vary among the training rows
    rows: NDArray[np.float32]  # (n, column), scaled
    feature_mean: Floats  # (q,)
    feature_scale: Floats  # (q,)
    phi: NDArray[np.float32]  # (n, q), scaled
    f: Floats  # (n,), the source network at the training rows
    y: Floats  # (n,), what it leaves of the gaps, over y_scale
    theta: Floats  # (draw, 4)
    y_scale: float
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_chains(self) -> int:
        return 1

    @property
    def n_draws(self) -> int:
        """Number of draws of the mean."""
        return SCORES * len(self.theta)

    @property
    def n_members(self) -> int:
        return 1

    def with_draws(self, theta: Floats, diagnostics: Diagnostics) -> Self:
        """Return the same with draws (draw, 4) of the scales."""
        return replace(self, theta=theta, diagnostics=diagnostics)

    @cached_property
    def problem(self) -> SumKernelProblem:
        """The training rows with their kernels."""
        fixed = INTERCEPT_VARIANCE + np.outer(self._mean_column(self.f), self._mean_column(self.f))
        phi = self.phi.astype(np.float64)
        distances = cdist(self.rows, self.rows, "cityblock")
        return SumKernelProblem(Kernels(fixed, phi @ phi.T / self._gram_scale, distances / self._typical), self.y)

    @cached_property
    def _gram_scale(self) -> float:
        return float(np.mean(np.sum(self.phi.astype(np.float64) ** 2, axis=1))) or 1.0

    @cached_property
    def _typical(self) -> float:
        distances = cdist(self.rows, self.rows, "cityblock")
        return float(np.median(distances[np.triu_indices(len(distances), 1)])) or 1.0

    @cached_property
    def _levels(self) -> Floats:
        """Normal scores (draw of the scales, SCORES), stratified over all."""
        rng, k = np.random.default_rng(self.seed), len(self.theta)
        order = np.stack([rng.permutation(k) for _ in range(SCORES)], axis=1)
        result: Floats = ndtri((np.arange(SCORES) + (order + 0.5) / k) / SCORES)
        return result

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, draw, n), in eV, for raw features (n, p)."""
        return self.predictive_draws(features).means_eV

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean; a new observation is the mixture over draws of the scales, for raw (n, p)."""
        blocks = [features[i : i + ROWS_PER_BLOCK] for i in range(0, max(1, len(features)), ROWS_PER_BLOCK)]
        means, centres, sds = (np.concatenate(part, axis=-1) for part in zip(*map(self._block, blocks), strict=True))
        return PredictiveDraws(means[None], centres, sds)

    def _block(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats, Floats]:
        x = torch.from_numpy(self.standardiser.features(features)).float()
        with torch.no_grad():
            f = forward(self.params, x).double().numpy()
            h = hidden_features(hidden_layers(self.params), x).double().numpy()
        phi, column = (h - self.feature_mean) / self.feature_scale, self._mean_column(f)
        scaled = (features.astype(np.float64) - self.kernel_mean) / self.kernel_scale
        outside = np.delete(np.abs(scaled), self.columns, axis=1).sum(axis=1)  # features that training rows agree on
        distances = cdist(scaled[:, self.columns], self.rows, "cityblock") + outside[:, None]
        cross = Kernels(
            INTERCEPT_VARIANCE + np.outer(column, self._mean_column(self.f)),
            phi @ self.phi.T.astype(np.float64) / self._gram_scale,
            distances / self._typical,
        )
        own = INTERCEPT_VARIANCE + column**2
        gram = (phi**2).sum(axis=1) / self._gram_scale
        shape = (len(self.theta), len(features))
        centres, latent = np.empty(shape), np.empty(shape)
        for k, theta in enumerate(self.theta):
            prior = own + np.exp(2 * theta[0]) * gram + np.exp(2 * theta[1])
            centres[k], latent[k] = self.problem.conditional(theta, cross, prior)
        noise = np.exp(2 * self.theta[:, 3:])
        draws = centres[:, None] + np.sqrt(latent)[:, None] * self._levels[:, :, None]
        to_eV = self.standardiser.gaps_eV
        means = to_eV(f + self.y_scale * draws.reshape(self.n_draws, len(features)))
        sds = self.standardiser.y_sd_eV * self.y_scale * np.sqrt(latent + noise)
        return means, to_eV(f + self.y_scale * centres), sds

    def _mean_column(self, f: Floats) -> Floats:
        """Return the source's predictions in units of their spread over the training rows."""
        result: Floats = (f - self.f.mean()) / (float(self.f.std()) or 1.0)
        return result

    def summaries(self) -> dict[str, Floats]:
        """Return draws of the noise in eV."""
        return {"sigma_eV": (np.exp(self.theta[:, 3]) * self.y_scale * self.standardiser.y_sd_eV)[None]}

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        arrays = {f"param.{name}": value.contiguous() for name, value in self.params.items()}
        numbers = {name: getattr(self, name) for name in _ARRAYS}
        numbers |= {"x_mean": self.standardiser.x_mean, "x_scale": self.standardiser.x_scale}
        return arrays | {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in numbers.items()}

    def scalars(self) -> dict[str, Any]:
        """Return the seed and the scales of the gaps."""
        scale = self.standardiser
        return {"seed": self.seed, "y_scale": self.y_scale, "y_mean_eV": scale.y_mean_eV, "y_sd_eV": scale.y_sd_eV}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        x_mean, x_scale = arrays["x_mean"].numpy(), arrays["x_scale"].numpy()
        return cls(
            standardiser=Standardiser(x_mean, x_scale, scalars["y_mean_eV"], scalars["y_sd_eV"]),
            params={k.removeprefix("param."): v for k, v in arrays.items() if k.startswith("param.")},
            y_scale=scalars["y_scale"],
            seed=scalars["seed"],
            diagnostics=diagnostics,
            **{name: arrays[name].numpy() for name in _ARRAYS},
        )

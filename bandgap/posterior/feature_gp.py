"""The posterior of a Gaussian process on what a source network sees and on the descriptor (`inference.sum_kernel`).

Stored are the training rows' descriptors, the network, and draws of the kernel's scales; kernels and factors are
computed again where predictions are wanted. Draws of the mean at a structure are normal scores of its conditional
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
from bandgap.networks import Params
from bandgap.posterior.network_views import NetworkView, view
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws
from bandgap.standardise import Standardiser

SCORES = 8  # draws of the mean for each draw of the scales
ROWS_PER_BLOCK = 1024  # structures predicted at once

_ARRAYS = ("kernel_mean", "kernel_scale", "columns", "inputs", "last_scale", "first_scale", "gaps", "theta")


@dataclass(frozen=True, eq=False)
class Rows:
    """Structures as the kernels see them: the network's input z, and the descriptor over its scales, both (n, p)."""

    network: NetworkView
    z: Floats
    scaled: Floats


@dataclass(frozen=True, eq=False)
class FeatureGPPosterior:
    """Training rows and draws of the scales; gaps (n,) in standardised units of `standardiser`.

    `inputs` (n, column) are raw descriptors where they differ among the training rows or where the network has weights.
    """

    kind: ClassVar[str] = "feature_gp"

    standardiser: Standardiser
    params: Params  # of the source network
    kernel_mean: Floats  # (p,)
    kernel_scale: Floats  # (p,)
    columns: NDArray[np.int64]
    inputs: NDArray[np.float32]
    last_scale: Floats  # (q,)
    first_scale: Floats  # (q1,)
    gaps: Floats
    theta: Floats  # (draw, scale)
    size_apart: bool  # whether the last feature is the size, with a length of its own
    seed: int
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def with_draws(self, theta: Floats, diagnostics: Diagnostics) -> Self:
        """Return the same with draws (draw, scale) of the scales."""
        return replace(self, theta=theta, diagnostics=diagnostics)

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

    @cached_property
    def y_scale(self) -> float:
        """Standard deviation of the training gaps, in standardised units."""
        return float(self.gaps.std())

    @cached_property
    def problem(self) -> SumKernelProblem:
        """The training rows with their kernels, and what the source leaves of their gaps."""
        kernels = self._kernels(self._train, self._train)
        return SumKernelProblem(kernels, (self.gaps - self._train.network.f) / self.y_scale)

    @cached_property
    def _train(self) -> Rows:
        x = np.repeat(self.kernel_mean[None], len(self.inputs), axis=0)
        x[:, self.columns] = self.inputs
        return self._rows(x)

    @cached_property
    def _own(self) -> tuple[list[Floats], list[Floats]]:
        return self._raw(self._train, self._train)

    @cached_property
    def _units(self) -> tuple[Floats, Floats]:
        """Mean diagonals of the Gram matrices, and typical distances, over the training rows."""
        grams, distances = self._own
        upper = np.triu_indices(len(self.inputs), 1)
        typical = [float(np.median(d[upper])) for d in distances]
        means = [float(np.mean(np.diag(g))) for g in grams]
        return np.array([m or 1.0 for m in means]), np.array([t if t > 1e-3 else 1.0 for t in typical])

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
        rows = self._rows(features.astype(np.float64))
        cross, own = self._kernels(rows, self._train), self._variances(rows)
        shape = (len(self.theta), len(features))
        centres, latent = np.empty(shape), np.empty(shape)
        n_grams = len(cross.grams)
        for k, theta in enumerate(self.theta):
            prior = own[0] + np.exp(2 * theta[:n_grams]) @ own[1:] + np.exp(2 * theta[n_grams])
            centres[k], latent[k] = self.problem.conditional(theta, cross, prior)
        noise = np.exp(2 * self.theta[:, -1:])
        draws = centres[:, None] + np.sqrt(latent)[:, None] * self._levels[:, :, None]
        f, to_eV = rows.network.f, self.standardiser.gaps_eV
        means = to_eV(f + self.y_scale * draws.reshape(self.n_draws, len(features)))
        sds = self.standardiser.y_sd_eV * self.y_scale * np.sqrt(latent + noise)
        return means, to_eV(f + self.y_scale * centres), sds

    def _rows(self, x: Floats) -> Rows:
        z = self.standardiser.features(x)
        return Rows(view(self.params, z), z, (x - self.kernel_mean) / self.kernel_scale)

    def _features(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Return last and first hidden features, centred on the training rows and scaled, and the slopes."""
        train = self._train.network
        last = (rows.network.last - train.last.mean(axis=0)) / self.last_scale
        first = (rows.network.first - train.first.mean(axis=0)) / self.first_scale
        return last, first, rows.network.slopes

    def _raw(self, a: Rows, b: Rows) -> tuple[list[Floats], list[Floats]]:
        """Return Gram matrices and distances between rows, (a, b), not yet in their units."""
        (last_a, first_a, slopes_a), (last_b, first_b, slopes_b) = self._features(a), self._features(b)
        grams = [last_a @ last_b.T, first_a @ first_b.T, (slopes_a @ slopes_b.T) * (a.z @ b.z.T + 1.0)]
        moved = (np.abs(a.scaled).max(0, initial=0.0) > 1e-9) | (np.abs(b.scaled).max(0, initial=0.0) > 1e-9)
        moved[-1] &= not self.size_apart
        distances = [cdist(a.scaled[:, moved], b.scaled[:, moved], "cityblock")]
        if self.size_apart:
            distances.append(cdist(a.scaled[:, -1:], b.scaled[:, -1:], "cityblock"))
        return grams, distances

    def _kernels(self, a: Rows, b: Rows) -> Kernels:
        grams, distances = self._own if a is b is self._train else self._raw(a, b)
        means, typical = self._units
        fixed = INTERCEPT_VARIANCE + np.outer(self._mean_column(a), self._mean_column(b))
        return Kernels(
            fixed,
            tuple(g / m for g, m in zip(grams, means, strict=True)),
            tuple(d / t for d, t in zip(distances, typical, strict=True)),
        )

    def _variances(self, rows: Rows) -> Floats:
        """Return the diagonals (1 + grams, n) of the fixed part and of every Gram matrix at rows."""
        last, first, slopes = self._features(rows)
        diagonals = [(last**2).sum(1), (first**2).sum(1), (slopes**2).sum(1) * ((rows.z**2).sum(1) + 1.0)]
        fixed = INTERCEPT_VARIANCE + self._mean_column(rows) ** 2
        return np.array([fixed, *(d / m for d, m in zip(diagonals, self._units[0], strict=True))])

    def _mean_column(self, rows: Rows) -> Floats:
        """Return the source's predictions in units of their spread over the training rows."""
        f = self._train.network.f
        result: Floats = (rows.network.f - f.mean()) / (float(f.std()) or 1.0)
        return result

    def summaries(self) -> dict[str, Floats]:
        """Return draws of the noise in eV."""
        return {"sigma_eV": (np.exp(self.theta[:, -1]) * self.y_scale * self.standardiser.y_sd_eV)[None]}

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        arrays = {f"param.{name}": value.contiguous() for name, value in self.params.items()}
        numbers = {name: getattr(self, name) for name in _ARRAYS}
        numbers |= {"x_mean": self.standardiser.x_mean, "x_scale": self.standardiser.x_scale}
        return arrays | {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in numbers.items()}

    def scalars(self) -> dict[str, Any]:
        """Return the seed, the scale of the gaps and whether the size has a length of its own."""
        scale = self.standardiser
        gaps = {"y_mean_eV": scale.y_mean_eV, "y_sd_eV": scale.y_sd_eV}
        return {"seed": self.seed, "size_apart": self.size_apart, **gaps}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        x_mean, x_scale = arrays["x_mean"].numpy(), arrays["x_scale"].numpy()
        return cls(
            standardiser=Standardiser(x_mean, x_scale, scalars["y_mean_eV"], scalars["y_sd_eV"]),
            params={k.removeprefix("param."): v for k, v in arrays.items() if k.startswith("param.")},
            size_apart=scalars["size_apart"],
            seed=scalars["seed"],
            diagnostics=diagnostics,
            **{name: arrays[name].numpy() for name in _ARRAYS},
        )

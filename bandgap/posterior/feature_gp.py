"""The posterior of a Gaussian process on what source networks see and on the descriptor (`sum_kernel`).

Stored are the training rows' descriptors, the networks, and draws of the kernel's scales; kernels and factors are
computed again where predictions are wanted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor

from bandgap.foundation.fixed_blocks import fixed_blocks
from bandgap.inference.gaussian_process.sum_kernel import (
    INTERCEPT_VARIANCE,
    Kernels,
    SumKernelProblem,
)
from bandgap.networks.standardise import FLOOR
from bandgap.posterior.protocol import Diagnostics, Floats, part, tensors
from bandgap.posterior.scale_draws import ScaleDraws
from bandgap.sources.views import NetworkView, SourceNetwork

LEAST_MOVE = (
    1e-9  # of a feature in units of its scale, below which it is where all training rows have it
)
_ARRAYS = ("kernel_mean", "kernel_scale", "columns", "inputs", "gaps_eV", "theta", "levels")


@dataclass(frozen=True, eq=False)
class Rows:
    """Structures as the kernels see them: through every network, descriptor over its scales (n, p), levels (n, k)."""

    networks: tuple[NetworkView, ...]
    scaled: Floats
    levels: Floats


@dataclass(frozen=True, eq=False)
class Units:
    """What makes kernels comparable, from the training rows: of every network's features, of the Gram matrices.

    `heads`, `first` hold mean and scale of each network's outputs and first features; `grams` (network, 3) the mean
    diagonals, `distances` the medians.
    """

    heads: tuple[tuple[Floats, Floats], ...]
    first: tuple[tuple[Floats, Floats], ...]
    grams: Floats
    distances: Floats


@dataclass(frozen=True, eq=False)
class LevelKernels:
    """Two kernels of electron levels: a straight line in each level, and a smooth function of all.

    In units of the training rows: means and scales (k,) of the levels, and what makes kernels comparable. The linear
    kernel has mean diagonal 1 over these rows; the smooth one is exp(-d^2 / 2), d over the median distance of two.
    """

    mean: Floats
    scale: Floats
    diagonal: float
    distance: float

    @classmethod
    def of(cls, levels: Floats) -> "LevelKernels":
        """Return the kernels for training rows (n, k)."""
        sd = levels.std(axis=0)
        start = cls(levels.mean(axis=0), np.where(sd > 0, sd, 1.0), 1.0, 1.0)
        z = start._scaled(levels)
        diagonal = float((z**2).sum(axis=1).mean())
        typical = float(np.median(cdist(z, z)[np.triu_indices(len(z), 1)]))
        return cls(start.mean, start.scale, diagonal or 1.0, typical if typical > 1e-3 else 1.0)

    def grams(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return both kernels between levels (a, k) and (b, k)."""
        u, v = self._scaled(a), self._scaled(b)
        return u @ v.T / self.diagonal, np.exp(-0.5 * (cdist(u, v) / self.distance) ** 2)

    def diagonals(self, a: Floats) -> Floats:
        """Return both diagonals (2, n) at levels (n, k)."""
        return np.stack([(self._scaled(a) ** 2).sum(axis=1) / self.diagonal, np.ones(len(a))])

    def _scaled(self, levels: Floats) -> Floats:
        return (levels - self.mean) / self.scale


@dataclass(frozen=True, eq=False)
class FeatureGPPosterior(ScaleDraws):
    """Training rows as the networks and the kernels see them.

    `inputs` (n, column) are raw descriptors where they differ among the training rows or where a network has weights.
    `levels` (n, k) are the electron levels in eV, the last features of every structure; k is 0 where there are none.
    """

    kind: ClassVar[str] = "feature_gp"

    networks: tuple[SourceNetwork, ...]  # parts of one model
    kernel_mean: Floats  # (p,)
    kernel_scale: Floats  # (p,)
    columns: NDArray[np.int64]
    inputs: NDArray[np.float32]
    levels: Floats  # (n, k)
    size_apart: bool  # whether the last feature is the size, with a length of its own

    @cached_property
    def problem(self) -> SumKernelProblem:
        """The training rows with their kernels."""
        kernels = self._kernels(self._train, self._train)
        return SumKernelProblem(kernels, (self.gaps_eV - self.y_mean_eV) / self.y_sd_eV)

    @cached_property
    def _train(self) -> Rows:
        x = np.repeat(self.kernel_mean[None], len(self.inputs), axis=0)
        x[:, self.columns] = self.inputs
        x = np.hstack([x, self.levels])
        return self._rows(
            x, [network.view(x[:, : len(self.kernel_mean)]) for network in self.networks]
        )

    @cached_property
    def _of_levels(self) -> LevelKernels | None:
        return LevelKernels.of(self.levels) if self.levels.shape[1] else None

    @cached_property
    def _units(self) -> Units:
        views = self._train.networks
        heads = tuple((v.f.mean(axis=0), _floored(v.f.std(axis=0))) for v in views)
        first = tuple((v.first.mean(axis=0), _floored(v.first.std(axis=0))) for v in views)
        plain = Units(heads, first, np.ones((len(views), 3)), np.ones(0))
        grams = np.array([d.mean(axis=-1) for d in _diagonals(self._train, plain)])
        upper = np.triu_indices(len(self.inputs), 1)
        typical = [float(np.median(d[upper])) for d in self._distances(self._train, self._train)]
        return Units(
            heads,
            first,
            np.where(grams > 0, grams, 1.0),
            np.array([t if t > 1e-3 else 1.0 for t in typical]),
        )

    def conditional(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and variance (draw, n) of the process at raw features (n, p) given each draw of the scales."""
        seen = []
        for _, (block,) in fixed_blocks(features.astype(np.float64)):
            views = [
                network.view_in_double(block[:, : len(self.kernel_mean)])
                for network in self.networks
            ]
            rows = self._rows(block, views)
            seen.append((self._kernels(rows, self._train), self._own(rows)))
        n_grams = len(seen[0][0].grams)
        found = []
        for theta in self.theta:
            at, own_scales = self.problem.conditional(theta), np.exp(2 * theta[:n_grams])
            level = INTERCEPT_VARIANCE + np.exp(2 * theta[n_grams])
            parts = [at(cross, level + own_scales @ own) for cross, own in seen]
            found.append(
                [np.concatenate(values)[: len(features)] for values in zip(*parts, strict=True)]
            )
        centres, latent = (np.stack(values) for values in zip(*found, strict=True))
        return centres, latent

    def _rows(self, features: Floats, views: Sequence[NetworkView]) -> Rows:
        p = len(self.kernel_mean)
        x, levels = features[:, :p], features[:, p:]
        return Rows(tuple(views), (x - self.kernel_mean) / self.kernel_scale, levels)

    def _own(self, rows: Rows) -> Floats:
        """Return the diagonals (Gram matrix, n) at rows, the mean over networks."""
        own: Floats = np.mean(_diagonals(rows, self._units), axis=0)
        return (
            own
            if self._of_levels is None
            else np.concatenate([own, self._of_levels.diagonals(rows.levels)])
        )

    def _distances(self, a: Rows, b: Rows) -> list[Floats]:
        moved = np.abs(b.scaled).max(0, initial=0.0) > LEAST_MOVE
        still = ~moved
        if self.size_apart:
            moved[-1] = still[-1] = False
        away = np.abs(a.scaled[:, still])
        away[away <= LEAST_MOVE] = 0.0
        distances: list[Floats] = [
            cdist(a.scaled[:, moved], b.scaled[:, moved], "cityblock") + away.sum(1)[:, None]
        ]
        if self.size_apart:
            distances.append(cdist(a.scaled[:, -1:], b.scaled[:, -1:], "cityblock"))
        return distances

    def _kernels(self, a: Rows, b: Rows) -> Kernels:
        """Return Gram matrices, the mean over networks, and distances between rows, (a, b), in their units."""
        units, k = self._units, len(self.networks)
        grams = [np.zeros((len(a.scaled), len(b.scaled))) for _ in range(3)]
        for i, (u, v) in enumerate(zip(a.networks, b.networks, strict=True)):
            (heads_u, first_u), (heads_v, first_v) = _features(u, units, i), _features(v, units, i)
            tangent = sum(s @ t.T for s, t in zip(u.slopes, v.slopes, strict=True)) * (
                u.z @ v.z.T + 1.0
            )
            parts = heads_u @ heads_v.T, first_u @ first_v.T, tangent
            grams = [
                g + part / (k * mean)
                for g, part, mean in zip(grams, parts, units.grams[i], strict=True)
            ]
        if self._of_levels is not None:
            grams += self._of_levels.grams(a.levels, b.levels)
        distances = zip(self._distances(a, b), units.distances, strict=True)
        return Kernels(tuple(grams), tuple(d / typical for d, typical in distances))

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        networks = {
            f"network.{i}.{k}": v
            for i, n in enumerate(self.networks)
            for k, v in n.to_arrays().items()
        }
        return networks | tensors(self, _ARRAYS)

    def scalars(self) -> dict[str, Any]:
        """Return the seed, the networks' scalars and whether the size has a length of its own."""
        networks = [network.scalars() for network in self.networks]
        return {"seed": self.seed, "size_apart": self.size_apart, "networks": networks}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
    ) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        networks = [
            SourceNetwork.from_arrays(part(arrays, f"network.{i}."), scalars=own)
            for i, own in enumerate(scalars["networks"])
        ]
        plain = {name: arrays[name].numpy() for name in _ARRAYS if name in arrays}
        plain.setdefault("levels", np.empty((len(plain["inputs"]), 0)))  # runs of older versions
        return cls(
            networks=tuple(networks),
            size_apart=scalars["size_apart"],
            seed=scalars["seed"],
            diagnostics=diagnostics,
            **plain,
        )


def _features(view: NetworkView, units: Units, network: int) -> tuple[Floats, Floats]:
    """Return a network's outputs and first hidden features, centred on the training rows and scaled."""
    (heads_mean, heads_scale), (first_mean, first_scale) = (
        units.heads[network],
        units.first[network],
    )
    return (view.f - heads_mean) / heads_scale, (view.first - first_mean) / first_scale


def _diagonals(rows: Rows, units: Units) -> list[Floats]:
    """Return the diagonals (3, n) of the Gram matrices of every network at rows."""
    result = []
    for i, view in enumerate(rows.networks):
        heads, first = _features(view, units, i)
        tangent = (view.slopes**2).sum(axis=(0, 2)) * ((view.z**2).sum(axis=1) + 1.0)
        result.append(
            np.array([(heads**2).sum(1), (first**2).sum(1), tangent]) / units.grams[i][:, None]
        )
    return result


def _floored(sd: Floats) -> Floats:
    """Return scales of features (q,): one that hardly moves does not count as much as one that does."""
    scale: Floats = np.hypot(sd, FLOOR * np.sqrt(np.mean(sd**2)))
    return np.where(scale > 0, scale, 1.0)

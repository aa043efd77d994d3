"""The posterior of a Gaussian process on features of networks and descriptor (`sum_kernel`).

Stored are the descriptors of the training rows, the networks and draws of the kernel's scales.
Kernels and factors are recomputed for predictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from bandgap.inference.gaussian_process.label_weights import (
    WeightsAndChanges,
    averaged,
    evenly_spaced,
    weights_and_changes,
)
from bandgap.inference.gaussian_process.sum_kernel import (
    INTERCEPT_VARIANCE,
    Kernels,
    SumKernelProblem,
)
from bandgap.networks.standardise import FLOOR
from bandgap.posterior.protocol import Floats
from bandgap.posterior.scale_draws import ScaleDraws
from bandgap.sources.views import NetworkView, SourceNetwork

# Deviation of a scaled feature below which it counts as equal to the value of all training rows.
LEAST_DEVIATION = 1e-9
LEVELS_OF_ONE_WAY = 3  # gap, HOMO and LUMO
SATURATION = 3.0  # standard deviations of a level, the bound of its line


@dataclass(frozen=True, eq=False)
class Rows:
    """Inputs of the kernels: views by networks, scaled descriptors (n, p), levels (n, k)."""

    networks: tuple[NetworkView, ...]
    scaled: Floats
    levels: Floats


@dataclass(frozen=True, eq=False)
class Units:
    """Scales from the training rows that make kernels comparable.

    `heads` and `first` are mean and scale of each network's outputs and first hidden features.
    `grams` (network, 3) are the mean diagonals of the Gram matrices, `distances` the median
    distances.
    """

    heads: tuple[tuple[Floats, Floats], ...]
    first: tuple[tuple[Floats, Floats], ...]
    grams: Floats
    distances: Floats


@dataclass(frozen=True, eq=False)
class LevelKernels:
    """Two kernels of electron levels: a line in each level, and a smooth function of all.

    Levels are standardised with `mean` and `scale` (k,) of the training rows. A line is
    straight among them and bends to a constant outside: it is linear in
    z / sqrt(1 + (z / 3)^2). Its kernel has a mean diagonal of 1 over these rows. The smooth one is
    exp(-d^2 / 2), with d in units of their median distance.
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
        diagonal = float((start._line(z) ** 2).sum(axis=1).mean())
        typical = float(np.median(cdist(z, z)[np.triu_indices(len(z), 1)]))
        distance = typical if typical > 1e-3 else 1.0
        return replace(start, diagonal=diagonal or 1.0, distance=distance)

    def grams(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return both kernels between levels (a, k) and (b, k)."""
        u = self._scaled(a)
        v = self._scaled(b)
        line = self._line(u) @ self._line(v).T / self.diagonal
        return line, np.exp(-0.5 * (cdist(u, v) / self.distance) ** 2)

    def diagonals(self, a: Floats) -> Floats:
        """Return both diagonals (2, n) at levels (n, k)."""
        line = self._line(self._scaled(a))
        return np.stack([(line**2).sum(axis=1) / self.diagonal, np.ones(len(a))])

    def _scaled(self, levels: Floats) -> Floats:
        return (levels - self.mean) / self.scale

    def _line(self, z: Floats) -> Floats:
        line: Floats = z / np.sqrt(1.0 + (z / SATURATION) ** 2)
        return line


@dataclass(frozen=True, eq=False)
class FeatureGPPosterior(ScaleDraws):
    """Networks, kernels' scales and training rows.

    `inputs` (n, column) are the raw features that vary among the training rows or have weights in a
    network. `levels` (n, k) are the electron levels in eV, the last features of every structure; k
    may be 0.
    """

    kind: ClassVar[str] = "feature_gp"

    networks: tuple[SourceNetwork, ...]  # of one source model
    kernel_mean: Floats  # (p,)
    kernel_scale: Floats  # (p,)
    columns: NDArray[np.int64]
    inputs: NDArray[np.float32]
    levels: Floats  # (n, k), three columns for each way to compute levels
    size_apart: bool  # whether the last feature is the size, with its own length

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
    def _of_levels(self) -> tuple[LevelKernels, ...]:
        """The kernels of each way to compute levels."""
        return tuple(map(LevelKernels.of, _by_way(self.levels)))

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
        """Return mean and variance (draw, n) at raw features (n, p) for each draw of the scales."""
        rows = self._new_rows(features)
        cross = self._kernels(rows, self._train)
        diagonals = self._mean_diagonals(rows)
        n_grams = len(cross.grams)
        moments = []
        for theta in self.theta:
            level = INTERCEPT_VARIANCE + np.exp(2 * theta[n_grams])
            prior_variance = level + np.exp(2 * theta[:n_grams]) @ diagonals
            moments.append(self.problem.conditional(theta, cross, prior_variance))
        centres, latent = (np.stack(values) for values in zip(*moments, strict=True))
        return centres, latent

    def label_weights(self, features: NDArray[np.floating[Any]]) -> WeightsAndChanges:
        """Return weights (m, n) of the labels and changes in eV for raw features (m, p).

        They are means over draws of the scales.
        """
        cross = self._kernels(self._new_rows(features), self._train)
        problem = self.problem
        draws = []
        for theta in self.theta[evenly_spaced(len(self.theta))]:
            of_labels = problem.kernels.covariance(theta)
            of_labels[np.diag_indices(problem.y.size)] += np.exp(2 * theta[-1])
            y_eV = problem.y * self.y_sd_eV
            draws.append(weights_and_changes(cross.covariance(theta), of_labels, y_eV))
        return averaged(draws)

    def _new_rows(self, features: NDArray[np.floating[Any]]) -> Rows:
        x = features.astype(np.float64)
        p = len(self.kernel_mean)
        return self._rows(x, [network.view(x[:, :p]) for network in self.networks])

    def _rows(self, features: Floats, views: Sequence[NetworkView]) -> Rows:
        p = len(self.kernel_mean)
        x = features[:, :p]
        levels = features[:, p:]
        return Rows(tuple(views), (x - self.kernel_mean) / self.kernel_scale, levels)

    def _mean_diagonals(self, rows: Rows) -> Floats:
        """Return the diagonals (Gram matrix, n) at rows, averaged over networks."""
        mean_diagonals: Floats = np.mean(_diagonals(rows, self._units), axis=0)
        of_levels = [
            kernels.diagonals(levels)
            for kernels, levels in zip(self._of_levels, _by_way(rows.levels), strict=True)
        ]
        return np.concatenate([mean_diagonals, *of_levels])

    def _distances(self, a: Rows, b: Rows) -> list[Floats]:
        varies = np.abs(b.scaled).max(0, initial=0.0) > LEAST_DEVIATION
        is_constant = ~varies
        if self.size_apart:
            varies[-1] = is_constant[-1] = False
        deviations = np.abs(a.scaled[:, is_constant])
        deviations[deviations <= LEAST_DEVIATION] = 0.0
        distances: list[Floats] = [
            cdist(a.scaled[:, varies], b.scaled[:, varies], "cityblock")
            + deviations.sum(1)[:, None]
        ]
        if self.size_apart:
            distances.append(cdist(a.scaled[:, -1:], b.scaled[:, -1:], "cityblock"))
        return distances

    def _kernels(self, a: Rows, b: Rows) -> Kernels:
        """Return scaled Gram matrices, averaged over networks, and scaled distances, (a, b)."""
        units = self._units
        k = len(self.networks)
        grams = [np.zeros((len(a.scaled), len(b.scaled))) for _ in range(3)]
        for i, (u, v) in enumerate(zip(a.networks, b.networks, strict=True)):
            heads_u, first_u = _features(u, units, i)
            heads_v, first_v = _features(v, units, i)
            tangent = sum(s @ t.T for s, t in zip(u.slopes, v.slopes, strict=True)) * (
                u.z @ v.z.T + 1.0
            )
            parts = heads_u @ heads_v.T, first_u @ first_v.T, tangent
            grams = [
                g + part / (k * mean)
                for g, part, mean in zip(grams, parts, units.grams[i], strict=True)
            ]
        levels = (_by_way(a.levels), _by_way(b.levels))
        for kernels, of_a, of_b in zip(self._of_levels, *levels, strict=True):
            grams += kernels.grams(of_a, of_b)
        distances = zip(self._distances(a, b), units.distances, strict=True)
        return Kernels(tuple(grams), tuple(d / typical for d, typical in distances))


def _by_way(levels: Floats) -> list[Floats]:
    """Return the levels (n, k) of each way to compute them, (n, 3) each."""
    n_ways = max(levels.shape[1] // LEVELS_OF_ONE_WAY, 1)
    return np.array_split(levels, n_ways, axis=1) if levels.shape[1] else []


def _features(view: NetworkView, units: Units, network: int) -> tuple[Floats, Floats]:
    """Return a network's standardised outputs and first hidden features."""
    heads_mean, heads_scale = units.heads[network]
    first_mean, first_scale = units.first[network]
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
    """Return scales of features (q,) with a floor, so that features that hardly vary count less."""
    scale: Floats = np.hypot(sd, FLOOR * np.sqrt(np.mean(sd**2)))
    return np.where(scale > 0, scale, 1.0)

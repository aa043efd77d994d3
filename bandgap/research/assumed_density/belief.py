"""The factorised posterior of a network, its noise and its prior, and the sites of its factors.

q = prod_w N(w | m, v) Gamma(noise precision | a, b) prod_l Gamma(prior precision of layer l | A_l,
B_l), by shapes and rates. Layer l maps z to W [z; 1] / sqrt(c), c the number of columns of W;
without biases there is no 1. A network of plain layers [weight, bias] has W = sqrt(c) [weight,
bias].
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import InputError

Floats = NDArray[np.float64]

SHAPE: Final = 6.0  # of the priors of both precisions (Hernandez-Lobato and Adams 2015, section 4)
RATE: Final = 6.0


@dataclass(frozen=True)
class Gamma:
    """A gamma distribution of a precision, by shape and rate."""

    shape: float = SHAPE
    rate: float = RATE

    @property
    def variance(self) -> float:
        """Mean of 1 / precision; infinite at a shape of 1 or less."""
        return self.rate / (self.shape - 1.0) if self.shape > 1.0 else np.inf


@dataclass(frozen=True, eq=False)
class Weights:
    """Means and variances (out, c) of the independent normal weights of every layer.

    The bias is the last column.
    """

    means: tuple[Floats, ...]
    variances: tuple[Floats, ...]
    biased: bool = True

    def __post_init__(self) -> None:
        extra = int(self.biased)
        for layer, (mean, variance) in enumerate(
            zip(self.means, self.variances, strict=True), start=1
        ):
            below = self.means[layer - 2].shape[0] + extra if layer > 1 else mean.shape[1]
            if mean.shape != variance.shape or mean.ndim != 2 or mean.shape[1] != below:
                raise InputError(
                    f"weights: layer {layer} has means {mean.shape} and variances "
                    f"{variance.shape}. Accepted: the same shape (out, {below}) for both."
                )
            if not (
                np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all()
            ):
                raise InputError(
                    f"weights: layer {layer} has numbers that are not finite, or variances below 0."
                )
        if self.means[-1].shape[0] != 1:
            raise InputError(
                f"weights: the last layer has {self.means[-1].shape[0]} outputs. Accepted: one."
            )

    @property
    def n_inputs(self) -> int:
        """Number of features of a row."""
        return int(self.means[0].shape[1]) - int(self.biased)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of weights of each layer."""
        return tuple(int(mean.size) for mean in self.means)


@dataclass(frozen=True, eq=False)
class PriorSites:
    """Sites of the prior N(w | centre, 1 / lambda) of each weight: four natural parameters, flat.

    Weights are in the order of the layers. `group` (L,) is the number of the prior precision of
    each layer. A weight adds `precision` and `shift` (precision times mean) to its own normal,
    `shapes` and `rates` to the gamma distribution of its group.
    """

    centres: Floats
    precision: Floats
    shift: Floats
    shapes: Floats
    rates: Floats
    group: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LikelihoodSites:
    """The averaged factor of one row (stochastic EP).

    Precision and shift of each weight, flat; shape and rate of the noise.
    """

    precision: Floats
    shift: Floats
    shape: float = 0.0
    rate: float = 0.0


@dataclass(frozen=True, eq=False)
class Belief:
    """The factorised posterior after some passes, and the sites of its factors.

    `before` are the priors of the prior precisions, one for each group, `precisions` their
    posteriors. `likelihood` is None for assumed-density filtering, which counts the rows again in
    every pass.
    """

    weights: Weights
    noise: Gamma
    precisions: tuple[Gamma, ...]
    before: tuple[Gamma, ...]
    prior: PriorSites
    likelihood: LikelihoodSites | None = None


def fresh_belief(widths: Sequence[int], *, biased: bool = True, rng: np.random.Generator) -> Belief:
    """Return the belief before any row, with one prior precision Gamma(6, 6).

    `widths` are those of inputs, hidden layers and output; the last one is 1. The means are drawn
    from N(0, 1 / c). They are a constant factor of q without a site, and break the symmetry of the
    units, as in the authors' code.
    """
    shapes = [(out, n + int(biased)) for n, out in pairwise(widths)]
    start = Gamma().variance
    means = tuple(rng.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes)
    weights = Weights(means, tuple(np.full(shape, start) for shape in shapes), biased)
    n = sum(weights.sizes)
    zeros = np.zeros(n)
    sites = PriorSites(zeros, np.full(n, 1.0 / start), zeros, zeros, zeros, (0,) * len(shapes))
    return Belief(weights, Gamma(), (Gamma(),), (Gamma(),), sites)


def belief_around(centres: Sequence[Floats], variances: Sequence[float]) -> Belief:
    """Return the belief N(centre, variance of its layer) before any row.

    `centres` are plain layers [weight, bias] (out, in + 1). `variances` are those of sqrt(c)
    [weight, bias] of each layer. Every layer has its own prior precision Gamma(6, 5 variance), for
    which the mean of 1 / precision is the variance.
    """
    means = tuple(scaled_layers(centres))
    if len(means) != len(variances) or not all(0 < v < np.inf for v in variances):
        raise InputError(
            f"prior variances {list(variances)} of {len(means)} layers. Accepted: one number above "
            "0 for each layer."
        )
    full_variances = tuple(
        np.full(mean.shape, float(v)) for mean, v in zip(means, variances, strict=True)
    )
    flat = flattened(means)
    precision = 1.0 / flattened(full_variances)
    zeros = np.zeros(flat.size)
    groups = tuple(range(len(means)))
    sites = PriorSites(flat, precision, precision * flat, zeros, zeros, groups)
    gammas = tuple(Gamma(SHAPE, (SHAPE - 1.0) * float(v)) for v in variances)
    return Belief(Weights(means, full_variances), Gamma(), gammas, gammas, sites)


def with_average(after: Belief, before: Belief, *, n: int) -> Belief:
    """Return a belief after its first pass over n rows with the averaged factor of one row.

    The averaged factor is the change of the pass divided by n. The pass has counted every row once,
    so that further passes count no row twice.
    """
    m = flattened(after.weights.means)
    v = flattened(after.weights.variances)
    m0 = flattened(before.weights.means)
    v0 = flattened(before.weights.variances)
    average = LikelihoodSites(
        precision=(1.0 / v - 1.0 / v0) / n,
        shift=(m / v - m0 / v0) / n,
        shape=(after.noise.shape - before.noise.shape) / n,
        rate=(after.noise.rate - before.noise.rate) / n,
    )
    return replace(after, likelihood=average)


def scaled_layers(layers: Sequence[NDArray[np.floating[Any]]]) -> list[Floats]:
    """Return W = sqrt(c) [weight, bias] of plain layers (out, c)."""
    return [np.sqrt(layer.shape[1]) * np.asarray(layer, dtype=np.float64) for layer in layers]


def flattened(layers: Sequence[Floats]) -> Floats:
    """Return the numbers of all layers as one vector."""
    return np.concatenate([layer.ravel() for layer in layers])


def unflattened(flat: Floats, like: Sequence[Floats]) -> tuple[Floats, ...]:
    """Return a flat vector in the shapes of these layers."""
    ends = np.cumsum([layer.size for layer in like])
    parts = np.split(flat, ends[:-1])
    return tuple(part.reshape(layer.shape) for part, layer in zip(parts, like, strict=True))

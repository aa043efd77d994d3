"""The interface of posteriors: draws of the mean and of a new observation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.predictions.gap_distribution import GapDistribution

Floats = NDArray[np.float64]

MAX_RECORDED = 1000  # draws of a chain in a record
PRIOR_DRAWS = 1000  # draws of every scale from its prior in a record
LEAST_NOISE_SD_EV = 0.01  # of a new observation about its mean


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Convergence figures, warnings, and arrays for the plots of the dashboard.

    Attributes
    ----------
    figures
        Figures by name, such as rhat_max, ess_min and divergences.
    warnings
        Messages to show with the result.
    record
        Arrays in index order (chain, draw, ...): "trace.NAME" are the draws on which convergence
        is judged, "energy" their energies, "prior.NAME" draws from the prior, and "features.NAME"
        the features of an output layer, (chain, feature).
    """

    figures: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    record: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class PredictiveDraws:
    """Draws of the mean and the distribution of a new observation, in eV, for n structures.

    A new observation is distributed as a mixture of normals with equal weights. Its components are
    the draws with their noise, or those that a method defines. Where the labels contain metals, a
    gap is zero with the probability `p_metal`, and the components are those of other structures.
    """

    means_eV: Floats  # (chain, draw, n)
    centres_eV: Floats  # (component, n)
    sds_eV: Floats  # (component,) or (component, n)
    p_metal: Floats | None = None  # (n,)

    @property
    def gaps(self) -> GapDistribution:
        """The predictive distribution of the gaps."""
        return GapDistribution(self.centres_eV, self.wide_sds_eV, self.p_metal)

    @property
    def wide_sds_eV(self) -> Floats:
        """Standard deviations of all components at every structure, (component, n)."""
        sds = self.sds_eV if self.sds_eV.ndim == 2 else self.sds_eV[:, None]
        return np.broadcast_to(sds, self.centres_eV.shape)

    @property
    def flat_means_eV(self) -> Floats:
        """Draws of the mean of all chains in one axis, (chain * draw, n)."""
        chains, draws, n = self.means_eV.shape
        return self.means_eV.reshape(chains * draws, n)

    def of_rows(self, rows: slice) -> "PredictiveDraws":
        """Return the draws of some structures as contiguous arrays."""
        contiguous = np.ascontiguousarray
        return PredictiveDraws(
            contiguous(self.means_eV[:, :, rows]),
            contiguous(self.centres_eV[:, rows]),
            self.sds_eV if self.sds_eV.ndim == 1 else contiguous(self.sds_eV[:, rows]),
            None if self.p_metal is None else contiguous(self.p_metal[rows]),
        )

    @property
    def noise_variance(self) -> Floats:
        """Variance of a new observation about the mean, (n,), in eV^2.

        It is the variance of the observation without that of the draws of the mean. The mean of the
        components' variances differs from it: in Gaussian processes they contain the variance of
        the mean, and in conformal predictions the centres contain most of the noise.
        """
        if self.p_metal is None:
            total = self.centres_eV.var(axis=0) + (self.wide_sds_eV**2).mean(axis=0)
        else:
            total = self.gaps.sd_eV() ** 2
        noise: Floats = np.maximum(total - self.flat_means_eV.var(axis=0), LEAST_NOISE_SD_EV**2)
        return noise


class Posterior(Protocol):
    """Draws of what a transfer learned, in index order (chain, draw, ...).

    It is a frozen dataclass of arrays and numbers, which are stored as they are
    (`storage.stored_fields`); the diagnostics are stored apart.
    """

    kind: ClassVar[str]  # the name under which it is stored

    @property
    def diagnostics(self) -> Diagnostics: ...
    @property
    def n_chains(self) -> int: ...
    @property
    def n_draws(self) -> int:
        """Number of draws of each chain."""
        ...

    @property
    def n_members(self) -> int:
        """Number of independent posteriors in a mixture.

        Chains are compared within one member only.
        """
        ...

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (chain, draw, n), in eV, for raw features (n, p)."""
        ...

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and the mixture of a new observation for raw features (n, p)."""
        ...

    def summaries(self) -> dict[str, Floats]:
        """Return draws by name (sigma_eV, c, tau) for display, each (chain, draw, ...)."""
        ...


def with_noise(means_eV: Floats, sigma_eV: Floats) -> PredictiveDraws:
    """Return the predictive draws of means (chain, draw, n) with noise `sigma_eV` (chain, draw)."""
    return PredictiveDraws(
        means_eV, means_eV.reshape(sigma_eV.size, means_eV.shape[-1]), sigma_eV.reshape(-1)
    )


def thinned(draws: int) -> NDArray[np.int64]:
    """Return the numbers of the draws of a chain that are recorded: at most `MAX_RECORDED`, evenly
    spaced.
    """
    return np.linspace(0, draws - 1, min(draws, MAX_RECORDED)).round().astype(np.int64)


def by_block(
    evaluate: Callable[[NDArray[Any]], tuple[Floats, ...]], features: NDArray[Any], *, rows: int
) -> tuple[Floats, ...]:
    """Return the results (..., n) of `evaluate` for features (n, p), computed in blocks of `rows`
    rows.

    The blocks bound the memory.
    """
    blocks = [evaluate(features[i : i + rows]) for i in range(0, max(1, len(features)), rows)]
    return tuple(np.concatenate(parts, axis=-1) for parts in zip(*blocks, strict=True))

r"""The predictive distribution of a band gap: no gap is negative, and a metal has a gap of zero.

X is the equal-weight mixture of the normals N(centre_d, sd_d^2) with distribution function M and
survival function S = 1 - M.

- Where no label is zero, X is cut at zero: the gap is max(X, 0), with M(0) as the probability of
  zero.
- Where the labels contain metals, the gap is zero with probability p, and otherwise X given X > 0.

Both are F(x) = 1 - b S(x) for x >= 0, with b = 1 and b = (1 - p) / S(0), and 0 for x < 0. The
continuous ranked probability score of y >= 0 (Gneiting and Raftery 2007, J. Am. Stat. Assoc. 102,
359-378, eq. 20) is then

    CRPS = y - 2 b int_0^y S + b^2 int_0^inf S^2

The first integral has a closed form. The second is computed by Gauss-Legendre quadrature in panels
of three of the smallest standard deviations there, to about 1e-9 eV. The quadrature covers the gaps
where S is neither 0 nor 1.

A central interval with a lower end of zero contains more than its probability, because nothing is
below it. So where the interval begins at zero, its upper end has the probability max(level, 1 - p),
at most (1 + level) / 2. This upper end is continuous in p and increases with the level.

Loads no torch.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from bandgap.foundation.errors import InputError
from bandgap.predictions.mixtures import by_structure, mixture_quantiles

Floats = NDArray[np.float64]

ZERO_EV = 1e-3
"""Labels up to this gap, in eV, are those of metals."""

LEAST = 10
"""Smallest number of metals, and of semiconductors, for a probability of a metal."""


def enough_metals(n_metals: int, n: int) -> bool:
    """Return whether n labels, of which some are metals, are enough for a probability of a metal.

    Examples
    --------
    >>> enough_metals(10, 20), enough_metals(9, 20), enough_metals(10, 19)
    (True, False, False)
    """
    return min(n_metals, n - n_metals) >= LEAST


_REACH = 8.5  # standard deviations at which a normal distribution function is 1 to rounding
_PANEL = 3.0  # largest width of a panel in standard deviations of the components that vary in it
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
_ROOT_2PI = float(np.sqrt(2.0 * np.pi))
_LAST = 1.0 - 1e-12  # largest probability of a quantile


@dataclass(frozen=True, eq=False)
class GapDistribution:
    """Predictive distributions of the gaps of n structures.

    Attributes
    ----------
    centres_eV, sds_eV
        Components of X, (component, n).
    p_metal
        Probability (n,) of a gap of zero, or None where X is cut at zero. With it, X should have at
        least some probability above zero.
    """

    centres_eV: Floats
    sds_eV: Floats
    p_metal: Floats | None = None

    def __len__(self) -> int:
        return int(self.centres_eV.shape[1])

    @property
    def p_zero(self) -> Floats:
        """Probability (n,) of a gap of exactly zero."""
        return 1.0 - self._positive if self.p_metal is None else self.p_metal

    @cached_property
    def _positive(self) -> Floats:
        """P(X > 0), (n,)."""
        return _mean(ndtr(self.centres_eV / self.sds_eV))

    @cached_property
    def _factor(self) -> Floats:
        """The factor b (n,) of S."""
        return np.ones(len(self)) if self.p_metal is None else (1.0 - self.p_metal) / self._positive

    def cdf(self, gaps_eV: ArrayLike) -> Floats:
        """Return P(gap <= y), (n,), for one y of each structure."""
        y = self._gaps(gaps_eV)
        survival = _mean(ndtr((self.centres_eV - y) / self.sds_eV))
        return np.where(y < 0, 0.0, 1.0 - self._factor * survival)

    def mean_eV(self) -> Floats:
        """Return the mean gap (n,)."""
        return self._factor * _mean(self.sds_eV * _integral(self.centres_eV / self.sds_eV))

    def sd_eV(self) -> Floats:
        """Return the standard deviation (n,) of the gap."""
        m = self.centres_eV
        s = self.sds_eV
        squares = (m**2 + s**2) * ndtr(m / s) + m * s * _density(m / s)
        variance = self._factor * _mean(squares) - self.mean_eV() ** 2
        return np.sqrt(np.maximum(variance, 0.0))

    def quantiles(self, probabilities: ArrayLike) -> Floats:
        """Return the quantiles (k, n) at probabilities (k,), or (k, n) with others for each
        structure.
        """
        levels = np.asarray(probabilities, dtype=np.float64)
        if self.p_metal is None and levels.ndim == 1:
            return np.maximum(mixture_quantiles(self.centres_eV, self.sds_eV, levels), 0.0)
        by_row = np.broadcast_to(
            levels[:, None] if levels.ndim == 1 else levels, (len(levels), len(self))
        )
        quantiles = np.zeros(by_row.shape)
        of_x = np.minimum(1.0 - (1.0 - by_row) / self._factor, _LAST)
        is_positive = by_row > self.p_zero
        for j in range(len(self)):
            rows = np.flatnonzero(is_positive[:, j])
            if rows.size:
                column = slice(j, j + 1)
                quantiles[rows, j] = mixture_quantiles(
                    self.centres_eV[:, column], self.sds_eV[:, column], of_x[rows, j]
                )[:, 0]
        return np.maximum(quantiles, 0.0)

    def interval(self, level: float) -> tuple[Floats, Floats]:
        """Return the lower and upper ends (n,) of the interval of `level` (module's docstring)."""
        ends = np.stack(interval_probabilities(level, self.p_metal, len(self)))
        lower, upper = self.quantiles(ends)
        return lower, upper

    def log_scores(self, gaps_eV: ArrayLike) -> Floats:
        """Return log P(0) for a gap of zero, and the log density in 1/eV for others, (n,).

        A gap of at most `ZERO_EV` counts as zero.
        """
        y = self._gaps(gaps_eV)
        z = (y - self.centres_eV) / self.sds_eV
        terms = -0.5 * z**2 - np.log(self.sds_eV * _ROOT_2PI)
        log_density = logsumexp(terms, axis=0) - np.log(len(terms)) + np.log(self._factor)
        with np.errstate(divide="ignore"):
            log_zero = np.log(self.p_zero)
        return np.where(y <= ZERO_EV, log_zero, log_density)

    def crps_eV(self, gaps_eV: ArrayLike) -> Floats:
        """Return the continuous ranked probability score (n,) in eV of gaps (n,), lower is better.

        Raises InputError for a negative gap.
        """
        y = self._gaps(gaps_eV)
        if (y < 0).any():
            raise InputError(f"CRPS: found a gap of {y.min():g} eV. Accepted: 0 or more.")
        m = self.centres_eV
        s = self.sds_eV
        first = _mean(s * (_integral(m / s) - _integral((m - y) / s)))
        second = np.array([_squared_survival(m[:, j], s[:, j]) for j in range(len(self))])
        scores: Floats = y - 2.0 * self._factor * first + self._factor**2 * second
        return scores

    def _gaps(self, gaps_eV: ArrayLike) -> Floats:
        y = np.asarray(gaps_eV, dtype=np.float64)
        if y.shape != (len(self),) or not np.isfinite(y).all():
            raise InputError(
                f"gap distribution of {len(self)} structures: gaps have shape {y.shape}. Accepted: "
                "one finite gap for each structure."
            )
        return y


def interval_probabilities(level: float, p_metal: Floats | None, n: int) -> tuple[Floats, Floats]:
    """Return the probabilities (n,), (n,) of the ends of the intervals of n structures.

    >>> [end.round(3).tolist() for end in interval_probabilities(0.95, np.array([0.01, 0.5]), 2)]
    [[0.025, 0.025], [0.975, 0.95]]
    """
    lower = np.full(n, (1.0 - level) / 2.0)
    upper = np.full(n, (1.0 + level) / 2.0)
    if p_metal is not None:
        upper = np.minimum(upper, np.maximum(level, 1.0 - p_metal))
    return lower, upper


def _squared_survival(centres: Floats, sds: Floats) -> float:
    """Return the integral of S^2 from zero on, for one mixture with components (component,)."""
    end = float((centres + _REACH * sds).max())
    if end <= 0:
        return 0.0
    # Up to here S is 1 to rounding.
    start = max(float((centres - _REACH * sds).min()), 0.0)
    edges = _panel_edges(centres, sds, np.array([start, end]))
    widths = np.diff(edges)
    x = edges[:-1, None] + 0.5 * widths[:, None] * (1.0 + _NODES)
    survival = np.array([ndtr((centres - nodes[:, None]) / sds).mean(axis=-1) for nodes in x])
    return start + float(0.5 * (survival**2 @ _WEIGHTS) @ widths)


def _panel_edges(centres: Floats, sds: Floats, edges: Floats) -> Floats:
    """Return edges with those between that halve every panel which is too wide for a component."""
    while True:
        nearest = np.clip(centres, edges[:-1, None], edges[1:, None])
        varies = np.abs(nearest - centres) < _REACH * sds
        smallest_sds = np.where(varies, sds, np.inf).min(axis=1)
        is_wide = np.diff(edges) > _PANEL * smallest_sds
        if not is_wide.any():
            return edges
        edges = np.sort(np.append(edges, 0.5 * (edges[:-1] + edges[1:])[is_wide]))


def _integral(t: Floats) -> Floats:
    """Return the integral of the normal distribution function up to t."""
    result: Floats = t * ndtr(t) + _density(t)
    return result


def _density(t: Floats) -> Floats:
    result: Floats = np.exp(-0.5 * t**2) / _ROOT_2PI
    return result


def _mean(values: Floats) -> Floats:
    """Return the mean (n,) over components (component, n), in an order that does not depend on
    n.
    """
    result: Floats = by_structure(values).mean(axis=1)
    return result

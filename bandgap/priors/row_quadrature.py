"""Quadrature of the penalized-complexity prior: a few weighted rows in place of all rows.

It is for the point estimate's case, where the prior depends on the rows through S(u) = mean_j
phi(u' alpha_j) and its derivatives alone, u = t c in R^L (see `penalized_complexity`). The means of
k functions over all rows are also those of at most k rows with positive weights (Tchakaloff, 1957).
The functions are the principal components, to a precision, of phi(u' alpha) / S(u) at many u. These
u cover all magnitudes at which x = u' alpha is neither small, where phi is x^2 / 2, nor large,
where it is x; between them S is smooth in log u.

Rows and weights are found by recombination (Litterer and Lyons, 2012): rows are divided into twice
as many groups as there are functions, non-negative least squares preserves the means with at most
half of the groups, and the step is repeated with the rows of these groups.

Where S or a derivative differs too much at other u, as with heavy tails of alpha, the rows are
divided along the widest coordinate and each part is treated alone. Weighted rows are again a prior
of the same form: its gradient is that of its density.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from bandgap.priors.penalized_complexity import psi_of_each

N_PRESERVED = 400  # u at which means are preserved
N_CHECKED = 150  # other u at which they are checked
REACH = 18.0  # range of log(u alpha) about 0 for the largest entry, and of the others below it
# Components are used whose squared size is above PRECISION^2, every function having mean 1, and
# above ROUNDING times the largest.
PRECISION = 1e-7
ROUNDING = 1e-15
# Largest error of S relative to S, and of its derivatives by log u relative to their sum, for
# every part of the rows.
TOLERANCE = 3e-5
FLOOR = 1e-3  # share of a coordinate's mean below which its size does not divide rows
BLOCK = 4096  # rows evaluated together

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


def row_quadrature(alpha: Floats) -> tuple[Floats, Floats]:
    """Return weights (k,) and rows (k, L) that replace all rows (n, L) of alpha >= 0.

    The sum of the weights is about 1.
    """
    n = len(alpha)
    scale = np.where(alpha.any(0), alpha.mean(0), 1.0)
    rng = np.random.default_rng(0)
    share = np.full(n, 1.0 / n)
    preserved = _directions(N_PRESERVED, alpha.shape[1], rng) / scale
    checked = _directions(N_CHECKED, alpha.shape[1], rng) / scale
    unit = preserved, _sums(alpha, share, preserved, _phi)[0]
    size = _sizes(_sums(alpha, share, checked, _with_slopes))
    logs = np.log(np.maximum(alpha, FLOOR * scale))

    def parts(rows: Numbers) -> Iterator[tuple[Numbers, Floats]]:
        nodes, weights = _recombined(alpha[rows], share[rows], unit)
        by_nodes = _sums(alpha[rows[nodes]], weights, checked, _with_slopes)
        by_rows = _sums(alpha[rows], share[rows], checked, _with_slopes)
        error = np.abs(by_nodes - by_rows) / size
        if len(nodes) == len(rows) or error.max() <= TOLERANCE:
            yield rows[nodes], weights
            return
        low = logs[rows].min(0)
        high = logs[rows].max(0)
        widest = int((high - low).argmax())
        below = logs[rows, widest] <= 0.5 * (low + high)[widest]
        if below.all():  # the rows are equal
            yield rows, share[rows]
            return
        yield from parts(rows[below])
        yield from parts(rows[~below])

    all_parts = list(parts(np.arange(n)))
    weights = np.concatenate([weights for _, weights in all_parts])
    rows = np.concatenate([rows for rows, _ in all_parts])
    return _merged(weights, alpha[rows])


def _merged(weights: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return weights (k,) and rows (k, L) with equal rows merged.

    Rounding errors of components can select copies of a row.
    """
    different, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(different) == len(rows):
        return weights, rows
    return np.bincount(number.reshape(-1), weights).astype(np.float64), rows[first]


def _directions(count: int, layers: int, rng: np.random.Generator) -> Floats:
    """Draw u (count, L): the largest entry of any magnitude, the others relevantly far below it."""
    below = rng.uniform(0.0, REACH, (count, layers))
    result: Floats = np.exp(
        below.min(1, keepdims=True) - below + rng.uniform(-REACH, REACH, (count, 1))
    )
    return result


def _phi(alpha: Floats, u: Floats) -> Floats:
    """Return phi(u' alpha) of rows (n, L) at all u, (1, n, count)."""
    x = alpha @ u.T
    return (x * x * psi_of_each(x.reshape(-1)).reshape(x.shape))[None]


def _with_slopes(alpha: Floats, u: Floats) -> Floats:
    """Return phi, u_l alpha_l x / (1 + x) and u_l alpha_l x / (1 + x)^2.

    All gradients are combinations of these.
    """
    x = alpha @ u.T
    first = (alpha.T[:, :, None] * u.T[:, None]) * (x / (1.0 + x))
    return np.concatenate([_phi(alpha, u), first, first / (1.0 + x)])


def _sums(
    alpha: Floats, weights: Floats, u: Floats, functions: Callable[[Floats, Floats], Floats]
) -> Floats:
    """Return the weighted sums over rows of functions (f, n, count), (f, count)."""
    blocks = range(0, len(alpha), BLOCK)
    result: Floats = np.sum(
        [weights[i : i + BLOCK] @ functions(alpha[i : i + BLOCK], u) for i in blocks], axis=0
    )
    return result


def _sizes(sums: Floats) -> Floats:
    """Return what errors of `_with_slopes` are relative to.

    These are S, and the sums of both kinds of slopes over layers.
    """
    value, first, second = sums[:1], *np.split(sums[1:], 2)
    return np.concatenate(
        [value, *(np.broadcast_to(part.sum(0), part.shape) for part in (first, second))]
    )


def _recombined(
    alpha: Floats, weights: Floats, unit: tuple[Floats, Floats]
) -> tuple[Numbers, Floats]:
    """Return indices (k,) of rows, and their weights, that preserve means of phi / S.

    The means are at `unit` = (u, S).
    """
    u, s = unit
    moments = np.zeros((len(u), len(u)))
    for i in range(0, len(alpha), BLOCK):
        values = _phi(alpha[i : i + BLOCK], u)[0] / s
        moments += (weights[i : i + BLOCK, None] * values).T @ values
    squares, vectors = np.linalg.eigh(moments)
    is_used = squares > max(PRECISION**2, ROUNDING * squares[-1])
    into = vectors[:, is_used] / np.sqrt(squares[is_used]) / s[:, None]
    count = into.shape[1]
    rows = np.arange(len(alpha))
    target = _sums(alpha, weights, u, _phi)[0] @ into
    while len(rows) > count:
        groups = np.arange(len(rows)) * min(2 * count, len(rows)) // len(rows)
        sums = np.zeros((groups[-1] + 1, count))
        for i in range(0, len(rows), BLOCK):
            part = slice(i, i + BLOCK)
            np.add.at(
                sums, groups[part], weights[part, None] * (_phi(alpha[rows[part]], u)[0] @ into)
            )
        factors = nnls(sums.T, target, maxiter=50 * count)[0][groups]
        is_positive = factors > 0
        groups_are_rows = len(sums) == len(rows)
        weights = weights[is_positive] * factors[is_positive]
        rows = rows[is_positive]
        if groups_are_rows:
            break
    return rows, weights

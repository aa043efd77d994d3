r"""A few weighted rows that stand for all of them in the penalized-complexity prior of the point estimate's case.

The prior sees rows through S(u) = mean_j phi(u' alpha_j) and its derivatives alone, u = t c in R^L (see
`penalized_complexity`). The means of k functions over all rows are also those of at most k of the rows with weights
above 0 (Tchakaloff, 1957). The functions are the principal components, to a precision, of phi(u' alpha) / S(u) at many
u, over all magnitudes at which x = u' alpha is neither small, where phi is x^2 / 2, nor large, where it is x; between
these u, S is smooth in log u. Rows and weights are found by recombination (Litterer and Lyons, 2012): rows fall into
twice as many groups as there are functions, non-negative least squares keeps the means with at most half of the groups,
and so on with the rows of these.

Where S or a derivative differs too much at other u, as with heavy tails of alpha, the rows are parted along the widest
coordinate, each part on its own. Weighted rows are again a prior of the same form: its gradient is that of its density.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from bandgap.priors.penalized_complexity import psi_of_each

KEPT, JUDGED = 400, 150  # u at which means are kept, and others at which they are judged
REACH = 18.0  # of log(u alpha) about 0 for the largest of its entries, and of the others below it
PRECISION = 1e-7  # of components, every function having mean 1; and, squared, beside the largest, above rounding:
ROUNDING = 1e-15
TOLERANCE = 3e-5  # of S relative to S, and of its derivatives by log u relative to their sum, from every part of rows
FLOOR = 1e-3  # of a coordinate's mean, below which its size does not part rows
BLOCK = 4096  # rows evaluated at a time

Floats = NDArray[np.float64]
Numbers = NDArray[np.intp]


def row_quadrature(alpha: Floats) -> tuple[Floats, Floats]:
    """Return weights (k,), of sum about 1, and k of the rows (n, L) of alpha >= 0 that stand for all n, (k, L)."""
    n = len(alpha)
    scale = np.where(alpha.any(0), alpha.mean(0), 1.0)
    rng, share = np.random.default_rng(0), np.full(n, 1.0 / n)
    kept, judged = (_directions(count, alpha.shape[1], rng) / scale for count in (KEPT, JUDGED))
    unit = kept, _sums(alpha, share, kept, _phi)[0]
    size = _sizes(_sums(alpha, share, judged, _with_slopes))
    logs = np.log(np.maximum(alpha, FLOOR * scale))

    def parts(rows: Numbers) -> Iterator[tuple[Numbers, Floats]]:
        nodes, weights = _recombined(alpha[rows], share[rows], unit)
        found = _sums(alpha[rows[nodes]], weights, judged, _with_slopes)
        error = np.abs(found - _sums(alpha[rows], share[rows], judged, _with_slopes)) / size
        if len(nodes) == len(rows) or error.max() <= TOLERANCE:
            yield rows[nodes], weights
            return
        low, high = logs[rows].min(0), logs[rows].max(0)
        widest = int((high - low).argmax())
        below = logs[rows, widest] <= 0.5 * (low + high)[widest]
        if below.all():  # rows without any width
            yield rows, share[rows]
            return
        yield from parts(rows[below])
        yield from parts(rows[~below])

    found = list(parts(np.arange(n)))
    return _once(
        np.concatenate([weights for _, weights in found]),
        alpha[np.concatenate([rows for rows, _ in found])],
    )


def _once(weights: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """Return weights (k,) and rows (k, L) with equal rows as one: rounding errors of components can ask for copies."""
    different, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    if len(different) == len(rows):
        return weights, rows
    return np.bincount(number.reshape(-1), weights).astype(np.float64), rows[first]


def _directions(count: int, layers: int, rng: np.random.Generator) -> Floats:
    """Draw u (count, L): the largest entry over all magnitudes, the others as far below it as matters."""
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
    """Return phi, u_l alpha_l x / (1 + x) and u_l alpha_l x / (1 + x)^2, of which all gradients consist."""
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
    """Return what an error of `_with_slopes` is relative to: S, and the sums of both kinds of slopes over layers."""
    value, first, second = sums[:1], *np.split(sums[1:], 2)
    return np.concatenate(
        [value, *(np.broadcast_to(part.sum(0), part.shape) for part in (first, second))]
    )


def _recombined(
    alpha: Floats, weights: Floats, unit: tuple[Floats, Floats]
) -> tuple[Numbers, Floats]:
    """Return the numbers (k,) of rows, and their weights, that keep the means of phi / S at `unit` = (u, S)."""
    u, s = unit
    moments = np.zeros((len(u), len(u)))
    for i in range(0, len(alpha), BLOCK):
        values = _phi(alpha[i : i + BLOCK], u)[0] / s
        moments += (weights[i : i + BLOCK, None] * values).T @ values
    squares, vectors = np.linalg.eigh(moments)
    known = squares > max(PRECISION**2, ROUNDING * squares[-1])
    into = vectors[:, known] / np.sqrt(squares[known]) / s[:, None]
    count, rows = into.shape[1], np.arange(len(alpha))
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
        chosen = factors > 0
        alone = len(sums) == len(rows)
        rows, weights = rows[chosen], weights[chosen] * factors[chosen]
        if alone:
            break
    return rows, weights

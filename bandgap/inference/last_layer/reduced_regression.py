"""A linear regression with the source's uncertainty, reduced to a Gram matrix and a moment.

Abba (2023), section 3.5: Z = 1 a + X (delta + u) + e with u ~ N(0, s2 S1), the error of the
source's weights, and e ~ N(0, s2 I). Therefore Z | delta ~ N(1 a + X delta, s2 K) with K = I + X S1
X'. The intercept a has a flat prior. With a integrated out the posterior depends on X and Z only
through contrasts of rows, so that X and Z may be centred, if K is formed with the centred X too.
Then n - 1 contrasts remain, and

    G = X'K^-1 X = M - M C B^-1 C'M,   g = X'K^-1 Z = h - M C B^-1 C'h,
    Z'K^-1 Z = Z'Z - h'C B^-1 C'h

with M = X'X, h = X'Z, S1 = C C' and B = I + C'M C: no n x n matrix is needed. Given delta, u is
normal with mean S1 (g - G delta) and covariance s2 C B^-1 C'. The intercept at the mean row is
N(mean(Z), s2 / n), independent of both.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from bandgap.foundation.errors import InputError

# Rows per column below which whitened rows are stored too: n x n matrices are cheaper there.
SMALL = 0.6

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class SourceError:
    """The source's error u (q,) given delta (p,): u ~ N(centre - slope delta, s2 root root')."""

    centre: Floats  # (q,)
    slope: Floats  # (q, p)
    root: Floats  # (q, q)

    def draw(self, delta: Floats, sigma2: Floats, rng: np.random.Generator) -> Floats:
        """Draw u (k, q) for draws of delta (k, p) and of the noise variance (k,)."""
        noise = rng.standard_normal((delta.shape[0], self.centre.size)) @ self.root.T
        return self.centre - delta @ self.slope.T + np.sqrt(sigma2)[:, None] * noise


@dataclass(frozen=True, eq=False)
class ReducedRegression:
    """What the posterior of delta (p,) needs, in the symbols of the module; `n` contrasts.

    `rows` (n + 1, p) and `response` (n + 1,) are the whitened L^-1 X and L^-1 Z, K = L L', for
    problems with few rows. `source` is the source's error in all q columns, None where the source
    is taken as exact.
    """

    gram: Floats  # (p, p), in Fortran order
    moment: Floats  # (p,)
    square: float
    n: int
    mean_row: Floats  # (q,)
    mean_response: float
    rows: Floats | None = None
    response: Floats | None = None
    source: SourceError | None = None

    def draw_intercept(self, sigma2: Floats, rng: np.random.Generator) -> Floats:
        """Draw the intercept at the mean row, (k,), for draws of the noise variance (k,)."""
        return self.mean_response + np.sqrt(sigma2 / (self.n + 1)) * rng.standard_normal(
            sigma2.size
        )


def reduce_regression(
    x: NDArray[np.floating],
    z: NDArray[np.floating],
    *,
    source_covariance: Floats | None = None,
    has_change: Bools | None = None,
) -> ReducedRegression:
    """Reduce rows x (n, q) and responses z (n,).

    Parameters
    ----------
    x, z
        Rows and responses.
    source_covariance
        S1 (q, q) in units of the noise variance, None for no error.
    has_change
        (q,), whether a column has a coefficient delta; None for all columns. The source's error
        has all columns.

    Raises
    ------
    InputError
        Shapes do not fit, or values are not finite.
    """
    n, q = x.shape
    has_change = np.ones(q, dtype=bool) if has_change is None else has_change
    if (
        z.shape != (n,)
        or has_change.shape != (q,)
        or n < 1
        or not (np.isfinite(x).all() and np.isfinite(z).all())
    ):
        raise InputError(
            f"last layer: rows {x.shape}, responses {z.shape}, has_change {has_change.shape}. "
            "Accepted: (n, q), (n,) and (q,) with finite values and at least one row."
        )
    rows = np.asarray(x, dtype=np.float64)
    response = np.asarray(z, dtype=np.float64)
    mean_row = rows.mean(axis=0)
    mean_response = float(response.mean())
    rows = rows - mean_row
    response = response - mean_response
    m = rows.T @ rows
    h = rows.T @ response
    square = float(response @ response)
    has_few_rows = n < SMALL * has_change.sum()
    source = None
    if source_covariance is not None and source_covariance.any():
        c = square_root(source_covariance)
        mc = m @ c
        factor = cholesky(np.eye(q) + c.T @ mc, lower=True)
        f = solve_triangular(factor, mc.T, lower=True)
        w = solve_triangular(factor, c.T @ h, lower=True)
        gram = m - f.T @ f
        moment = h - f.T @ w
        square = max(square - float(w @ w), 0.0)
        root = solve_triangular(factor, c.T, lower=True).T
        source = SourceError(c @ (c.T @ moment), (c @ (c.T @ gram))[:, has_change], root)
        if has_few_rows:
            lower = cholesky(np.eye(n) + (rows @ c) @ (rows @ c).T, lower=True)
            rows = solve_triangular(lower, rows, lower=True)
            response = solve_triangular(lower, response, lower=True)
    else:
        gram = m
        moment = h
    return ReducedRegression(
        np.asfortranarray(gram[np.ix_(has_change, has_change)]),
        moment[has_change],
        square,
        n - 1,
        mean_row,
        mean_response,
        np.ascontiguousarray(rows[:, has_change]) if has_few_rows else None,
        response if has_few_rows else None,
        source,
    )


def square_root(covariance: Floats) -> Floats:
    """Return C with C C' = `covariance`: the Cholesky factor, or a root of a singular matrix.

    Raises InputError for a matrix that is not symmetric or clearly not positive semidefinite.
    """
    scale = float(np.abs(covariance).max(initial=0.0))
    if not math.isfinite(scale) or not np.allclose(
        covariance, covariance.T, rtol=0, atol=1e-8 * scale
    ):
        raise InputError(
            "last layer: the source's covariance is not symmetric or not finite. Train the source "
            "again."
        )
    try:
        return cholesky(covariance, lower=True)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
    if values[0] < -1e-8 * values[-1]:
        raise InputError(
            f"last layer: the source's covariance has the eigenvalue {values[0]:.3g}; all must be "
            "0 or more. Train the source again."
        )
    symmetric: Floats = vectors * np.sqrt(np.clip(values, 0.0, None))
    return symmetric

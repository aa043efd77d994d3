r"""A linear regression whose rows carry the source's uncertainty, reduced to a Gram matrix and a moment.

Abba (2023), section 3.5: Z = 1 a + X (delta + u) + e with u ~ N(0, s2 S1), the error of the source's weights, and e ~
N(0, s2 I); so Z | delta ~ N(1 a + X delta, s2 K) with K = I + X S1 X'. The intercept a has a flat prior. What is left
of it after integration depends on X and Z only through contrasts of rows, so that X and Z may be centred, if K is
formed with the centred X too; then n - 1 rows are left, and

    G = X'K^-1 X = M - M C B^-1 C'M,   g = X'K^-1 Z = h - M C B^-1 C'h,   Z'K^-1 Z = Z'Z - h'C B^-1 C'h

with M = X'X, h = X'Z, S1 = C C' and B = I + C'M C: no n x n matrix. Given delta, u is normal with mean S1 (g - G delta)
and covariance s2 C B^-1 C', and the intercept at the mean row is N(mean(Z), s2 / n), independent of both.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from bandgap.foundation.errors import InputError

SMALL = 0.6  # rows a column, below which whitened rows are kept too: n x n matrices are then the cheaper ones

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
    """What the posterior of delta (p,) needs: see the module; `n` rows are left without the intercept's.

    `rows` (n + 1, p) and `response` (n + 1,) are the whitened rows L^-1 X and L^-1 Z, K = L L', where they are few;
    `source` is the source's error in all q columns, None where the source is taken as exact.
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
    kept: Bools | None = None,
) -> ReducedRegression:
    """Reduce rows x (n, q) and responses z (n,), with S1 (q, q) in units of the noise variance, None for no error.

    Coefficients delta exist for the columns in `kept` (q,) only, the source's error for all. Raises InputError on
    shapes that do not fit and on values that are not finite.
    """
    n, q = x.shape
    kept = np.ones(q, dtype=bool) if kept is None else kept
    if (
        z.shape != (n,)
        or kept.shape != (q,)
        or n < 1
        or not (np.isfinite(x).all() and np.isfinite(z).all())
    ):
        raise InputError(
            f"last layer: rows {x.shape}, responses {z.shape}, {kept.shape} columns to keep or not. Accepted: (n, q), "
            "(n,) and (q,) with finite values and at least one row."
        )
    wide, response = np.asarray(x, dtype=np.float64), np.asarray(z, dtype=np.float64)
    mean_row, mean_response = wide.mean(axis=0), float(response.mean())
    wide, response = wide - mean_row, response - mean_response
    m, h, square = wide.T @ wide, wide.T @ response, float(response @ response)
    source = None
    if source_covariance is not None and source_covariance.any():
        c = square_root(source_covariance)
        mc = m @ c
        factor = cholesky(np.eye(q) + c.T @ mc, lower=True)
        f, w = (
            solve_triangular(factor, mc.T, lower=True),
            solve_triangular(factor, c.T @ h, lower=True),
        )
        gram, moment, square = m - f.T @ f, h - f.T @ w, max(square - float(w @ w), 0.0)
        root = solve_triangular(factor, c.T, lower=True).T
        source = SourceError(c @ (c.T @ moment), (c @ (c.T @ gram))[:, kept], root)
        few = n < SMALL * kept.sum()
        if few:
            lower = cholesky(np.eye(n) + (wide @ c) @ (wide @ c).T, lower=True)
            wide, response = (
                solve_triangular(lower, wide, lower=True),
                solve_triangular(lower, response, lower=True),
            )
    else:
        gram, moment, few = m, h, n < SMALL * kept.sum()
    return ReducedRegression(
        np.asfortranarray(gram[np.ix_(kept, kept)]),
        moment[kept],
        square,
        n - 1,
        mean_row,
        mean_response,
        np.ascontiguousarray(wide[:, kept]) if few else None,
        response if few else None,
        source,
    )


def square_root(covariance: Floats) -> Floats:
    """Return C with C C' = `covariance`: its Cholesky factor, or of a singular one the symmetric root.

    Raises InputError where it is not symmetric, or clearly not positive semidefinite.
    """
    scale = float(np.abs(covariance).max(initial=0.0))
    if not math.isfinite(scale) or not np.allclose(
        covariance, covariance.T, rtol=0, atol=1e-8 * scale
    ):
        raise InputError(
            "last layer: the source's covariance is not symmetric or not finite. Train the source again."
        )
    try:
        return cholesky(covariance, lower=True)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
    if values[0] < -1e-8 * values[-1]:
        raise InputError(
            f"last layer: the source's covariance has the eigenvalue {values[0]:.3g}; all must be 0 or more. Train the "
            "source again."
        )
    symmetric: Floats = vectors * np.sqrt(np.clip(values, 0.0, None))
    return symmetric

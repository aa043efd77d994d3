"""Exact draws of regression coefficients given their prior variances, in two equivalent forms.

delta ~ N(0, s2 D), D diagonal, and the reduced regression give delta | s2, D ~ N(A^-1 g, s2 A^-1),
A = G + D^-1. The draw of s2 with delta integrated out uses g'A^-1 g.

`GramForm`: Rue (2001), the Cholesky factor of A (p x p), for any n. `RowForm`: Bhattacharya,
Chakraborty and Mallick (2016), the factor of I + X D X' (n x n), X the whitened rows; it is cheaper
below about 0.6 p rows. Both keep the last factor, so that a chain makes one factorisation per
sweep.
"""

import math
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv, dsyrk, dtrsv
from scipy.linalg.lapack import dpotrf

from bandgap.foundation.errors import InputError
from bandgap.inference.last_layer.reduced_regression import ReducedRegression

SLAB = 64  # columns copied together, so that little more than one triangle is copied
# Share of the mean diagonal that is added to a matrix that is singular to rounding. It grows by ten
# with each of at most TRIES factorisations.
JITTER = 1e-10
TRIES = 8
NOT_FACTORISED = (
    "last layer: the features are too large or not finite, their Gram matrix cannot be factorised."
)

Floats = NDArray[np.float64]


class CoefficientForm(Protocol):
    """Draws of delta for prior variances that change from sweep to sweep."""

    diagonal: Floats  # of G
    fitted: float  # delta'G delta of the last draw

    def factor(self, variances: Floats) -> float:
        """Factorise for prior variances D (p,) and return g'A^-1 g."""
        ...

    def draw(self, sigma: float, rng: np.random.Generator) -> Floats:
        """Draw delta (p,) given the noise's standard deviation and the last variances."""
        ...

    def gram_times(self, vector: Floats) -> Floats:
        """Return G v."""
        ...

    def columns(self, which: NDArray[np.intp]) -> Floats:
        """Return columns (p, c) of G of these indices (c,)."""
        ...

    def tail_squares(self, delta: Floats, order: NDArray[np.intp]) -> Floats:
        """Return v'G v (p + 1,) for delta with its first 0, ..., p entries in `order` set to 0."""
        ...


def form_of(problem: ReducedRegression) -> CoefficientForm:
    """Return the form of this problem: by rows if it has them, otherwise by the Gram matrix."""
    return GramForm(problem) if problem.rows is None else RowForm(problem)


class GramForm:
    """Rue's form: one p x p factorisation."""

    def __init__(self, problem: ReducedRegression) -> None:
        self._gram = problem.gram
        self._moment = problem.moment
        p = self._moment.size
        self._matrix = np.empty((p, p), order="F")
        self._on_diagonal = self._matrix.reshape(-1, order="F")[:: p + 1]
        self._forward = np.zeros(p)
        self._added = np.zeros(p)
        self.diagonal: Floats = np.diag(self._gram).copy()
        self.fitted = 0.0

    def factor(self, variances: Floats, moment: Floats | None = None) -> float:
        """Factorise A = L L' and keep L^-1 g; `moment` (p,) replaces the problem's g."""
        added = 1.0 / variances
        jitter = _factorise(self._matrix, self._on_diagonal, self._gram, self.diagonal + added)
        self._added = added + jitter if jitter else added
        self._forward = dtrsv(self._matrix, self._moment if moment is None else moment, lower=1)
        return _finite(float(self._forward @ self._forward))

    def draw(self, sigma: float, rng: np.random.Generator) -> Floats:
        """Return L^-T w with w = L^-1 g + sigma e; then delta'A delta is w'w."""
        noise = rng.standard_normal(self._moment.size)
        noise *= sigma
        noise += self._forward
        square = float(noise @ noise)
        result: Floats = dtrsv(self._matrix, noise, lower=1, trans=1, overwrite_x=1)
        self.fitted = max(square - float((result * self._added) @ result), 0.0)
        return result

    def gram_times(self, vector: Floats) -> Floats:
        """Return G v from the lower triangle of G."""
        return dsymv(1.0, self._gram, vector, lower=1)

    def columns(self, which: NDArray[np.intp]) -> Floats:
        """Return columns of G."""
        return np.asfortranarray(self._gram[:, which])

    def tail_squares(self, delta: Floats, order: NDArray[np.intp]) -> Floats:
        """Return the sums of v_i G_ij v_j over the remaining entries."""
        v = delta[order]
        terms = self._gram[np.ix_(order, order)] * np.outer(v, v)
        added = np.diag(terms) + 2.0 * np.triu(terms, 1).sum(axis=1)
        return np.append(np.cumsum(added[::-1])[::-1], 0.0)


class RowForm:
    """The form of Bhattacharya and others: one n x n factorisation."""

    def __init__(self, problem: ReducedRegression) -> None:
        if problem.rows is None or problem.response is None:
            raise InputError(
                "last layer: this problem was reduced without its rows. Use the form by its Gram "
                "matrix."
            )
        self._rows = problem.rows
        self._response = problem.response
        n = self._response.size
        self._matrix = np.empty((n, n), order="F")
        self._on_diagonal = self._matrix.reshape(-1, order="F")[:: n + 1]
        self._forward = np.zeros(n)
        self._variances = np.ones(self._rows.shape[1])
        self._scaled = np.empty(self._rows.shape)
        self.diagonal: Floats = (self._rows**2).sum(axis=0)
        self.fitted = 0.0

    def factor(self, variances: Floats) -> float:
        """Factorise I + X D X' = L L'; g'A^-1 g is Z'Z - |L^-1 Z|^2."""
        self._variances = variances
        np.multiply(self._rows, np.sqrt(variances), out=self._scaled)
        outer = dsyrk(1.0, self._scaled.T, trans=1, lower=1)
        _factorise(self._matrix, self._on_diagonal, outer, outer.diagonal() + 1.0)
        self._forward = dtrsv(self._matrix, self._response, lower=1)
        return _finite(float(self._response @ self._response - self._forward @ self._forward))

    def draw(self, sigma: float, rng: np.random.Generator) -> Floats:
        """Return sigma v + D X'(I + X D X')^-1 (Z - sigma (X v + e)).

        v ~ N(0, D) and e ~ N(0, I).
        """
        v = np.sqrt(self._variances) * rng.standard_normal(self._variances.size)
        misfit = self._rows @ v + rng.standard_normal(self._response.size)
        solved = dtrsv(
            self._matrix,
            self._forward - sigma * dtrsv(self._matrix, misfit, lower=1),
            lower=1,
            trans=1,
        )
        result: Floats = sigma * v + self._variances * (self._rows.T @ solved)
        values = self._rows @ result
        self.fitted = float(values @ values)
        return result

    def gram_times(self, vector: Floats) -> Floats:
        """Return X'X v."""
        return self._rows.T @ (self._rows @ vector)

    def columns(self, which: NDArray[np.intp]) -> Floats:
        """Return columns of X'X."""
        return np.asfortranarray(self._rows.T @ self._rows[:, which])

    def tail_squares(self, delta: Floats, order: NDArray[np.intp]) -> Floats:
        """Return |X v|^2 of the remaining entries."""
        fitted = np.cumsum((self._rows * delta)[:, order[::-1]], axis=1)[:, ::-1]
        return np.append((fitted**2).sum(axis=0), 0.0)


def _factorise(matrix: Floats, on_diagonal: Floats, lower: Floats, diagonal: Floats) -> float:
    """Write the Cholesky factor of `lower`, with its diagonal replaced, into `matrix`.

    `on_diagonal` is a view of the diagonal of `matrix`. Returns the number that was added to the
    diagonal: a matrix that is singular to rounding, as with duplicated columns under a flat prior,
    needs a small one.
    """
    p = diagonal.size
    jitter = 0.0
    for _ in range(TRIES):
        for i in range(0, p, SLAB):
            matrix[i:, i : i + SLAB] = lower[i:, i : i + SLAB]
        np.add(diagonal, jitter, out=on_diagonal)
        _, info = dpotrf(matrix, lower=1, clean=0, overwrite_a=1)
        if info == 0:
            return jitter
        jitter = max(10.0 * jitter, JITTER * float(lower.diagonal().mean()), 1e-300)
    raise InputError(NOT_FACTORISED)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InputError(NOT_FACTORISED)
    return value

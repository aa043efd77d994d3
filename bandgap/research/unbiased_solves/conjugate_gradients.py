"""Preconditioned conjugate gradients, and kernel matrices as products with vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from scipy.spatial.distance import cdist

from bandgap.research.unbiased_solves.series import Floats, Truncation
from bandgap.research.vecchia.correlation import correlations, log_slopes
from bandgap.research.vecchia.likelihood import Theta

TOLERANCE: Final = 1e-10  # relative residual below which further terms are negligible
CHUNK = 1024  # rows of the kernel matrix computed together
STORED_ROWS = 4096  # most rows of which the correlations are stored

Product = Callable[[Floats], Floats]


@dataclass(frozen=True, eq=False)
class Solve:
    """A solution (n,), its number of terms, and its relative residual."""

    solution: Floats
    terms: int
    residual: float


def solve(
    product: Product,
    b: Floats,
    *,
    weights: Floats | None = None,
    terms: int,
    precondition: Product | None = None,
    increments: list[Floats] | None = None,
) -> Solve:
    """Return sum_i weights_i d_i over increments d_i of the solution of K s = b.

    The sum ends after `terms` increments, or at a relative residual of 1e-10.

    Parameters
    ----------
    product
        Product of K with a vector.
    b
        Right-hand side, (n,).
    weights
        Weights of the increments; default: 1.
    terms
        Largest number of increments.
    precondition
        Product of the preconditioner's inverse with a vector.
    increments
        List to which the d_i are appended.
    """
    s = np.zeros_like(b)
    r = b.copy()
    z = r if precondition is None else precondition(r)
    p = z.copy()
    rz = float(r @ z)
    size = float(np.linalg.norm(b)) or 1.0
    done = 0
    while done < terms and np.linalg.norm(r) > TOLERANCE * size:
        kp = product(p)
        step = rz / float(p @ kp)
        s += (step if weights is None else step * weights[done]) * p
        if increments is not None:
            increments.append(step * p)
        r -= step * kp
        z = r if precondition is None else precondition(r)
        new = float(r @ z)
        p = z + (new / rz) * p
        rz = new
        done += 1
    return Solve(s, done, float(np.linalg.norm(r)) / size)


def unbiased_solve(
    product: Product,
    b: Floats,
    truncation: Truncation,
    rng: np.random.Generator,
    *,
    precondition: Product | None = None,
) -> Solve:
    """Return a random vector whose mean is the solution of K s = b."""
    stop = truncation.stop(rng)
    weights = 1.0 / truncation.inclusion(stop)
    return solve(product, b, weights=weights, terms=stop, precondition=precondition)


def increments_of(
    product: Product, b: Floats, *, terms: int, precondition: Product | None = None
) -> Floats:
    """Return the increments (term, n) of the solution of K s = b until convergence."""
    solutions: list[Floats] = []
    solve(product, b, terms=terms, precondition=precondition, increments=solutions)
    return np.array(solutions)


class KernelMatrix:
    """Products with sigma2 M + tau2 I of points (n, q) and its derivatives by log theta.

    Above 4,096 points, correlations are recomputed for every product in chunks of rows, so memory
    is O(n).
    """

    def __init__(self, points: Floats, theta: Theta) -> None:
        self.points = points
        self.theta = theta
        self._stored: dict[int, Floats] = {}

    def __call__(self, v: Floats) -> Floats:
        """Return K v."""
        return self.theta.sigma2 * self._times(0, v) + self.theta.tau2 * v

    def slope(self, which: int, v: Floats) -> Floats:
        """Return (dK / d log theta_j) v for j = 0 (sigma2), 1 (rho) or 3 (tau2)."""
        if which == 3:
            return self.theta.tau2 * v
        return self.theta.sigma2 * self._times(which, v)

    def preconditioner(self, rank: int) -> Product:
        """Return products with the inverse of F F' + tau2 I, F a pivoted Cholesky factor."""
        factor = pivoted_cholesky(self, min(rank, len(self.points)))
        tau2 = self.theta.tau2
        inner = np.linalg.cholesky(tau2 * np.eye(factor.shape[1]) + factor.T @ factor)

        def inverse(v: Floats) -> Floats:
            middle = np.linalg.solve(inner.T, np.linalg.solve(inner, factor.T @ v))
            result: Floats = (v - factor @ middle) / tau2
            return result

        return inverse

    def row(self, i: int) -> Floats:
        """Return the row of sigma2 M of one point."""
        return np.asarray(self.theta.sigma2 * self._block(0, slice(i, i + 1))[0], dtype=np.float64)

    def _times(self, which: int, v: Floats) -> Floats:
        if len(self.points) <= STORED_ROWS:
            if which not in self._stored:
                self._stored[which] = self._block(which, slice(None))
            return np.asarray(self._stored[which] @ v, dtype=np.float64)
        starts = range(0, len(self.points), CHUNK)
        return np.concatenate([self._block(which, slice(i, i + CHUNK)) @ v for i in starts])

    def _block(self, which: int, rows: slice) -> Floats:
        distances = torch.from_numpy(np.asarray(cdist(self.points[rows], self.points)))
        if which == 0:
            return np.asarray(
                correlations(distances, self.theta.rho, self.theta.nu).numpy(), dtype=np.float64
            )
        return np.asarray(
            log_slopes(distances, self.theta.rho, self.theta.nu, free_nu=False)[1].numpy()
        )


def pivoted_cholesky(kernel: KernelMatrix, rank: int) -> Floats:
    """Return the pivoted Cholesky factor F (n, rank), with F F' near sigma2 M."""
    n = len(kernel.points)
    remaining = np.full(n, kernel.theta.sigma2)
    factor = np.zeros((n, rank))
    for k in range(rank):
        pivot = int(remaining.argmax())
        if remaining[pivot] < 1e-10 * kernel.theta.sigma2:
            return factor[:, :k]
        column = kernel.row(pivot) - factor[:, :k] @ factor[pivot, :k]
        factor[:, k] = column / np.sqrt(remaining[pivot])
        remaining = np.maximum(remaining - factor[:, k] ** 2, 0.0)
    return factor

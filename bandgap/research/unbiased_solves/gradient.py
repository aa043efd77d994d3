r"""The gradient of an exact Gaussian likelihood by log theta from unbiased solves.

    -(1 / 2 N_r) sum_r (K^-1 r)'K_i r + s'K_i s' / 2

r are vectors of random signs, s and s' two independent solves of K s = y. Every solve is used
linearly, or in a product with an independent one, so the mean is the gradient. A solve in a product
with itself would add the bias (1/2) sum_jl d_j'K_i d_l (1 / P_min(j,l) - 1), which the source does
not mention.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.research.unbiased_solves.conjugate_gradients import (
    KernelMatrix,
    Product,
    solve,
    unbiased_solve,
)
from bandgap.research.unbiased_solves.series import Floats, Truncation

FREE: Final = (0, 1, 3)  # sigma2, rho, tau2
LEAST = 0.02  # least eigenvalue of the correlation matrix of estimated information


@dataclass(frozen=True, eq=False)
class Estimate:
    """The gradient (3,) by the logs of sigma2, rho and tau2, and its number of products with K."""

    gradient: Floats
    products: int


def gradient_estimate(
    kernel: KernelMatrix,
    y: Floats,
    truncation: Truncation,
    rng: np.random.Generator,
    *,
    probes: int = 1,
    precondition: Product | None = None,
    solves: int = 2,
) -> Estimate:
    """Return an unbiased estimate from `probes` vectors of random signs and two solves.

    With `solves` = 1 it is biased, for comparison.
    """
    total = np.zeros(len(FREE))
    products = 0
    for _ in range(probes):
        r = rng.choice((-1.0, 1.0), size=y.size)
        estimate = unbiased_solve(kernel, r, truncation, rng, precondition=precondition)
        products += estimate.terms
        total -= [estimate.solution @ kernel.slope(j, r) / (2 * probes) for j in FREE]
    pair = [
        unbiased_solve(kernel, y, truncation, rng, precondition=precondition) for _ in range(solves)
    ]
    products += sum(half.terms for half in pair)
    total += [0.5 * pair[0].solution @ kernel.slope(j, pair[-1].solution) for j in FREE]
    return Estimate(total, products)


def trace_information(
    kernel: KernelMatrix,
    *,
    probes: int,
    terms: int,
    rng: np.random.Generator,
    precondition: Product | None = None,
) -> Floats:
    """Estimate the Fisher information (3, 3), tr(K^-1 K_i K^-1 K_j) / 2, by random signs.

    It is positive definite: eigenvalues of its correlation matrix are at least `LEAST`.
    """
    total = np.zeros((len(FREE), len(FREE)))
    for _ in range(probes):
        r = rng.choice((-1.0, 1.0), size=len(kernel.points))
        solution = solve(kernel, r, terms=terms, precondition=precondition).solution
        right = [
            solve(kernel, kernel.slope(j, r), terms=terms, precondition=precondition).solution
            for j in FREE
        ]
        total += (
            0.5 * np.array([kernel.slope(j, solution) for j in FREE]) @ np.array(right).T / probes
        )
    sd = np.sqrt(np.maximum(np.diag(total), 1e-3))
    values, vectors = np.linalg.eigh(0.5 * (total + total.T) / np.outer(sd, sd))
    result: Floats = np.outer(sd, sd) * ((vectors * np.maximum(values, LEAST)) @ vectors.T)
    return result

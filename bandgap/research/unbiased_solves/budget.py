"""Cost of a chain of unbiased solves, and the error of its solves, before it starts.

If the weights of a series grow faster than the series converges, the variance is so large that no
step is small enough. Such a chain is refused.
"""

from dataclasses import dataclass

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.research.unbiased_solves.conjugate_gradients import (
    KernelMatrix,
    Product,
    increments_of,
)
from bandgap.research.unbiased_solves.gradient import FREE
from bandgap.research.unbiased_solves.series import Floats, Truncation, mean_square_error

SLOPES = 2  # products with a derivative of K by FREE; that by tau2 needs none
MOST_SCATTER = 1.0  # largest root mean square error of a solve over the length of the solution
MOST_BYTES = 2**28  # most memory for increments


@dataclass(frozen=True)
class Budget:
    """Steps of all chains, products with K or its derivatives, and the error of solves.

    Products are counted without convergence before the truncation, so they are an upper bound.
    `scatter` is the root mean square error of an unbiased solve over the length of the solution.
    `terms` are those of a complete solve.
    """

    steps: int
    products: float
    before: float
    n: int
    scatter: float
    terms: int

    @property
    def total(self) -> float:
        """Products of all steps and before."""
        return self.before + self.steps * self.products

    def __str__(self) -> str:
        """Return the budget in a sentence."""
        return (
            f"{self.steps:,} steps with at most about {self.products:.0f} products of a {self.n:,} "
            f"x {self.n:,} matrix each, {self.total:,.0f} in all with the metric; a complete solve "
            f"takes {self.terms}, an unbiased one scatters by {self.scatter:.0%}."
        )


def budget_of(
    kernel: KernelMatrix,
    y: Floats,
    truncation: Truncation,
    *,
    steps: int,
    probes: int,
    trends: float = 0.0,
    metric_probes: int = 0,
    precondition: Product | None = None,
) -> Budget:
    """Return the budget of `steps` gradients at this kernel.

    Parameters
    ----------
    kernel, y
        Kernel matrix and right-hand side, (n,).
    truncation
        Truncation of the series.
    steps, probes
        Steps of all chains, and random signs in each.
    trends
        Complete solves for the trend in each step, on average.
    metric_probes
        Random signs for the metric.
    precondition
        Product of the preconditioner's inverse with a vector.

    Raises
    ------
    InputError
        If the error of the solves is too large.
    """
    n = len(y)
    most = max(2, min(truncation.most, MOST_BYTES // (8 * n)))
    increments = increments_of(kernel, y, terms=most, precondition=precondition)
    size = float(np.linalg.norm(increments.sum(axis=0))) or 1.0
    scatter = float(np.sqrt(max(mean_square_error(increments, truncation), 0.0))) / size
    terms = len(increments)
    products = (probes + 2) * truncation.expected + SLOPES * (probes + 1) + trends * terms
    before = metric_probes * ((1 + len(FREE)) * terms + 2 * SLOPES)
    budget = Budget(steps, products, before, n, scatter, terms)
    if not scatter <= MOST_SCATTER:
        raise InputError(
            f"unbiased solves scatter by {scatter:.3g} times the length of the solution (want at "
            f"most {MOST_SCATTER:g}): the weights of beta = {truncation.beta:g}, "
            f"{truncation.reading}, grow faster than conjugate gradients converge ({terms} terms). "
            "Give a smaller beta, more terms that are always kept, or a larger rank of the "
            "preconditioner."
        )
    return budget

"""What a chain of unbiased solves will cost and how far its solves scatter, said before it starts; and a refusal.

Where the weights of a series grow faster than it converges, its variance is finite and of no use: no step is small
enough.
"""

from dataclasses import dataclass

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.inference.unbiased_solves.conjugate_gradients import (
    KernelMatrix,
    Product,
    increments_of,
)
from bandgap.inference.unbiased_solves.gradient import FREE
from bandgap.inference.unbiased_solves.series import Floats, Truncation, mean_square_error

SLOPES = 2  # products with a derivative of K by FREE: that by tau2 is none
MOST_SCATTER = 1.0  # root mean square error of a solve over the length of the solution
MOST_BYTES = 2**28  # of increments that are kept to see how they fall


@dataclass(frozen=True)
class Budget:
    """Steps of all chains, products with K or a slope of it in each and before them, and how solves scatter.

    Series are counted as if they never converged before they are cut: fewer products are made where they do. `scatter`
    is the root mean square error of an unbiased solve over the length of the solution, `terms` are those of a complete
    one.
    """

    steps: int
    products: float
    before: float
    n: int
    scatter: float
    terms: int

    @property
    def total(self) -> float:
        """Products in all."""
        return self.before + self.steps * self.products

    def __str__(self) -> str:
        """Say it in a sentence."""
        return (
            f"{self.steps:,} steps with at most about {self.products:.0f} products of a {self.n:,} x {self.n:,} matrix "
            f"each, {self.total:,.0f} in all with the metric; a complete solve takes {self.terms}, an unbiased one "
            f"scatters by {self.scatter:.0%}."
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
    """Return the budget of `steps` gradients at this kernel, with `trends` complete solves in each and the metric's.

    Raises InputError where the weights' variance makes the solves senseless, with what would mend it.
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
            f"unbiased solves scatter by {scatter:.3g} times the length of the solution (want at most "
            f"{MOST_SCATTER:g}): the weights of beta = {truncation.beta:g}, {truncation.reading}, grow faster than "
            f"conjugate gradients converge ({terms} terms). Give a smaller beta, more terms that are always "
            "kept, or a larger rank of the preconditioner."
        )
    return budget

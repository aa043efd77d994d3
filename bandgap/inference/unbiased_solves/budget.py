"""What a chain of unbiased solves will cost and how far its solves scatter, said before it starts; and a refusal.

Where the weights of a series grow faster than it converges, its variance is finite and of no use: no step is small
enough.
"""

from dataclasses import dataclass

import numpy as np

from bandgap.foundation.errors import InputError
from bandgap.inference.unbiased_solves.conjugate_gradients import KernelMatrix, Product, increments_of
from bandgap.inference.unbiased_solves.series import Floats, Truncation, mean_square_error

MOST_SCATTER = 1.0  # root mean square error of a solve over the length of the solution
MOST_BYTES = 2**28  # of increments that are kept to see how they fall


@dataclass(frozen=True)
class Budget:
    """Steps of all chains, products with K each, what they hold, and the scatter of a solve over its length."""

    steps: int
    products: float
    n: int
    scatter: float
    terms: int

    def __str__(self) -> str:
        """Say it in a sentence."""
        total = self.steps * self.products
        return (
            f"{self.steps:,} steps with about {self.products:.0f} products of a {self.n:,} x {self.n:,} matrix each, "
            f"{total:,.0f} in all; a complete solve takes {self.terms}, an unbiased one scatters by {self.scatter:.0%}."
        )


def budget_of(
    kernel: KernelMatrix,
    y: Floats,
    truncation: Truncation,
    *,
    steps: int,
    probes: int,
    precondition: Product | None = None,
) -> Budget:
    """Return the budget of `steps` gradients at this kernel.

    Raises InputError where the weights' variance makes the solves senseless, with what would mend it.
    """
    n = len(y)
    most = max(2, min(truncation.most, MOST_BYTES // (8 * n)))
    increments = increments_of(kernel, y, terms=most, precondition=precondition)
    kept = truncation.inclusion(len(increments))
    size = float(np.linalg.norm(increments.sum(axis=0))) or 1.0
    scatter = float(np.sqrt(max(mean_square_error(increments, truncation), 0.0))) / size
    budget = Budget(steps, (probes + 2) * float(kept.sum()), n, scatter, len(increments))
    if not scatter <= MOST_SCATTER:
        raise InputError(
            f"unbiased solves scatter by {scatter:.3g} times the length of the solution (want at most "
            f"{MOST_SCATTER:g}): the weights of beta = {truncation.beta:g}, {truncation.reading}, grow faster than "
            f"conjugate gradients converge ({len(increments)} terms). Give a smaller beta, more terms that are always "
            "kept, or a larger rank of the preconditioner."
        )
    return budget

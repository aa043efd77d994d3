r"""Random truncation of a series without bias (ULISSE): included terms and their weights.

s = d_1 + ... + d_T is a sum of increments of conjugate gradients. The first `always` terms are
always included. Term always + i is included with probability P_i and weight 1 / P_i. The mean is
then s for every P_i above 0, and

    E |s~ - s|^2 = sum_jl d_j'd_l (1 / P_min(j,l) - 1).

"geometric": P_i = exp(-beta i), every term continues with the same probability exp(-beta).
"quadratic": exp(-beta i) is the probability to continue from i - 1 to i, so P_i = exp(-beta i (i +
1) / 2). Its weights grow faster than the series converges. The source does not say which of the two
it uses; "geometric" is the default.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.config import Count, Positive, Settings, WholeNumber
from bandgap.foundation.errors import ConfigError

Floats = NDArray[np.float64]
Reading = Literal["geometric", "quadratic"]


@dataclass(frozen=True)
class Truncation(Settings):
    """Rate beta, terms that are always included, reading, and largest number of terms."""

    beta: Positive = 0.05
    always: WholeNumber = 10
    reading: Reading = "geometric"
    most: Count = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.most <= self.always:
            raise ConfigError(
                f"truncation: always {self.always}, most {self.most}. Accepted: most above always."
            )

    def inclusion(self, terms: int) -> Floats:
        """Return the probability (terms,) with which each term is included."""
        i = np.maximum(np.arange(1, terms + 1) - self.always, 0).astype(np.float64)
        return np.exp(-self.beta * (i if self.reading == "geometric" else i * (i + 1) / 2))

    def stop(self, rng: np.random.Generator) -> int:
        """Return a draw of the number of terms."""
        if self.reading == "geometric":
            more = int(rng.geometric(-np.expm1(-self.beta))) - 1
        else:
            u = rng.random()
            more = 0
            while u < np.exp(-self.beta * (more + 1) * (more + 2) / 2):
                more += 1
        return min(self.always + more, self.most)

    @property
    def expected(self) -> float:
        """Expected number of terms of an infinite series."""
        return float(self.inclusion(self.most).sum())


def mean_square_error(increments: Floats, truncation: Truncation) -> float:
    """Return E |s~ - s|^2 of a series with these increments (term, n)."""
    gram = increments @ increments.T
    terms = np.arange(len(increments))
    first = np.minimum(terms[:, None], terms)
    return float((gram * (1.0 / truncation.inclusion(len(increments))[first] - 1.0)).sum())

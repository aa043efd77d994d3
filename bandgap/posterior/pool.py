"""A pool of posteriors of several methods: a mixture with one weight for each and a common spread
factor.

    p(y | x) = sum_m w_m p_m,c(y | x)

p_m,c is p_m with the distances from its mean multiplied by c (`inference.stacking`). The pool is
approximated by a mixture with equal weights: the number of components of a member is proportional
to its weight. They are evenly spread over the member's components.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bandgap.posterior.protocol import (
    Diagnostics,
    Floats,
    Posterior,
    PredictiveDraws,
)

COMPONENTS = 600  # components of the pool
DRAWS = 240  # draws of its mean


@dataclass(frozen=True, eq=False)
class PooledPosterior:
    """Posteriors of several methods, their names, their weights with sum 1, and the
    factor c.
    """

    kind: ClassVar[str] = "pool"
    n_chains: ClassVar[int] = 1
    n_members: ClassVar[int] = 1
    n_draws: ClassVar[int] = DRAWS

    members: tuple[Posterior, ...]
    methods: tuple[str, ...]
    weights: tuple[float, ...]
    spread: float
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, draw, n), in eV, for raw features (n, p)."""
        return self._mean_draws([np.concatenate(m.mean_draws_eV(features)) for m in self.members])

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean, and the components of the pool, for raw features (n, p)."""
        member_draws = [m.predictive_draws(features) for m in self.members]
        centres = []
        sds = []
        for draws, size in zip(member_draws, shares(self.weights, COMPONENTS), strict=True):
            middle = draws.centres_eV.mean(axis=0)
            components = evenly(len(draws.centres_eV), size)
            centres.append(middle + self.spread * (draws.centres_eV[components] - middle))
            sds.append(self.spread * draws.wide_sds_eV[components])
        return PredictiveDraws(
            self._mean_draws([draws.flat_means_eV for draws in member_draws]),
            np.concatenate(centres),
            np.concatenate(sds),
        )

    def _mean_draws(self, member_draws: Sequence[Floats]) -> Floats:
        """Return draws of the mean (1, draw, n) from the members' draws (draw, n), with the pool's
        mean.
        """
        sizes = shares(self.weights, DRAWS)
        draws = np.concatenate(
            [d[evenly(len(d), size)] for d, size in zip(member_draws, sizes, strict=True)]
        )
        mean = np.tensordot(self.weights, np.stack([d.mean(axis=0) for d in member_draws]), axes=1)
        result: Floats = (draws + (mean - draws.mean(axis=0)))[None]
        return result

    def summaries(self) -> dict[str, Floats]:
        """Return the root of the members' weighted mean square noise as the noise of every draw."""
        noise = [float(np.mean(m.summaries()["sigma_eV"] ** 2)) for m in self.members]
        return {"sigma_eV": np.full((1, DRAWS), self.spread * np.sqrt(np.dot(self.weights, noise)))}


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Divide `total` in proportion to weights with sum 1, by largest remainders.

    >>> shares([0.5, 0.25, 0.25], 10)
    [5, 3, 2]
    """
    exact = np.multiply(weights, total)
    sizes = np.floor(exact).astype(int)
    order = np.argsort(sizes - exact, kind="stable")
    sizes[order[: total - sizes.sum()]] += 1
    return [int(size) for size in sizes]


def evenly(n: int, size: int) -> NDArray[np.int64]:
    """Return `size` evenly spread numbers below n, each of them equally often, up to one.

    >>> evenly(4, 2).tolist(), evenly(2, 4).tolist()
    ([1, 3], [0, 0, 1, 1])
    """
    return (
        ((np.arange(size) + 0.5) * n / size).astype(np.int64)
        if size
        else np.empty(0, dtype=np.int64)
    )

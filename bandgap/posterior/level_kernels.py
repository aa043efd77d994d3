"""Two kernels of the electron levels of structures: a straight line in each level, and a smooth function of all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LevelKernels:
    """Kernels in units of the training rows: means and scales (k,) of the levels, and what makes kernels comparable.

    The linear kernel has mean diagonal 1 over these rows; the smooth one is exp(-d^2 / 2), d over the median distance
    of two of them.
    """

    mean: Floats
    scale: Floats
    diagonal: float
    distance: float

    @classmethod
    def of(cls, levels: Floats) -> "LevelKernels":
        """Return the kernels for training rows (n, k)."""
        sd = levels.std(axis=0)
        start = cls(levels.mean(axis=0), np.where(sd > 0, sd, 1.0), 1.0, 1.0)
        z = start._scaled(levels)
        diagonal = float((z**2).sum(axis=1).mean())
        typical = float(np.median(cdist(z, z)[np.triu_indices(len(z), 1)]))
        return cls(start.mean, start.scale, diagonal or 1.0, typical if typical > 1e-3 else 1.0)

    def grams(self, a: Floats, b: Floats) -> tuple[Floats, Floats]:
        """Return both kernels between levels (a, k) and (b, k)."""
        u, v = self._scaled(a), self._scaled(b)
        return u @ v.T / self.diagonal, np.exp(-0.5 * (cdist(u, v) / self.distance) ** 2)

    def diagonals(self, a: Floats) -> Floats:
        """Return both diagonals (2, n) at levels (n, k)."""
        return np.stack([(self._scaled(a) ** 2).sum(axis=1) / self.diagonal, np.ones(len(a))])

    def _scaled(self, levels: Floats) -> Floats:
        return (levels - self.mean) / self.scale

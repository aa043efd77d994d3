"""The posterior of a Gaussian process in which every part of the descriptor has a length of its own (`product_kernel`).

Stored are the training rows and draws of the kernel's scales; distances and factors are computed again where
predictions are wanted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from torch import Tensor

from bandgap.inference.gaussian_process.product_kernel import ProductKernelProblem
from bandgap.posterior.protocol import Diagnostics, Floats, tensors
from bandgap.posterior.scale_draws import ScaleDraws
from bandgap.posterior.training_rows import TrainingRows, typical_distance

_ARRAYS = ("ends", "gaps_eV", "theta")


@dataclass(frozen=True, eq=False)
class PartsGPPosterior(ScaleDraws):
    """Training rows in their parts.

    `ends` (part,) says where in the varying columns of the rows each part ends.
    """

    kind: ClassVar[str] = "parts_gp"

    rows: TrainingRows
    ends: NDArray[np.int64]

    @classmethod
    def before_draws(
        cls,
        features: NDArray[np.floating[Any]],
        gaps_eV: Floats,
        *,
        parts: Sequence[slice],
        seed: int,
    ) -> Self:
        """Return what draws of the scales are for: features (n, p) in their parts, and gaps (n,) in eV.

        A part that does not vary is left out. Raises InputError where none varies.
        """
        rows = TrainingRows.of(features)
        ends = np.unique(np.searchsorted(rows.columns, [part.stop for part in parts]))
        gaps, none_yet = gaps_eV.astype(np.float64), np.empty((0, 0))
        return cls(rows, ends[ends > 0].astype(np.int64), gaps_eV=gaps, theta=none_yet, seed=seed)

    @cached_property
    def problem(self) -> ProductKernelProblem:
        """The training rows with their distances."""
        own = self._own
        squares = tuple(
            (cdist(x, x) / typical) ** 2 for x, typical in zip(own, self._typical, strict=True)
        )
        return ProductKernelProblem(squares, (self.gaps_eV - self.y_mean_eV) / self.y_sd_eV)

    @cached_property
    def _own(self) -> list[Floats]:
        return self._by_part(self.rows.scaled())

    @cached_property
    def _typical(self) -> list[float]:
        return [typical_distance(cdist(x, x)) for x in self._own]

    def _by_part(self, scaled: Floats) -> list[Floats]:
        starts = [0, *self.ends[:-1]]
        return [scaled[:, start:end] for start, end in zip(starts, self.ends, strict=True)]

    def conditional(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and variance (draw, n) of the process at raw features (n, p) given each draw of the scales."""
        new = self._by_part(self.rows.scaled(features))
        squares = tuple(
            (cdist(a, b) / t) ** 2 for a, b, t in zip(new, self._own, self._typical, strict=True)
        )
        found = [self.problem.conditional(theta, squares) for theta in self.theta]
        centres, variances = (np.stack(values) for values in zip(*found, strict=True))
        return centres, variances

    def left_out_log_densities(self, spreads: Floats) -> Floats:
        """Return log p(y_i | all others), (n, spread), in 1/eV, distances from its mean times each of `spreads`.

        Draws of the scales saw row i too, so that their weights are those of 1 / p(y_i | all others, draw), cut at
        sqrt(S) times their mean (Ionides, 2008, J. Comput. Graph. Stat. 17, 295-311).
        """
        from scipy.stats import norm  # loads half a second long: not with every prediction

        found = [self.problem.left_out(theta) for theta in self.theta]
        means, variances = (np.stack(values) for values in zip(*found, strict=True))
        sds, y = np.sqrt(variances), self.problem.y
        inverse = -norm.logpdf(y, means, sds)
        inverse -= logsumexp(inverse, axis=0) - np.log(len(means))
        weights = np.exp(np.minimum(inverse, 0.5 * np.log(len(means))))
        weights /= weights.sum(axis=0)
        middle = (weights * means).sum(axis=0)
        columns = [
            logsumexp(norm.logpdf(y, middle + c * (means - middle), c * sds), b=weights, axis=0)
            for c in spreads
        ]
        result: Floats = np.stack(columns, axis=1) - np.log(self.y_sd_eV)
        return result

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        return self.rows.to_arrays() | tensors(self, _ARRAYS)

    def scalars(self) -> dict[str, Any]:
        """Return the seed and the number of features."""
        return {"seed": self.seed, "n_features": self.rows.n_features}

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
    ) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        rows = TrainingRows.from_arrays(arrays, n_features=scalars["n_features"])
        plain = {name: arrays[name].numpy() for name in _ARRAYS}
        return cls(rows=rows, seed=scalars["seed"], diagnostics=diagnostics, **plain)

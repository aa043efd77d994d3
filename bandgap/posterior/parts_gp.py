"""The posterior of a Gaussian process with one length for each block of the descriptor
(`product_kernel`).

Stored are the training rows and draws of the kernel's scales. Distances and factors are recomputed
for predictions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from bandgap.inference.gaussian_process.label_weights import (
    WeightsAndChanges,
    averaged,
    evenly_spaced,
    weights_and_changes,
)
from bandgap.inference.gaussian_process.product_kernel import ProductKernelProblem, covariance
from bandgap.posterior.protocol import Floats
from bandgap.posterior.scale_draws import ScaleDraws
from bandgap.posterior.training_rows import TrainingRows, typical_distance


@dataclass(frozen=True, eq=False)
class PartsGPPosterior(ScaleDraws):
    """Training rows, divided into the blocks of the descriptor.

    `ends` (block,) are the ends of the blocks among the varying columns of the rows.
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
        """Return the posterior without draws for features (n, p) in their blocks and gaps (n,) in
        eV.

        A block that does not vary is left out. Raises InputError if none varies.
        """
        rows = TrainingRows.of(features)
        ends = np.unique(np.searchsorted(rows.columns, [part.stop for part in parts]))
        return cls(
            rows,
            ends[ends > 0].astype(np.int64),
            gaps_eV=gaps_eV.astype(np.float64),
            theta=np.empty((0, 0)),
            seed=seed,
        )

    @cached_property
    def problem(self) -> ProductKernelProblem:
        """The training rows with their distances."""
        parts = self._training_parts
        squares = tuple(
            (cdist(x, x) / typical) ** 2 for x, typical in zip(parts, self._typical, strict=True)
        )
        return ProductKernelProblem(squares, (self.gaps_eV - self.y_mean_eV) / self.y_sd_eV)

    @cached_property
    def _training_parts(self) -> list[Floats]:
        return self._by_part(self.rows.scaled())

    @cached_property
    def _typical(self) -> list[float]:
        return [typical_distance(cdist(x, x)) for x in self._training_parts]

    def _by_part(self, scaled: Floats) -> list[Floats]:
        starts = [0, *self.ends[:-1]]
        return [scaled[:, start:end] for start, end in zip(starts, self.ends, strict=True)]

    def conditional(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, Floats]:
        """Return mean and variance (draw, n) at raw features (n, p) for each draw of the scales."""
        squares = self._squares_to_rows(features)
        moments = [self.problem.conditional(theta, squares) for theta in self.theta]
        centres, variances = (np.stack(values) for values in zip(*moments, strict=True))
        return centres, variances

    def _squares_to_rows(self, features: NDArray[np.floating[Any]]) -> tuple[Floats, ...]:
        """Return squared distances (m, n) of each block to the training rows."""
        new = self._by_part(self.rows.scaled(features))
        return tuple(
            (cdist(a, b) / t) ** 2
            for a, b, t in zip(new, self._training_parts, self._typical, strict=True)
        )

    def label_weights(self, features: NDArray[np.floating[Any]]) -> WeightsAndChanges:
        """Return weights (m, n) of the labels and changes in eV for raw features (m, p).

        They are means over draws of the scales.
        """
        squares = self._squares_to_rows(features)
        problem = self.problem
        draws = []
        for theta in self.theta[evenly_spaced(len(self.theta))]:
            of_labels = covariance(theta, problem.squares)
            of_labels[np.diag_indices(problem.y.size)] += np.exp(2 * theta[-1])
            cross = covariance(theta, squares)
            draws.append(weights_and_changes(cross, of_labels, problem.y * self.y_sd_eV))
        return averaged(draws)

    def left_out_log_densities(self, spreads: Floats) -> Floats:
        """Return log p(y_i | other rows) of every training row, (n, spread), in 1/eV.

        Distances from the mean of p are multiplied by each of `spreads` (spread,). The draws of the
        scales depend on row i too. So draw s has the importance weight 1 / p(y_i | other rows, draw
        s), truncated at sqrt(S) times the mean of S weights (Ionides, 2008, J. Comput. Graph. Stat.
        17, 295-311).
        """
        from scipy.stats import norm  # imported here, as it takes half a second

        moments = [self.problem.left_out(theta) for theta in self.theta]
        means, variances = (np.stack(values) for values in zip(*moments, strict=True))
        sds = np.sqrt(variances)
        y = self.problem.y
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

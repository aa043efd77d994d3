r"""Cross-conformal predictions from models that were each fitted without one fold.

CV+ of Barber, Candes, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+",
Ann. Stat. 49, 486-507, section 1.3. With K folds, f_{-k} fitted without fold k and R_i = |y_i -
f_{-k(i)}(x_i)|, the interval with probability 1 - a is

    from the floor(a (n + 1))-th smallest of f_{-k(i)}(x) - R_i
    to the ceil((1 - a) (n + 1))-th smallest of f_{-k(i)}(x) + R_i

It covers a new exchangeable gap with probability 1 - 2a or more, in practice about 1 - a.

Here both ends are quantiles of one distribution, with equal weights on f_{-k(i)}(x) - R_i and
f_{-k(i)}(x) + R_i for all i. So every probability uses the same quantiles: a/2 and 1 - a/2 are the
two ends, as long as the models differ by much less than the errors. For the n + 1 of the formula
the outermost points count twice. For n < 1/a - 1 the formula has an infinite end; here the end is
the outermost point.

Each point is smoothed into a normal with sd h_i = s sqrt(R_i^2 + R^2 / 4), R the root mean square
error. It is wider at large errors, where points are sparse. All distances from f_{-k(i)}(x) are
multiplied by sqrt(1 - 1.25 s^2), which preserves the variance. Of more than 200 errors, 200 are
used, evenly spaced in order of size.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bandgap.posterior.fold_models import FoldModels
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws

# s. On organic crystals, n = 100 to 1,000, within 0.02 of the best NLL for kernels and for trees.
SMOOTHING = 0.2
MOST_ERRORS = 200
LEAST_SD_EV = 1e-6  # applies if every error is zero


@dataclass(frozen=True, eq=False)
class ConformalPosterior:
    """Fold models, the fold of every training row, and its error y_i - f_{-k(i)}(x_i) in eV.

    The point prediction is the mean of the fold models. It needs no further fit and is in the
    middle of the distribution of the module's docstring.

    Draws of the mean are the fold models, with the distances from their mean multiplied by sqrt(K -
    1). Their sd is the jackknife's standard error with one fold left out at a time, which tends to
    be too large (Efron and Stein, 1981, Ann. Stat. 9, 586-596). It is limited to the root mean
    square error, of which it is a part.
    """

    kind: ClassVar[str] = "conformal"
    n_chains: ClassVar[int] = 1
    n_members: ClassVar[int] = 1

    models: FoldModels
    fold: NDArray[np.int64]  # (n,)
    errors_eV: Floats  # (n,)
    smoothing: float = SMOOTHING
    diagnostics: Diagnostics = field(default_factory=Diagnostics)

    @property
    def n_draws(self) -> int:
        """Number of folds."""
        return int(self.fold.max()) + 1

    @property
    def rms_eV(self) -> float:
        """Root mean square error of the rows that were left out, in eV."""
        return float(np.sqrt(np.mean(self.errors_eV**2)))

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, fold, n), in eV, for raw features (n, p)."""
        return self._mean_draws(self.models.predict_eV(features))

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean and the mixture of a new observation for raw features (n, p)."""
        predicted = self.models.predict_eV(features)
        error_rows = self._error_rows()
        size = np.abs(self.errors_eV[error_rows])
        sds = self._smoothed(size, np.mean(size**2))
        middle = predicted[self.fold[error_rows]]
        lower = middle - size[:, None]
        upper = middle + size[:, None]
        lower[-1] = lower.min(axis=0)
        upper[-1] = upper.max(axis=0)
        centres = np.concatenate(
            [middle + self._shrinkage * (end - middle) for end in (lower, upper)]
        )
        return PredictiveDraws(self._mean_draws(predicted), centres, np.tile(sds, 2))

    def _mean_draws(self, predicted: Floats) -> Floats:
        centre = predicted.mean(axis=0)
        spread = np.maximum(predicted.std(axis=0), 1e-300)
        factor = np.minimum(np.sqrt(len(predicted) - 1.0), self.rms_eV / spread)
        result: Floats = (centre + factor * (predicted - centre))[None]
        return result

    def left_out_log_densities(self, spreads: Floats) -> Floats:
        """Return log p(y_i) of every training row, (n, spread), in 1/eV.

        p is from the model without row i's fold and the errors of the other rows. Distances from
        the model's prediction are multiplied by each of `spreads` (spread,).
        """
        from scipy.stats import norm  # imported here, as it takes half a second

        error_rows = self._error_rows()
        error = self.errors_eV[:, None]
        is_other_row = error_rows[None, :] != np.arange(error.size)[:, None]
        size = np.abs(self.errors_eV[error_rows])
        counts = is_other_row.sum(axis=1, keepdims=True)
        sds = self._smoothed(size, (is_other_row @ size**2)[:, None] / counts)
        centres = self._shrinkage * size
        columns = [
            logsumexp(
                np.logaddexp(
                    norm.logpdf(error, c * centres, c * sds),
                    norm.logpdf(error, -c * centres, c * sds),
                ),
                b=is_other_row / (2.0 * counts),
                axis=1,
            )
            for c in spreads
        ]
        result: Floats = np.stack(columns, axis=1)
        return result

    @property
    def _shrinkage(self) -> float:
        return float(np.sqrt(1.0 - 1.25 * self.smoothing**2))

    def _smoothed(self, size: Floats, mean_square: Floats | np.floating[Any]) -> Floats:
        """Return the sds of smoothed errors of this size, given the mean square of all errors."""
        result: Floats = np.maximum(
            self.smoothing * np.sqrt(size**2 + mean_square / 4.0), LEAST_SD_EV
        )
        return result

    def _error_rows(self) -> NDArray[np.int64]:
        """Return the rows in order of absolute error, the last twice, thinned to MOST_ERRORS."""
        order = np.argsort(np.abs(self.errors_eV), kind="stable")
        order = np.append(order, order[-1])
        if order.size <= MOST_ERRORS:
            return order
        return order[((np.arange(MOST_ERRORS) + 0.5) * order.size / MOST_ERRORS).astype(np.int64)]

    def summaries(self) -> dict[str, Floats]:
        """Return the root mean square error as the noise of every draw."""
        return {"sigma_eV": np.full((1, self.n_draws), self.rms_eV)}

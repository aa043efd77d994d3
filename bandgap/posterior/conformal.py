r"""Cross-conformal predictions: models that each left one fold out, and the errors that they made there.

CV+ of Barber, Candes, Ramdas and Tibshirani (2021), "Predictive inference with the jackknife+", Ann. Stat. 49, 486-507,
section 1.3. With K folds, f_{-k} fitted without fold k and R_i = |y_i - f_{-k(i)}(x_i)|, the interval of level 1 - a is

    [ floor(a (n + 1))-th smallest of f_{-k(i)}(x) - R_i,  ceil((1 - a) (n + 1))-th smallest of f_{-k(i)}(x) + R_i ]

and covers a new exchangeable gap with probability 1 - 2a or more, in practice about 1 - a. Here both ends are quantiles
of one distribution, with equal weights on f_{-k(i)}(x) - R_i and f_{-k(i)}(x) + R_i for all i, so that every level
comes from the same quantiles: its a/2 and 1 - a/2 quantiles are the two ends, as long as the spread of the models is
small beside the errors. For the (n + 1) of the formula the outermost points count twice; where the formula would give
an infinite end, n < 1/a - 1, the end lies at the outermost point instead.

Each point is smoothed into a normal of sd h_i = s sqrt(R_i^2 + R^2 / 4), R the root mean square error: wider far out,
where points are sparse. All distances from f_{-k(i)}(x) are multiplied by sqrt(1 - 1.25 s^2), so that the variance
stays what it was. Of more than 200 errors every (n / 200)-th in order of size is kept.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch import Tensor

from bandgap.foundation.fixed_blocks import by_fixed_block
from bandgap.posterior.fold_models import MODELS, FoldModels
from bandgap.posterior.protocol import Diagnostics, Floats, PredictiveDraws, part, tensors

SMOOTHING = 0.2  # s; on organic crystals, n = 100 to 1,000, within 0.02 of the best NLL for kernels and for trees
MOST_ERRORS = 200
LEAST_SD_EV = 1e-6  # where every error is zero


@dataclass(frozen=True, eq=False)
class ConformalPosterior:
    """Fold models, the fold of every training row, and its error y_i - f_{-k(i)}(x_i) in eV.

    The point prediction is the mean of the fold models: it needs no further fit, lies in the middle of the distribution
    above and is as accurate as a model of all rows (kernel ridge on organic crystals, 12 splits: 0.577 eV both).

    Draws of the mean are the fold models, their distances from their mean multiplied by sqrt(K - 1): their sd is then
    the jackknife's standard error with a fold left out at a time, which is too wide rather than too narrow (Efron and
    Stein, 1981, Ann. Stat. 9, 586-596). It is at most the root mean square error, of which it is a part.
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
        """Root mean square error of the rows that a model had not seen, in eV."""
        return float(np.sqrt(np.mean(self.errors_eV**2)))

    def mean_draws_eV(self, features: NDArray[np.floating[Any]]) -> Floats:
        """Return draws of the mean, (1, fold, n), in eV, for raw features (n, p)."""
        return self._mean_draws(self.models.predict_eV(features))

    def predictive_draws(self, features: NDArray[np.floating[Any]]) -> PredictiveDraws:
        """Return draws of the mean, and the smoothed points of a new observation, for raw features (n, p)."""
        predicted = self.models.predict_eV(features)
        kept = self._kept()
        size = np.abs(self.errors_eV[kept])
        sds = self._smoothed(size, np.mean(size**2))
        middle = predicted[self.fold[kept]]
        lower, upper = middle - size[:, None], middle + size[:, None]
        lower[-1], upper[-1] = lower.min(axis=0), upper.max(axis=0)
        centres = np.concatenate(
            [middle + self._inwards * (end - middle) for end in (lower, upper)]
        )
        return PredictiveDraws(self._mean_draws(predicted), centres, np.tile(sds, 2))

    def _mean_draws(self, predicted: Floats) -> Floats:
        return by_fixed_block(self._spread, predicted.T)[0][None]

    def _spread(self, by_row: Floats) -> tuple[Floats]:
        predicted = by_row.T
        centre = predicted.mean(axis=0)
        spread = np.maximum(predicted.std(axis=0), 1e-300)
        factor = np.minimum(np.sqrt(len(predicted) - 1.0), self.rms_eV / spread)
        return (centre + factor * (predicted - centre),)

    def left_out_log_densities(self, spreads: Floats) -> Floats:
        """Return log p(y_i), (n, spread), in 1/eV, from the model without row i's fold and the errors of other rows.

        Distances from the model's prediction are multiplied by each of `spreads` (spread,).
        """
        from scipy.stats import norm  # loads half a second long: not with every prediction

        kept, error = self._kept(), self.errors_eV[:, None]
        others = kept[None, :] != np.arange(error.size)[:, None]
        size = np.abs(self.errors_eV[kept])
        counts = others.sum(axis=1, keepdims=True)
        sds = self._smoothed(size, (others @ size**2)[:, None] / counts)
        centres = self._inwards * size
        columns = [
            logsumexp(
                np.logaddexp(
                    norm.logpdf(error, c * centres, c * sds),
                    norm.logpdf(error, -c * centres, c * sds),
                ),
                b=others / (2.0 * counts),
                axis=1,
            )
            for c in spreads
        ]
        result: Floats = np.stack(columns, axis=1)
        return result

    @property
    def _inwards(self) -> float:
        return float(np.sqrt(1.0 - 1.25 * self.smoothing**2))

    def _smoothed(self, size: Floats, mean_square: Floats | np.floating[Any]) -> Floats:
        """Return the sds of the normals that stand for errors of this size, given the mean square of all errors."""
        result: Floats = np.maximum(
            self.smoothing * np.sqrt(size**2 + mean_square / 4.0), LEAST_SD_EV
        )
        return result

    def _kept(self) -> NDArray[np.int64]:
        """Return rows in order of the size of their error, the last one twice; thinned to MOST_ERRORS."""
        order = np.argsort(np.abs(self.errors_eV), kind="stable")
        order = np.append(order, order[-1])
        if order.size <= MOST_ERRORS:
            return order
        return order[((np.arange(MOST_ERRORS) + 0.5) * order.size / MOST_ERRORS).astype(np.int64)]

    def summaries(self) -> dict[str, Floats]:
        """Return the root mean square error as the noise of every draw."""
        return {"sigma_eV": np.full((1, self.n_draws), self.rms_eV)}

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars and the diagnostics as named tensors."""
        return tensors(self, ("fold", "errors_eV")) | {
            f"models.{name}": value for name, value in self.models.to_arrays().items()
        }

    def scalars(self) -> dict[str, Any]:
        """Return kind and scalars of the models, and the smoothing."""
        return {
            "models": {"kind": self.models.kind, **self.models.scalars()},
            "smoothing": self.smoothing,
        }

    @classmethod
    def from_arrays(
        cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any], diagnostics: Diagnostics
    ) -> Self:
        """Build a posterior from `to_arrays` and `scalars`."""
        stored = scalars["models"]
        models = MODELS[stored["kind"]].from_arrays(part(arrays, "models."), scalars=stored)
        return cls(
            models,
            arrays["fold"].numpy(),
            arrays["errors_eV"].numpy(),
            scalars["smoothing"],
            diagnostics,
        )

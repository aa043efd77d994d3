"""The regression behind transfers of the output layer, on the source's last hidden features.

Abba (2023), section 3.5: the features h (q,) stay fixed, Z = y - (h'b + c) with the source's output
weights b and bias c. Changes delta are learned from Z, in units of the features' standard
deviations on the source's rows. The source's error is Cov(b) = s1^2 (H'H + R)^-1, with H the
source's centred features, s1^2 its residual variance and R = n1 l2 I its penalty. In units of the
target's noise variance that is S1 = s1^2 / s2 (H'H + R)^-1 with s2 from a ridge regression of Z
(the thesis uses one variance for both).

A feature that is almost constant on the source's rows is left out: its source weight stays. A
feature that hardly varies over the training rows (a sum of squares below `min_ss`, a dead unit) has
no change delta either: only its prior would determine the change, and a half-Cauchy scale has no
mean. Its source error stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.foundation.quantities import disagreement, worst_of
from bandgap.inference import diagnostics
from bandgap.inference.last_layer.noise_variance import NoisePrior
from bandgap.inference.last_layer.reduced_regression import ReducedRegression, reduce_regression
from bandgap.inference.last_layer.spectral_regression import (
    least_cross_validation,
    spectral_regression,
)
from bandgap.networks.hidden_layers import arrays_of
from bandgap.networks.perceptron import Params, hidden_features
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Diagnostics, Floats, LastLayerPosterior
from bandgap.posterior.protocol import thinned
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.method import TargetData

# "joint": predictions contain the source's error, given the target's rows.
Mode = Literal["joint", "delta"]
# Whether changes are from the source's output weights or from zero.
About = Literal["source", "target"]

# Relative to the median standard deviation; below it a feature counts as constant on the source.
LEAST_SD = 1e-3
LEAST_RIDGE = 1e-6  # of the mean sum of squares, where the source was trained without a penalty
LEAST_NOISE = 1e-3  # of the variance of Z, for the first estimate of its noise
WATCHED_ROWS = 20  # training rows whose predictions convergence is judged by


@dataclass(frozen=True, eq=False)
class LastLayerProblem:
    """The regression, and the map from its coefficients to output weights.

    Responses have unit variance.

    Attributes
    ----------
    standardiser
        Scales of features and gaps.
    hidden
        The source's hidden layers.
    weights, bias
        Output weights b (q,) and bias c of the source; zeros if changes are from zero.
    used
        Mask (q,) of the features that vary on the source's rows.
    has_change
        Mask (q_used,) of the features with a change.
    mean, sd
        Mean and standard deviation (q_used,) of the features on the source's rows.
    rows
        Features (n, q_used) of the training rows, centred and scaled as on the source.
    response
        Z / unit, (n,).
    unit
        Standard deviation of Z, in standardised gaps.
    covariance
        S1 (q_used, q_used) in units of the noise variance, None for a source without error.
    regression
        The reduced regression.
    source_rows
        Number of rows that the source was trained on.
    figures, warnings
        Figures and warnings of the set-up.
    """

    standardiser: Standardiser
    hidden: Params
    weights: Floats
    bias: float
    used: NDArray[np.bool_]
    has_change: NDArray[np.bool_]
    mean: Floats
    sd: Floats
    rows: Floats
    response: Floats
    unit: float
    covariance: Floats | None
    regression: ReducedRegression
    source_rows: int
    figures: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n_changes(self) -> int:
        """Number of features with a change delta."""
        return int(self.has_change.sum())

    def posterior(
        self,
        delta: Floats,
        sigma2: Floats,
        *,
        mode: Mode = "joint",
        seed: int,
        figures: dict[str, float],
        warnings: tuple[str, ...] = (),
        traces: Mapping[str, Floats] = MappingProxyType({}),
        prior_draws: Mapping[str, Floats] = MappingProxyType({}),
        kept_share: Floats | None = None,
    ) -> LastLayerPosterior:
        """Return the posterior of draws of the changes and of the noise variance.

        Parameters
        ----------
        delta
            Changes (chain, draw, n_changes).
        sigma2
            Noise variance (chain, draw).
        mode
            Whether predictions contain the source's error ("joint").
        seed
            Seed of the intercept and of the source's error.
        figures, warnings
            Figures and warnings of the sampler.
        traces
            Iterations (chain, draw) of the judged quantities, by name.
        prior_draws
            Prior draws (k,) of scales, by name.
        kept_share
            Share (chain, n_changes) of each change that the prior does not shrink.

        Returns
        -------
        LastLayerPosterior
            Draws of the output layer.
        """
        chains, n_draws = sigma2.shape
        noise = sigma2.reshape(-1)
        rng = np.random.default_rng([seed, 0x1A57])
        source = self.regression.source
        flat_delta = delta.reshape(noise.size, -1)
        change = np.zeros((noise.size, self.has_change.size))
        change[:, self.has_change] = flat_delta
        error = np.zeros_like(change) if source is None else source.draw(flat_delta, noise, rng)
        change_and_error = change + error
        # The intercept at the source's mean features.
        intercept = (
            self.regression.draw_intercept(noise, rng) - change_and_error @ self.regression.mean_row
        )
        moves = change_and_error if mode == "joint" else change
        output = np.tile(np.append(self.weights, self.bias), (noise.size, 1))
        output[:, :-1][:, self.used] += self.unit * moves / self.sd
        output[:, -1] += self.unit * (intercept - moves @ (self.mean / self.sd))
        return LastLayerPosterior(
            standardiser=self.standardiser,
            hidden=arrays_of(self.hidden),
            output=output.reshape(chains, n_draws, -1),
            sigma=self.unit * np.sqrt(sigma2),
            seed=seed,
            diagnostics=Diagnostics(
                self.figures | figures,
                self.warnings + warnings,
                self._record(delta, traces, kept_share)
                | {f"prior.{name}": values[None] for name, values in prior_draws.items()},
            ),
        )

    def _record(
        self, delta: Floats, traces: Mapping[str, Floats], kept_share: Floats | None
    ) -> dict[str, Floats]:
        """Return traces, and statistics of every feature (chain, q), NaN for one without a change.

        A change is that of the gap, in eV, for one standard deviation of the feature on the source.
        """
        columns = np.flatnonzero(self.used)[self.has_change]
        unit = self.unit * self.standardiser.y_sd_eV
        statistics = {
            "change_eV": unit * delta.mean(axis=1),
            "change_sd_eV": unit * delta.std(axis=1),
        }
        if kept_share is not None:
            statistics["kept_share"] = kept_share
        record = {
            f"trace.{name}": values[:, thinned(values.shape[1])] for name, values in traces.items()
        }
        for name, values in statistics.items():
            all_features = np.full((values.shape[0], self.used.size), np.nan)
            all_features[:, columns] = values
            record[f"features.{name}"] = all_features
        return record

    def without_changes(
        self, *, chains: int, draws: int, prior: NoisePrior, seed: int
    ) -> tuple[Floats, Floats]:
        """Return draws for a problem in which no feature has a change.

        They are delta (chain, draw, 0) and the noise variance (chain, draw).
        """
        rng = np.random.default_rng(seed)
        shape = prior.shape + 0.5 * self.regression.n
        rate = prior.scale + 0.5 * self.regression.square
        return np.zeros((chains, draws, 0)), rate / rng.standard_gamma(shape, size=(chains, draws))

    def judge_fit(self, delta: Floats) -> dict[str, float]:
        """Return R-hat and ESS of the change at some training rows, for draws of delta."""
        if delta.shape[0] < 2 or delta.shape[1] < 4 or not self.n_changes:
            return {}
        step = max(1, len(self.rows) // WATCHED_ROWS)
        fitted = delta @ self.rows[::step, self.has_change][:WATCHED_ROWS].T
        rhat = diagnostics.rhat(fitted)
        ess = diagnostics.ess_bulk(fitted)
        return {
            "rhat_fit_max": float(rhat.max()),
            "ess_fit_median": float(np.median(ess)),
            "ess_fit": float(ess.min()),
        }


def last_layer_problem(
    source: SourceModel,
    data: TargetData,
    *,
    statistics: StatisticsChoice,
    gap_scale: GapScale,
    about: About = "source",
    exact_source: bool = False,
    min_ss: float = 5.0,
) -> LastLayerProblem:
    """Set up the regression from the training rows (features (n, p), gaps in eV).

    Parameters
    ----------
    source
        Source model.
    data
        Training rows.
    statistics, gap_scale
        Settings of the scales (`recalibration`).
    about
        Whether changes are from the source's output weights or from zero.
    exact_source
        Whether the source's output weights count as exact, S1 = 0.
    min_ss
        Smallest sum of squares of a feature with a change.

    Returns
    -------
    LastLayerProblem
        The regression.
    """
    standardiser = standardiser_for(
        source, data.features, data.gaps_eV, statistics=statistics, gap_scale=gap_scale
    )
    hidden = hidden_layers(source.params)
    q = source.network.hidden[-1]
    h = features_at(hidden, standardiser, data.features)
    last = source.network.n_layers
    weights = np.zeros(q)
    bias = 0.0
    if about == "source":
        weights = source.params[f"weight.{last}"].double().numpy()[0]
        bias = float(source.params[f"bias.{last}"].double())
    z = standardiser.gaps(data.gaps_eV) - h @ weights - bias
    unit = float(z.std()) or 1.0
    if source.features is None:
        mean = h.mean(axis=0)
        sd = h.std(axis=0)
    else:
        mean = source.features.mean
        sd = source.features.sd
    used = sd > max(LEAST_SD * float(np.median(sd)), 1e-12)
    rows = (h[:, used] - mean[used]) / sd[used]
    response = z / unit
    has_change = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0) >= min_ss
    figures = {"n_dropped": float(q - has_change.sum())}
    exact = exact_source or about == "target" or source.features is None
    covariance = None if exact else source_covariance(source, used, sd[used])
    if covariance is not None and source.features is not None:
        first = (
            spectral_regression(reduce_regression(rows, response, has_change=has_change))
            if has_change.any()
            else None
        )
        noise = max(least_cross_validation(first).variance if first else 1.0, LEAST_NOISE) * unit**2
        ratio = source.features.residual_variance / noise
        covariance = covariance * (ratio if np.isfinite(ratio) else 1.0)
        figures["noise_ratio"] = float(ratio)
    return LastLayerProblem(
        standardiser=standardiser,
        hidden=hidden,
        weights=weights,
        bias=bias,
        used=used,
        has_change=has_change,
        mean=mean[used],
        sd=sd[used],
        rows=rows,
        response=response,
        unit=unit,
        covariance=covariance,
        regression=reduce_regression(
            rows, response, source_covariance=covariance, has_change=has_change
        ),
        source_rows=(
            max(source.card.n_structures, 1) if source.features is None else source.features.n
        ),
        figures=figures,
        warnings=_warnings(source, has_change, about=about, exact=exact_source),
    )


def features_at(hidden: Params, standardiser: Standardiser, x: NDArray[np.floating]) -> Floats:
    """Return the last hidden features (n, q) of raw features (n, p), as posteriors compute them."""
    with torch.no_grad():
        result: Floats = (
            hidden_features(hidden, torch.from_numpy(standardiser.features(x)).float())
            .double()
            .numpy()
        )
    return result


def source_covariance(source: SourceModel, used: NDArray[np.bool_], sd: Floats) -> Floats:
    """Return (H'H + R)^-1 of the features in `used` (q,).

    Its units are the features' standard deviations `sd` (q_used,).
    """
    assert source.features is not None
    scatter = source.features.scatter[np.ix_(used, used)]
    ridge = max(
        source.features.n * source.config.training.l2,
        LEAST_RIDGE * float(np.trace(scatter)) / sd.size,
    )
    inverse = np.linalg.inv(scatter / np.outer(sd, sd) + np.diag(ridge / sd**2))
    result: Floats = 0.5 * (inverse + inverse.T)
    return result


def converged(figures: dict[str, float]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Add the largest R-hat and the smallest ESS to figures, and return warnings about them."""
    rhat = {k.removeprefix("rhat_"): v for k, v in figures.items() if k.startswith("rhat_")}
    if not rhat:
        return figures, ()
    least = min(v for k, v in figures.items() if k.startswith("ess_"))
    warning = disagreement(rhat)
    figures = figures | {"rhat_max": rhat[worst_of(rhat)], "ess_min": least}
    return figures, () if warning is None else (warning,)


def _warnings(
    source: SourceModel, has_change: NDArray[np.bool_], *, about: About, exact: bool
) -> tuple[str, ...]:
    warnings = []
    if source.features is None and about == "source" and not exact:
        warnings.append(
            "This source was stored without the moments of its last hidden features: its output "
            "weights count as known exactly, so that intervals may be too narrow. Train the source "
            "again to add them."
        )
    if not has_change.any():
        warnings.append(
            "The training rows hardly move any hidden feature: no output weight was changed, only "
            "the level. Give more or more varied structures, or lower min_ss."
        )
    return tuple(warnings)

r"""What transfers of the output layer share: the regression of a target's change on the source's last hidden features.

Abba (2023), section 3.5: with the features h (q,) kept, Z = y - (h'b + c) with the source's output weights b and bias
c; changes delta are learned from Z, in units of the features' standard deviations on the source's rows. The source's
error is Cov(b) = s1^2 (H'H + R)^-1, H the source's centred features, s1^2 its residual variance, R = n1 l2 I its own
penalty. In units of the target's noise variance that is S1 = s1^2 / s2 (H'H + R)^-1 with s2 from a ridge regression of
Z (the thesis takes one variance for both).

A feature that is almost constant on the source's rows is left out: its source weight stays. One that the training rows
hardly move (a sum of squares below `min_ss`, a dead unit) has no change delta either: nothing but its prior would say
what it is, and a half-Cauchy scale has no mean. Its source error stays.
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
from bandgap.networks.perceptron import Params, hidden_features
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Diagnostics, Floats, LastLayerPosterior
from bandgap.posterior.protocol import thinned
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.method import TargetData

Mode = Literal[
    "joint", "delta"
]  # whether predictions hold the source's error, given what the target says of it
About = Literal[
    "source", "target"
]  # whether changes are from the source's output weights or from none

LEAST_SD = (
    1e-3  # of the median standard deviation, below which a feature is constant on the source's rows
)
LEAST_RIDGE = 1e-6  # of the mean sum of squares, where the source was trained without a penalty
LEAST_NOISE = 1e-3  # of the variance of Z, for the first estimate of its noise
WATCHED_ROWS = 20  # training rows whose predictions convergence is judged by


@dataclass(frozen=True, eq=False)
class LastLayerProblem:
    """The regression, and the way back from its coefficients to output weights.

    Rows are of the features in use (q_used,), centred and scaled as on the source; responses have unit variance.
    """

    standardiser: Standardiser
    hidden: Params
    weights: Floats  # b (q,), zeros about the target
    bias: float
    used: NDArray[np.bool_]  # (q,)
    kept: NDArray[np.bool_]  # (q_used,): features with a change
    mean: Floats  # (q_used,) of the source's features
    sd: Floats  # (q_used,)
    rows: Floats  # (n, q_used)
    response: Floats  # (n,), Z / unit
    unit: float  # standard deviation of Z, in standardised gaps
    covariance: Floats | None  # S1 (q_used, q_used) in units of the noise variance
    regression: ReducedRegression
    source_rows: int
    figures: dict[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def n_changes(self) -> int:
        """Number of features with a change delta."""
        return int(self.kept.sum())

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
        """Return the posterior of draws of delta (chain, draw, n_changes) and of the noise variance (chain, draw).

        `traces` (chain, draw) are the iterations of what is judged, by name; `prior_draws` (k,) draws of scales from
        their prior; `kept_share` (chain, n_changes) how much of each change the prior leaves.
        """
        chains, kept = sigma2.shape
        noise, rng = sigma2.reshape(-1), np.random.default_rng([seed, 0x1A57])
        source, r = self.regression.source, self.regression
        flat = delta.reshape(noise.size, -1)
        change = np.zeros((noise.size, self.kept.size))
        change[:, self.kept] = flat
        error = np.zeros_like(change) if source is None else source.draw(flat, noise, rng)
        both = change + error
        at_mean = (
            r.draw_intercept(noise, rng) - both @ r.mean_row
        )  # the intercept at the source's mean features
        moved = both if mode == "joint" else change
        output = np.tile(np.append(self.weights, self.bias), (noise.size, 1))
        output[:, :-1][:, self.used] += self.unit * moved / self.sd
        output[:, -1] += self.unit * (at_mean - moved @ (self.mean / self.sd))
        return LastLayerPosterior(
            standardiser=self.standardiser,
            hidden=self.hidden,
            output=output.reshape(chains, kept, -1),
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
        """Return what pages draw: traces, and what became of every feature (chain, q), NaN for one without a change.

        A change is told as that of the gap, in eV, when the feature moves by one standard deviation of the source.
        """
        places = np.flatnonzero(self.used)[self.kept]
        unit = self.unit * self.standardiser.y_sd_eV
        found = {"change_eV": unit * delta.mean(axis=1), "change_sd_eV": unit * delta.std(axis=1)}
        if kept_share is not None:
            found["kept_share"] = kept_share
        record = {
            f"trace.{name}": values[:, thinned(values.shape[1])] for name, values in traces.items()
        }
        for name, values in found.items():
            wide = np.full((values.shape[0], self.used.size), np.nan)
            wide[:, places] = values
            record[f"features.{name}"] = wide
        return record

    def without_changes(
        self, *, chains: int, draws: int, prior: NoisePrior, seed: int
    ) -> tuple[Floats, Floats]:
        """Return draws where no feature has a change: delta (chain, draw, 0) and the noise variance (chain, draw)."""
        rng, r = np.random.default_rng(seed), self.regression
        shape, rate = prior.shape + 0.5 * r.n, prior.scale + 0.5 * r.square
        return np.zeros((chains, draws, 0)), rate / rng.standard_gamma(shape, size=(chains, draws))

    def judge_fit(self, delta: Floats) -> dict[str, float]:
        """Return R-hat and effective draws of the change at some training rows, for draws (chain, draw, n_changes)."""
        if delta.shape[0] < 2 or delta.shape[1] < 4 or not self.n_changes:
            return {}
        every = max(1, len(self.rows) // WATCHED_ROWS)
        fitted = delta @ self.rows[::every, self.kept][:WATCHED_ROWS].T
        rhat, ess = diagnostics.rhat(fitted), diagnostics.ess_bulk(fitted)
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
    """Set the regression up from a target's training rows (features (n, p), gaps in eV); `exact_source` is S1 = 0."""
    standardiser = standardiser_for(
        source, data.features, data.gaps_eV, statistics=statistics, gap_scale=gap_scale
    )
    hidden, q = hidden_layers(source.params), source.network.hidden[-1]
    h = features_at(hidden, standardiser, data.features)
    last = source.network.n_layers
    weights, bias = np.zeros(q), 0.0
    if about == "source":
        weights = source.params[f"weight.{last}"].double().numpy()[0]
        bias = float(source.params[f"bias.{last}"].double())
    z = standardiser.gaps(data.gaps_eV) - h @ weights - bias
    unit = float(z.std()) or 1.0
    mean, sd = (
        (h.mean(axis=0), h.std(axis=0))
        if source.features is None
        else (source.features.mean, source.features.sd)
    )
    used = sd > max(LEAST_SD * float(np.median(sd)), 1e-12)
    rows, response = (h[:, used] - mean[used]) / sd[used], z / unit
    kept = ((rows - rows.mean(axis=0)) ** 2).sum(axis=0) >= min_ss
    figures = {"n_dropped": float(q - kept.sum())}
    exact = exact_source or about == "target" or source.features is None
    covariance = None if exact else source_covariance(source, used, sd[used])
    if covariance is not None and source.features is not None:
        first = (
            spectral_regression(reduce_regression(rows, response, has_change=kept))
            if kept.any()
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
        kept=kept,
        mean=mean[used],
        sd=sd[used],
        rows=rows,
        response=response,
        unit=unit,
        covariance=covariance,
        regression=reduce_regression(rows, response, source_covariance=covariance, has_change=kept),
        source_rows=source.features.n
        if source.features is not None
        else max(source.card.n_structures, 1),
        figures=figures,
        warnings=_warnings(source, kept, about=about, exact=exact_source),
    )


def features_at(hidden: Params, standardiser: Standardiser, x: NDArray[np.floating]) -> Floats:
    """Return the last hidden features (n, q) of raw features (n, p), to the bit what a posterior computes."""
    with torch.no_grad():
        result: Floats = (
            hidden_features(hidden, torch.from_numpy(standardiser.features(x)).float())
            .double()
            .numpy()
        )
    return result


def source_covariance(source: SourceModel, used: NDArray[np.bool_], sd: Floats) -> Floats:
    """Return (H'H + R)^-1 of the features in `used` (q,), in units of their standard deviations (q_used,)."""
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
    """Return the figures with the largest R-hat and fewest effective draws of all, and a warning if they are bad."""
    rhat = {k.removeprefix("rhat_"): v for k, v in figures.items() if k.startswith("rhat_")}
    if not rhat:
        return figures, ()
    least = min(v for k, v in figures.items() if k.startswith("ess_"))
    said = disagreement(rhat)
    return figures | {"rhat_max": rhat[worst_of(rhat)], "ess_min": least}, () if said is None else (
        said,
    )


def _warnings(
    source: SourceModel, kept: NDArray[np.bool_], *, about: About, exact: bool
) -> tuple[str, ...]:
    warnings = []
    if source.features is None and about == "source" and not exact:
        warnings.append(
            "This source was stored without the moments of its last hidden features: its output weights count as known "
            "exactly, so that intervals may be too narrow. Train the source again to add them."
        )
    if not kept.any():
        warnings.append(
            "The training rows hardly move any hidden feature: no output weight was changed, only the level. Give more "
            "or more varied structures, or lower min_ss."
        )
    return tuple(warnings)

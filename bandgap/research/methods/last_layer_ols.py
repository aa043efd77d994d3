"""Least squares of the output layer on the target alone, with the source's hidden features.

The comparison of Abba (2023), tables 3.4 to 3.6. It uses singular values; those below `rcond` of
the largest count as zero. There are n rows and r parameters, the intercept included, and
s^2 = RSS / (n - r). Draws are from the posterior under the flat prior,
sigma^2 = RSS / chi^2_(n - r) and normal weights given it, so that intervals are the classical ones:

    y +- t_(n - r) s sqrt(1 + 1 / n + x'(X'X)^+ x),   x centred like the rows

Where n <= r no degree of freedom remains for the noise, and no such interval exists. The weights
are then those of least norm. The noise is the leave-one-out error of each row,
e_i = [K^+ y]_i / [K^+]_ii with K = X X', and the result has a warning.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation import citations
from bandgap.foundation.config import Count, ProperShare
from bandgap.foundation.progress import Update
from bandgap.networks.hidden_layers import arrays_of
from bandgap.networks.perceptron import Params
from bandgap.posterior import Diagnostics, Floats, LastLayerPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.last_layer_problem import features_at
from bandgap.transfer.shared.method import Fitting, Method, Scales, TargetData

LEAST_SIGMA = 1e-6  # of the gaps' standard deviation


@dataclass(frozen=True)
class LastLayerOlsConfig(Scales):
    """Scales (`recalibration`), relative cut of singular values, and `chains` chains of draws."""

    rcond: ProperShare = 1e-10
    chains: Count = 4
    draws: Count = 500


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """A least-squares fit.

    Attributes
    ----------
    weights
        Weights (q,) of least norm.
    level
        Value at the mean row.
    mean_row
        Mean row (q,).
    spread
        V / singular values, (q, r).
    residual
        Sum of squares of the noise.
    degrees_of_freedom
        Rows minus parameters, at least 0.
    """

    weights: Floats
    level: float
    mean_row: Floats
    spread: Floats
    residual: float
    degrees_of_freedom: int


def fit(
    source: SourceModel, data: TargetData, config: LastLayerOlsConfig, fitting: Fitting
) -> LastLayerPosterior:
    """Fit the output layer to the training rows (features (n, p), gaps in eV), on the CPU."""
    fitting.progress(Update("preparing the transfer"))
    standardiser = standardiser_for(source, data.features, data.gaps_eV, **config.scales)
    hidden: Params = hidden_layers(source.params)
    y = standardiser.gaps(data.gaps_eV)
    h = features_at(hidden, standardiser, data.features)
    solution = least_squares(h, y, rcond=config.rcond)
    outputs = []
    sigmas = []
    for chain in range(config.chains):
        output, sigma = _draw(
            solution, n=y.size, size=config.draws, rng=np.random.default_rng([fitting.seed, chain])
        )
        outputs.append(output)
        sigmas.append(np.maximum(sigma, LEAST_SIGMA * float(y.std())))
        fitting.progress(Update("drawing output layers", chain + 1, config.chains))
    figures = {
        "rank": float(solution.spread.shape[1]),
        "rows_left": float(solution.degrees_of_freedom),
    }
    return LastLayerPosterior(
        standardiser=standardiser,
        hidden=arrays_of(hidden),
        output=np.stack(outputs),
        sigma=np.stack(sigmas),
        seed=fitting.seed,
        diagnostics=Diagnostics(
            figures,
            ()
            if solution.degrees_of_freedom
            else (_no_interval(y.size, solution.spread.shape[1]),),
        ),
    )


def least_squares(h: Floats, y: Floats, *, rcond: float) -> LeastSquares:
    """Solve for rows h (n, q) and responses y (n,) with a free intercept."""
    n = y.size
    mean_row = h.mean(axis=0)
    level = float(y.mean())
    u, values, vt = np.linalg.svd(h - mean_row, full_matrices=False)
    is_used = values > rcond * max(float(values.max(initial=0.0)), 1e-300)
    u = u[:, is_used]
    values = values[is_used]
    vt = vt[is_used]
    projected = u.T @ (y - level)
    degrees = max(n - 1 - int(is_used.sum()), 0)
    if degrees:
        residuals = y - level - u @ projected
    else:
        inverse_diagonal = np.maximum((u**2 / values**2).sum(axis=1), 1e-300)
        residuals = (u / values**2 @ projected) / inverse_diagonal
    return LeastSquares(
        weights=vt.T @ (projected / values),
        level=level,
        mean_row=mean_row,
        spread=vt.T / values,
        residual=float((residuals**2).sum()),
        degrees_of_freedom=degrees,
    )


def _draw(
    solution: LeastSquares, *, n: int, size: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the output layer (size, q + 1), the bias last, and sigma (size,)."""
    r = solution.spread.shape[1]
    if solution.degrees_of_freedom:
        sigma = np.sqrt(solution.residual / rng.chisquare(solution.degrees_of_freedom, size=size))
        weights = solution.weights + sigma[:, None] * (
            rng.standard_normal((size, r)) @ solution.spread.T
        )
        level = solution.level + sigma / np.sqrt(n) * rng.standard_normal(size)
    else:
        sigma = np.full(size, np.sqrt(solution.residual / n))
        weights = np.tile(solution.weights, (size, 1))
        level = np.full(size, solution.level)
    return np.column_stack([weights, level - weights @ solution.mean_row]), sigma


def _no_interval(n: int, rank: int) -> str:
    return (
        f"Least squares has as many parameters ({rank + 1}) as there are rows ({n}): no classical "
        "interval exists. The weights are those of least norm, the noise is the error of rows left "
        "out. Take last_layer_ridge instead."
    )


METHOD: Final = Method(
    name="last_layer_ols",
    family="output layer alone",
    standing="research",
    title="Least-squares output layer",
    summary="Keeps the source model's hidden layers and fits new output weights by least squares.",
    references=(citations.COMPARISON,),
    duration="a second",
    cost=Cost(0.1, 0.1),
    config=LastLayerOlsConfig,
    fit=fit,
)

r"""Least squares of the output layer on the target alone, the source giving its hidden features only.

The comparison of Abba (2023), tables 3.4 to 3.6. By singular values, those below `rcond` of the largest taken as zero;
with n rows and r parameters, the intercept among them, s^2 = RSS / (n - r). Draws are from the posterior under the flat
prior, sigma^2 = RSS / chi^2_(n - r) and weights normal given it, so that intervals are the classical ones:

    y +- t_(n - r) s sqrt(1 + 1 / n + x'(X'X)^+ x),   x centred like the rows

Where n <= r nothing is left to tell the noise, and no such interval exists: the weights of least norm are kept, and the
noise is the error of each row when it is left out, e_i = [K^+ y]_i / [K^+]_ii with K = X X', under a warning.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from bandgap.foundation.errors import ConfigError
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.networks.perceptron import Params
from bandgap.posterior import Diagnostics, Floats, LastLayerPosterior
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.cost import Cost
from bandgap.transfer.shared.last_layer_problem import features_at
from bandgap.transfer.shared.method import Method, Scales, TargetData

LEAST_SIGMA = 1e-6  # of the gaps' standard deviation


@dataclass(frozen=True)
class LastLayerOlsConfig(Scales):
    """Scales (`recalibration`), the least singular value relative to the largest, and the draws of `chains` chains."""

    rcond: float = 1e-10
    chains: int = 4
    draws: int = 500

    def __post_init__(self) -> None:
        if not 0 < self.rcond < 1 or min(self.chains, self.draws) < 1:
            raise ConfigError(
                f"last_layer_ols: rcond = {self.rcond}, {self.chains} chains of {self.draws} draws. Accepted: an rcond "
                "between 0 and 1, whole numbers from 1."
            )


@dataclass(frozen=True, eq=False)
class LeastSquares:
    """Weights (q,) of least norm, level at the mean row, V / singular values (q, r), and the noise's sum of squares."""

    weights: Floats
    level: float
    mean_row: Floats
    spread: Floats
    residual: float
    left: int  # rows that are left to tell the noise


def fit(
    source: SourceModel,
    data: TargetData,
    config: LastLayerOlsConfig,
    *,
    seed: int,
    device: str = "auto",
    progress: Progress = no_progress,
) -> LastLayerPosterior:
    """Fit the output layer to the target's training rows (features (n, p), gaps in eV); always on the CPU."""
    del device
    progress(Update("preparing the transfer"))
    standardiser = standardiser_for(source, data.features, data.gaps_eV, **config.scales)
    hidden: Params = hidden_layers(source.params)
    y = standardiser.gaps(data.gaps_eV)
    h = features_at(hidden, standardiser, data.features)
    found = least_squares(h, y, rcond=config.rcond)
    outputs, sigmas = [], []
    for chain in range(config.chains):
        output, sigma = _draw(
            found, n=y.size, size=config.draws, rng=np.random.default_rng([seed, chain])
        )
        outputs.append(output)
        sigmas.append(np.maximum(sigma, LEAST_SIGMA * float(y.std())))
        progress(Update("drawing output layers", chain + 1, config.chains))
    figures = {"rank": float(found.spread.shape[1]), "rows_left": float(found.left)}
    return LastLayerPosterior(
        standardiser=standardiser,
        hidden=hidden,
        output=np.stack(outputs),
        sigma=np.stack(sigmas),
        seed=seed,
        diagnostics=Diagnostics(
            figures, () if found.left else (_no_interval(y.size, found.spread.shape[1]),)
        ),
    )


def least_squares(h: Floats, y: Floats, *, rcond: float) -> LeastSquares:
    """Solve for rows h (n, q) and responses y (n,), the intercept free; see the module for what is left at n <= r."""
    n, mean_row, level = y.size, h.mean(axis=0), float(y.mean())
    u, values, vt = np.linalg.svd(h - mean_row, full_matrices=False)
    used = values > rcond * max(float(values.max(initial=0.0)), 1e-300)
    u, values, vt = u[:, used], values[used], vt[used]
    along = u.T @ (y - level)
    left = max(n - 1 - int(used.sum()), 0)
    if left:
        residual = float(((y - level - u @ along) ** 2).sum())
    else:
        alone = (u / values**2 @ along) / np.maximum((u**2 / values**2).sum(axis=1), 1e-300)
        residual = float((alone**2).sum())
    return LeastSquares(vt.T @ (along / values), level, mean_row, vt.T / values, residual, left)


def _draw(
    found: LeastSquares, *, n: int, size: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw the output layer (size, q + 1), the bias last, and sigma (size,)."""
    r = found.spread.shape[1]
    if found.left:
        sigma = np.sqrt(found.residual / rng.chisquare(found.left, size=size))
        weights = found.weights + sigma[:, None] * (rng.standard_normal((size, r)) @ found.spread.T)
        level = found.level + sigma / np.sqrt(n) * rng.standard_normal(size)
    else:
        sigma = np.full(size, np.sqrt(found.residual / n))
        weights, level = np.tile(found.weights, (size, 1)), np.full(size, found.level)
    return np.column_stack([weights, level - weights @ found.mean_row]), sigma


def _no_interval(n: int, rank: int) -> str:
    return (
        f"Least squares has as many parameters ({rank + 1}) as there are rows ({n}): no classical interval exists. The "
        "weights are those of least norm, the noise is the error of rows left out. Take last_layer_ridge instead."
    )


METHOD: Final = Method(
    name="last_layer_ols",
    family="output layer alone",
    standing="research",
    title="Least-squares output layer",
    summary="Keeps the source model's hidden layers and fits new output weights by least squares.",
    duration="a second",
    cost=Cost(0.1, 0.1),
    config=LastLayerOlsConfig,
    fit=fit,
)

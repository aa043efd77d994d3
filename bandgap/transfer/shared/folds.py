"""Folds of ensembles: starts at the source, and the choice of noise and settings by held-out rows.

Rows that choose a setting or the noise are left out of everything that is fitted: scales, basis and
probe of a fold come from the rows that it trains on.

The noise of a mixture is one standard deviation for all rows. With K networks of equal weight,

    p(y | x) = (1 / K) sum_k N(y; f_k(x), sigma^2);

sigma minimises the mean of -log p over the held-out rows (Lee and others 2024 have no noise: their
examples are classes). It is below the root mean square error, since the spread of the f_k accounts
for a part of the error.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from torch import Tensor

from bandgap.foundation.errors import InputError
from bandgap.inference.batch.kernels import Layers, outputs
from bandgap.inference.batch.rows import Coordinates, FirstLayer, first_layer
from bandgap.inference.last_layer.linear_probe import Probe, fit_probe
from bandgap.networks.perceptron import hidden_features, layers_of
from bandgap.networks.standardise import Standardiser
from bandgap.posterior import Floats
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.sources.statistics import hidden_layers
from bandgap.transfer.shared.method import TargetData

HeldOut = Literal["auto", "cv", "val"]
N_FOLDS = 5
HELD_OUT_SHARE = 0.1
CV_BELOW = 1000  # rows
# Bounds of sigma, relative to the larger of the rows' standard deviation and the networks' error,
# and size of the first grid.
SMALLEST_SIGMA = 1e-3
LARGEST_SIGMA = 10.0
GRID_SIZE = 33
LARGEST_NOISE = 3.0  # of a fit, in standard deviations of all gaps
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Start:
    """Source weights and n rows, with what the training rows among them determine.

    Attributes
    ----------
    standardiser
        Scales of features and gaps.
    trained
        Mask (n,) of the training rows.
    layer
        First layer of all n rows.
    hidden
        Last hidden features (n, q) at the source's weights.
    y
        Standardised gaps (n,).
    probe
        Linear probe of the training rows.
    fold
        Number of the cross-validation fold that is held out, -1 without cross-validation.
    """

    standardiser: Standardiser
    trained: NDArray[np.bool_]
    layer: FirstLayer
    hidden: Floats
    y: Floats
    probe: Probe
    fold: int

    @property
    def n_trained(self) -> int:
        """Number of training rows."""
        return int(self.trained.sum())

    def held_out_eV(self, weights: Layers) -> Floats:
        """Return predictions (S, held out) in eV for the held-out rows by S networks."""
        is_held_out = torch.from_numpy(~self.trained)
        rank = self.layer.inputs.shape[1]
        layers = [weights[0][:, :rank].double(), *[layer.double() for layer in weights[1:]]]
        values = outputs(self.layer.inputs[is_held_out], self.layer.base[is_held_out], layers)
        return self.standardiser.gaps_eV(values.numpy())


def held_out_masks(n: int, *, rule: HeldOut, seed: int) -> list[NDArray[np.bool_]]:
    """Return masks (n,) of the rows to train on.

    There is one mask for each of 5 folds ("cv"), or one with a tenth of the rows held out ("val").
    "auto" is "cv" below 1,000 rows: a tenth of 200 rows would leave sigma uncertain by a sixth. The
    rows of "val" are not used for training.
    """
    order = np.random.default_rng(np.random.SeedSequence([seed, 0x0F01D5])).permutation(n)
    if rule == "cv" or (rule == "auto" and n < CV_BELOW):
        parts = np.array_split(order, min(N_FOLDS, n))
    else:
        parts = [order[: max(1, round(HELD_OUT_SHARE * n))]]
    masks = [np.ones(n, dtype=np.bool_) for _ in parts]
    for mask, part in zip(masks, parts, strict=True):
        mask[part] = False
    return masks


def start_of(
    source: SourceModel,
    data: TargetData,
    *,
    trained: NDArray[np.bool_],
    fold: int = -1,
    statistics: StatisticsChoice,
    gap_scale: GapScale,
    coordinates: Coordinates,
) -> Start:
    """Fit scales, first layer and probe to the rows marked in `trained` (n,)."""
    standardiser = standardiser_for(
        source,
        data.features[trained],
        data.gaps_eV[trained],
        statistics=statistics,
        gap_scale=gap_scale,
    )
    x = standardiser.features(data.features)
    y = standardiser.gaps(data.gaps_eV)
    hidden = last_features(source, x)
    layer = first_layer(first_weights(source), x, trained=trained, coordinates=coordinates)
    return Start(
        standardiser, trained, layer, hidden, y, fit_probe(hidden[trained], y[trained]), fold
    )


def last_features(source: SourceModel, x: Floats) -> Floats:
    """Return the last hidden features (n, q) of standardised rows (n, p), in float64."""
    hidden = {name: value.double() for name, value in hidden_layers(source.params).items()}
    result: Floats = hidden_features(hidden, torch.from_numpy(x)).numpy()
    return result


def first_weights(source: SourceModel) -> Tensor:
    """Return theta_hat_1, (width, p + 1), with the bias in the last column."""
    return layers_of(source.params)[0]


def between_weights(source: SourceModel) -> Sequence[Tensor]:
    """Return the source's layers between the first and the last.

    Each has the shape (in + 1, out), with the bias in the last row.
    """
    return [layer.T.contiguous() for layer in layers_of(source.params)[1:-1]]


def row_nll(y: Floats, means: Floats, *, sigma: float) -> Floats:
    """Return -log p (n,) of y (n,) under the mixture with means (network, n)."""
    terms = -0.5 * ((y - means) / sigma) ** 2 - np.log(sigma) - 0.5 * _LOG_2PI
    result: Floats = np.log(means.shape[0]) - logsumexp(terms, axis=0)
    return result


def fit_sigma(y: Floats, means: Floats) -> float:
    """Return the sigma that minimises the mean -log p of y (n,) for means (network, n)."""
    unit = max(float(y.std()), float(np.sqrt(np.mean((y - means) ** 2))), 1e-9)

    def value(log_sigma: float) -> float:
        return float(row_nll(y, means, sigma=unit * float(np.exp(log_sigma))).mean())

    grid = np.linspace(np.log(SMALLEST_SIGMA), np.log(LARGEST_SIGMA), GRID_SIZE)
    best = int(np.argmin([value(log_sigma) for log_sigma in grid]))
    bounds = (grid[max(0, best - 1)], grid[min(GRID_SIZE - 1, best + 1)])
    minimum = minimize_scalar(value, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return unit * float(np.exp(minimum.x))


def check_noise(sigma_eV: float, start: Start) -> None:
    """Raise InputError where intervals of this noise would say nothing of the gaps."""
    if sigma_eV >= LARGEST_NOISE * start.y.std() * start.standardiser.y_sd_eV:
        raise InputError(
            f"The noise would be {sigma_eV:.3g} eV, {LARGEST_NOISE:g} standard deviations of the "
            "gaps or more: some labelled structures are unlike the others, or networks diverged. "
            "Take another seed, which holds out others together, a smaller learning_rate, or more "
            "labels."
        )


def choose(y: Floats, means: Floats, *, default: int) -> tuple[int, Floats, Floats]:
    """Choose a setting by held-out rows y (n,) and means (setting, network, n).

    Another setting than the default (an index) is chosen only if its gain, paired by row, exceeds
    its standard error.

    Returns
    -------
    tuple
        Index of the chosen setting; sigma, and mean -log p at it, of each setting.
    """
    sigmas = np.array([fit_sigma(y, network_means) for network_means in means])
    scores = np.stack(
        [
            row_nll(y, network_means, sigma=sigma)
            for network_means, sigma in zip(means, sigmas, strict=True)
        ]
    )
    best = int(np.argmin(scores.mean(1)))
    gain = scores[default] - scores[best]
    is_clear = y.size > 1 and gain.mean() > gain.std(ddof=1) / np.sqrt(y.size)
    return (best if is_clear else default), sigmas, scores.mean(1)

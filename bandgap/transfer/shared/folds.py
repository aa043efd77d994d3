r"""Where many networks start from one source, and what rows left out say of their noise and their settings.

Rows that choose a setting or the noise are left out of everything that is fitted: scales, basis and probe of a fold
come from the rows that it trains on.

The noise of a mixture is one standard deviation for all. With K networks of equal weight, p(y | x) = (1 / K) sum_k
N(y; f_k(x), sigma^2); sigma minimises the mean of -log p over the held-out rows (Lee and others 2024 have no noise:
their examples are classes). It is below the root mean square error, since the spread of the f_k accounts for part of
that.
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
N_FOLDS, SHARE, CV_BELOW = 5, 0.1, 1000
LEAST, MOST, GRID = (
    1e-3,
    10.0,
    33,
)  # of sigma, relative to the rows' standard deviation; places looked at first
_LOG_2PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Start:
    """Source weights, n rows of which some are trained on, and what these rows alone fitted."""

    standardiser: Standardiser
    trained: NDArray[np.bool_]  # (n,)
    layer: FirstLayer  # of all n rows
    hidden: Floats  # features of the last hidden layer at the source's weights, (n, q)
    y: Floats  # standardised gaps, (n,)
    probe: Probe
    fold: int  # number of the cross-validation fold that is left out, -1 where there is none

    @property
    def n_trained(self) -> int:
        return int(self.trained.sum())

    def held_out_eV(self, weights: Layers) -> Floats:
        """Return the gaps (S, held out) in eV of the rows left out, by networks with these weights."""
        held, rank = torch.from_numpy(~self.trained), self.layer.inputs.shape[1]
        wide = [weights[0][:, :rank].double(), *[layer.double() for layer in weights[1:]]]
        return self.standardiser.gaps_eV(
            outputs(self.layer.inputs[held], self.layer.base[held], wide).numpy()
        )


def held_out_masks(n: int, *, rule: HeldOut, seed: int) -> list[NDArray[np.bool_]]:
    """Return the rows to train on (n,) of each of 5 folds ("cv"), or of one hold-out of a tenth ("val").

    "auto" is "cv" below 1,000 rows: a tenth of 200 rows would leave sigma uncertain by a sixth. The rows of "val" are
    not given back to the training.
    """
    order = np.random.default_rng(np.random.SeedSequence([seed, 0x0F01D5])).permutation(n)
    if rule == "cv" or (rule == "auto" and n < CV_BELOW):
        parts = np.array_split(order, min(N_FOLDS, n))
    else:
        parts = [order[: max(1, round(SHARE * n))]]
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
    """Fit scales, first layer and probe to the rows marked in `trained` (n,) of the target's."""
    standardiser = standardiser_for(
        source,
        data.features[trained],
        data.gaps_eV[trained],
        statistics=statistics,
        gap_scale=gap_scale,
    )
    x, y = standardiser.features(data.features), standardiser.gaps(data.gaps_eV)
    hidden = last_features(source, x)
    layer = first_layer(first_weights(source), x, trained=trained, coordinates=coordinates)
    return Start(
        standardiser, trained, layer, hidden, y, fit_probe(hidden[trained], y[trained]), fold
    )


def last_features(source: SourceModel, x: Floats) -> Floats:
    """Return the last hidden features (n, q) of standardised rows (n, p) at the source's weights, in float64."""
    hidden = {name: value.double() for name, value in hidden_layers(source.params).items()}
    result: Floats = hidden_features(hidden, torch.from_numpy(x)).numpy()
    return result


def first_weights(source: SourceModel) -> Tensor:
    """Return theta_hat_1, (width, p + 1), the bias being the last column."""
    return layers_of(source.params)[0]


def between_weights(source: SourceModel) -> Sequence[Tensor]:
    """Return the source's layers between the first and the last, (in + 1, out) each, the bias being the last row."""
    return [layer.T.contiguous() for layer in layers_of(source.params)[1:-1]]


def row_nll(y: Floats, means: Floats, *, sigma: float) -> Floats:
    """Return -log p (n,) of y (n,) under the mixture with means (network, n)."""
    terms = -0.5 * ((y - means) / sigma) ** 2 - np.log(sigma) - 0.5 * _LOG_2PI
    result: Floats = np.log(means.shape[0]) - logsumexp(terms, axis=0)
    return result


def fit_sigma(y: Floats, means: Floats) -> float:
    """Return the sigma that minimises the mean -log p of rows y (n,) under the mixture with means (network, n)."""
    unit = max(float(y.std()), 1e-9)

    def value(log_sigma: float) -> float:
        return float(row_nll(y, means, sigma=unit * float(np.exp(log_sigma))).mean())

    places = np.linspace(np.log(LEAST), np.log(MOST), GRID)
    best = int(np.argmin([value(place) for place in places]))
    around = (places[max(0, best - 1)], places[min(GRID - 1, best + 1)])
    found = minimize_scalar(value, bounds=around, method="bounded", options={"xatol": 1e-6})
    return unit * float(np.exp(found.x))


def choose(y: Floats, means: Floats, *, default: int) -> tuple[int, Floats, Floats]:
    """Choose among settings by held-out rows: y (n,) and means (setting, network, n).

    Returns the index chosen, and each setting's sigma and mean -log p at it. The default (an index) is left only for a
    setting whose gain, paired by row, exceeds its standard error.
    """
    sigmas = np.array([fit_sigma(y, own) for own in means])
    scores = np.stack([row_nll(y, own, sigma=s) for own, s in zip(means, sigmas, strict=True)])
    best = int(np.argmin(scores.mean(1)))
    gain = scores[default] - scores[best]
    left = gain.mean() > gain.std(ddof=1) / np.sqrt(y.size) if y.size > 1 else False
    return (best if left else default), sigmas, scores.mean(1)

"""Where many networks start from one source: scales, first layer and linear probe of a set of training rows.

Rows that choose a setting or the noise are left out of everything that is fitted: scales, basis and probe of a fold
come from the rows that it trains on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.inference.batch.kernels import Layers, outputs
from bandgap.inference.batch.rows import Coordinates, FirstLayer, first_layer
from bandgap.inference.last_layer.linear_probe import Probe, fit_probe
from bandgap.networks.perceptron import hidden_features
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceModel
from bandgap.sources.recalibration import GapScale, StatisticsChoice, standardiser_for
from bandgap.transfer.shared.method import TargetData

HeldOut = Literal["auto", "cv", "val"]
N_FOLDS, SHARE, CV_BELOW = 5, 0.1, 1000

Floats = NDArray[np.float64]


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
        return self.standardiser.gaps_eV(outputs(self.layer.inputs[held], self.layer.base[held], wide).numpy())


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
        source, data.features[trained], data.gaps_eV[trained], statistics=statistics, gap_scale=gap_scale
    )
    x, y = standardiser.features(data.features), standardiser.gaps(data.gaps_eV)
    hidden = last_features(source, x)
    layer = first_layer(first_weights(source), x, trained=trained, coordinates=coordinates)
    return Start(standardiser, trained, layer, hidden, y, fit_probe(hidden[trained], y[trained]), fold)


def last_features(source: SourceModel, x: Floats) -> Floats:
    """Return the last hidden features (n, q) of standardised rows (n, p) at the source's weights, in float64."""
    last = source.network.n_layers
    hidden = {k: v.double() for k, v in source.params.items() if not k.endswith(f".{last}")}
    result: Floats = hidden_features(hidden, torch.from_numpy(x)).numpy()
    return result


def first_weights(source: SourceModel) -> Tensor:
    """Return theta_hat_1, (width, p + 1), the bias being the last column."""
    return torch.cat([source.params["weight.1"], source.params["bias.1"][:, None]], 1)


def between_weights(source: SourceModel) -> Sequence[Tensor]:
    """Return the source's layers between the first and the last, (in + 1, out) each, the bias being the last row."""
    return [
        torch.cat([source.params[f"weight.{i}"].T, source.params[f"bias.{i}"][None]], 0)
        for i in range(2, source.network.n_layers)
    ]

"""Evaluate a source network: outputs, first hidden features and derivatives by the first layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.networks.perceptron import Params, hidden_in_double, layer_of
from bandgap.networks.standardise import Standardiser
from bandgap.sources.extras import used_features
from bandgap.sources.model import SourceModel

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkView:
    """Values of a network with K outputs at n rows.

    Parameters
    ----------
    z
        Standardised inputs (n, p).
    f
        Outputs (n, K).
    first
        First hidden features (n, q).
    slopes
        df_k / d(pre-activation of the first layer), (K, n, q).
    """

    z: Floats
    f: Floats
    first: Floats
    slopes: Floats


@dataclass(frozen=True, eq=False)
class SourceNetwork:
    """A network of ReLU layers with K outputs, on the features that it uses.

    Parameters
    ----------
    params
        Weights.
    columns
        Columns (c,) of its features among those of the descriptor.
    scales
        Standardisation of these columns.
    """

    params: Params
    columns: NDArray[np.int64]
    scales: Standardiser

    @classmethod
    def of_heads(cls, models: Sequence[SourceModel], scales: Standardiser) -> Self:
        """Return the network with the outputs of `models`, which share all other layers.

        `scales` standardise the features of the descriptor.
        """
        params = dict(models[0].params)
        last = max(map(layer_of, params))
        for name in (f"weight.{last}", f"bias.{last}"):
            params[name] = torch.cat([model.params[name] for model in models])
        columns = np.flatnonzero(used_features(params)).astype(np.int64)
        params["weight.1"] = params["weight.1"][:, torch.from_numpy(columns)].contiguous()
        of_columns = replace(scales, x_mean=scales.x_mean[columns], x_scale=scales.x_scale[columns])
        return cls(params, columns, of_columns)

    def view(self, features: NDArray[np.floating[Any]]) -> NetworkView:
        """Return the values at raw features (n, p) of the descriptor."""
        z = self.scales.features(features[:, self.columns])
        n_layers = max(map(layer_of, self.params))
        hidden_params = {
            name: value for name, value in self.params.items() if layer_of(name) < n_layers
        }
        hidden = hidden_in_double(hidden_params, z)
        output, bias = (
            self.params[f"{name}.{n_layers}"].double().numpy() for name in ("weight", "bias")
        )
        slopes = output[:, None, :] * (hidden[-1] > 0)
        for layer in range(n_layers - 1, 1, -1):
            weight = self.params[f"weight.{layer}"].double().numpy()
            slopes = (slopes @ weight) * (hidden[layer - 2] > 0)
        return NetworkView(z, hidden[-1] @ output.T + bias, hidden[0], slopes)

"""Evaluate a source network: outputs, first hidden features and derivatives by the first layer."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from bandgap.networks.hidden_layers import Weights, arrays_of, hidden_in_double
from bandgap.networks.standardise import Standardiser

if TYPE_CHECKING:
    from bandgap.sources.model import SourceModel  # loads torch

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

    params: Weights
    columns: NDArray[np.int64]
    scales: Standardiser

    @classmethod
    def of_heads(cls, models: Sequence["SourceModel"], scales: Standardiser) -> Self:
        """Return the network with the outputs of `models`, which share all other layers.

        `scales` standardise the features of the descriptor.
        """
        params = arrays_of(models[0].params)
        last = len(params) // 2
        for name in (f"weight.{last}", f"bias.{last}"):
            params[name] = np.concatenate([model.params[name].numpy() for model in models])
        columns = np.flatnonzero(params["weight.1"].any(axis=0)).astype(np.int64)
        params["weight.1"] = params["weight.1"].take(columns, axis=1)
        of_columns = replace(scales, x_mean=scales.x_mean[columns], x_scale=scales.x_scale[columns])
        return cls(params, columns, of_columns)

    def view(self, features: NDArray[np.floating[Any]]) -> NetworkView:
        """Return the values at raw features (n, p) of the descriptor."""
        z = self.scales.features(features[:, self.columns])
        last = len(self.params) // 2
        hidden = hidden_in_double(self.params, z, n_layers=last - 1)
        output, bias = (
            self.params[f"{name}.{last}"].astype(np.float64) for name in ("weight", "bias")
        )
        slopes = output[:, None, :] * (hidden[-1] > 0)
        for layer in range(last - 1, 1, -1):
            weight = self.params[f"weight.{layer}"].astype(np.float64)
            slopes = (slopes @ weight) * (hidden[layer - 2] > 0)
        return NetworkView(z, hidden[-1] @ output.T + bias, hidden[0], slopes)

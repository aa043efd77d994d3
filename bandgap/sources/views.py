"""How a source network sees structures: its predictions, its first hidden features, its tangent in the first layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from bandgap.networks.perceptron import Params, hidden_in_double, layer_of
from bandgap.networks.standardise import Standardiser
from bandgap.sources.model import SourceModel
from bandgap.sources.parts import used_features

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkView:
    """A network of K outputs at n rows: its inputs z (n, p), outputs f (n, K), first hidden features (n, q).

    `slopes` (K, n, q) are df_k / d(pre-activation of the first layer).
    """

    z: Floats
    f: Floats
    first: Floats
    slopes: Floats


@dataclass(frozen=True, eq=False)
class SourceNetwork:
    """A network of ReLU layers with K outputs and the standardisation of its inputs, on the features that it uses.

    `columns` (c,) are their places among the descriptor's features; `scales` belongs to them.
    """

    params: Params
    columns: NDArray[np.int64]
    scales: Standardiser

    @classmethod
    def of_heads(cls, models: Sequence[SourceModel], scales: Standardiser) -> Self:
        """Return the network with the outputs of `models`, which share all other layers; features by `scales`."""
        params = dict(models[0].params)
        last = max(map(layer_of, params))
        for name in (f"weight.{last}", f"bias.{last}"):
            params[name] = torch.cat([model.params[name] for model in models])
        columns = np.flatnonzero(used_features(params)).astype(np.int64)
        params["weight.1"] = params["weight.1"][:, torch.from_numpy(columns)].contiguous()
        own = replace(scales, x_mean=scales.x_mean[columns], x_scale=scales.x_scale[columns])
        return cls(params, columns, own)

    def view(self, features: NDArray[np.floating[Any]]) -> NetworkView:
        """Evaluate at raw features (n, descriptor's features)."""
        z = self.scales.features(features[:, self.columns])
        n_layers = max(map(layer_of, self.params))
        h, hidden = torch.from_numpy(z).float(), []
        with torch.no_grad():
            for layer in range(1, n_layers):
                h = torch.relu(h @ self.params[f"weight.{layer}"].T + self.params[f"bias.{layer}"])
                hidden.append(h)
            output = self.params[f"weight.{n_layers}"]
            f = h @ output.T + self.params[f"bias.{n_layers}"]
            slopes = output[:, None, :] * (hidden[-1] > 0)
            for layer in range(n_layers - 1, 1, -1):
                slopes = (slopes @ self.params[f"weight.{layer}"]) * (hidden[layer - 2] > 0)
        return NetworkView(z, *(part.double().numpy() for part in (f, hidden[0], slopes)))

    def view_in_double(self, features: NDArray[np.floating[Any]]) -> NetworkView:
        """Evaluate as `view` to rounding, where a row stands in its block making no difference (`hidden_in_double`)."""
        z = self.scales.features(features[:, self.columns])
        n_layers = max(map(layer_of, self.params))
        own = {name: value for name, value in self.params.items() if layer_of(name) < n_layers}
        hidden = hidden_in_double(own, z)
        output, bias = (
            self.params[f"{name}.{n_layers}"].double().numpy() for name in ("weight", "bias")
        )
        slopes = output[:, None, :] * (hidden[-1] > 0)
        for layer in range(n_layers - 1, 1, -1):
            weight = self.params[f"weight.{layer}"].double().numpy()
            slopes = (slopes @ weight) * (hidden[layer - 2] > 0)
        return NetworkView(z, hidden[-1] @ output.T + bias, hidden[0], slopes)

    def to_arrays(self) -> dict[str, Tensor]:
        """Return everything but the scalars as named tensors."""
        arrays = {f"param.{name}": value.contiguous() for name, value in self.params.items()}
        return arrays | self.scales.to_arrays() | {"columns": torch.from_numpy(self.columns)}

    def scalars(self) -> dict[str, float]:
        """Return the scalars of the standardisation."""
        return self.scales.scalars()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Tensor], *, scalars: Mapping[str, Any]) -> Self:
        """Build a network from `to_arrays` and `scalars`."""
        params = {k.removeprefix("param."): v for k, v in arrays.items() if k.startswith("param.")}
        return cls(
            params, arrays["columns"].numpy(), Standardiser.from_arrays(arrays, scalars=scalars)
        )

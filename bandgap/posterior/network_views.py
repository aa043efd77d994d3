"""How a source network sees structures: its prediction, its first and last hidden features, its tangent."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from bandgap.networks import Params, layer_of

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class NetworkView:
    """A network at n rows: f (n,), its last (n, q) and first (n, q1) hidden features, df / d(first pre-activation)."""

    f: Floats
    last: Floats
    first: Floats
    slopes: Floats  # (n, q1)


def view(params: Params, x: Floats) -> NetworkView:
    """Evaluate a network of ReLU layers with one output at standardised rows x (n, p)."""
    n_layers = max(map(layer_of, params))
    h, hidden = torch.from_numpy(x).float(), []
    with torch.no_grad():
        for layer in range(1, n_layers):
            h = torch.relu(h @ params[f"weight.{layer}"].T + params[f"bias.{layer}"])
            hidden.append(h)
        output = params[f"weight.{n_layers}"]
        f = (h @ output.T + params[f"bias.{n_layers}"])[:, 0]
        slopes = output * (hidden[-1] > 0)
        for layer in range(n_layers - 1, 1, -1):
            slopes = (slopes @ params[f"weight.{layer}"]) * (hidden[layer - 2] > 0)
    return NetworkView(*(part.double().numpy() for part in (f, hidden[-1], hidden[0], slopes)))

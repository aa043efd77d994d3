"""The hidden layers of a perceptron by NumPy. Loads no torch, which takes over a second."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Weights = dict[str, NDArray[np.floating[Any]]]  # named as in `perceptron`


def hidden_in_double(
    params: Mapping[str, ArrayLike], x: NDArray[np.float64], *, n_layers: int | None = None
) -> list[NDArray[np.float64]]:
    """Return the first hidden layers, (n, q) each, in double precision, so that a row depends on
    the others by much less than 1e-6.

    Without a number of layers, all layers of `params` are hidden ones.
    """
    n_layers = len(params) // 2 if n_layers is None else n_layers
    hidden = []
    h = x
    for layer in range(1, n_layers + 1):
        weight, bias = (
            np.asarray(params[f"{name}.{layer}"], dtype=np.float64) for name in ("weight", "bias")
        )
        h = np.maximum(h @ weight.T + bias, 0.0)
        hidden.append(h)
    return hidden


def arrays_of(params: Mapping[str, Any]) -> Weights:
    """Return the arrays of tensors, which share their memory."""
    return {name: tensor.numpy() for name, tensor in params.items()}

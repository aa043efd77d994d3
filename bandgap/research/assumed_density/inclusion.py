"""Inclusion probability of a weight: both units that it connects are not zero.

In SSPBP ("Probabilistic neural networks", thesis 2022, chapter 3) a unit's message has an atom at
zero; the weights have none. A weight from unit j to unit i has no effect where j is zero, and its
effect is not passed on where i is. At one row it is included with probability rho_j rho_i, because
units are independent in the messages. Inputs, biases and the output are never zero. The inclusion
probability of a weight is the mean over rows.
"""

from collections.abc import Sequence

import numpy as np

from bandgap.research.assumed_density.belief import Floats, Weights
from bandgap.research.assumed_density.moments import hidden_units, layer_moments


def units_on(weights: Weights, x: Floats) -> list[Floats]:
    """Return the probability (n, unit) that a unit is not zero, for every hidden layer.

    `x` (n, p) are standardised rows.
    """
    hidden = layer_moments(weights, x, atoms=True)[:-1]
    return [(1.0 - hidden_units(moments).off).numpy() for moments in hidden]


def weight_inclusion(weights: Weights, on: Sequence[Floats]) -> list[Floats]:
    """Return the inclusion probability (out, c) of every weight.

    `on` are the probabilities (n, unit) of the hidden layers, as `units_on` returns them.
    """
    n = len(on[0])
    inclusion = []
    for layer in range(len(weights.means)):
        above = on[layer] if layer < len(on) else np.ones((n, 1))
        inputs = [on[layer - 1]] if layer else [np.ones((n, weights.n_inputs))]
        below = np.hstack([*inputs, np.ones((n, 1))] if weights.biased else inputs)
        inclusion.append(above.T @ below / n)
    return inclusion

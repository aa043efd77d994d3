r"""How often a weight takes part in a prediction: the probability that both of the units that it joins are not zero.

In SSPBP ("Probabilistic neural networks", thesis 2022, chapter 3) a unit's message has an atom at zero; the weights
themselves have none. A weight from unit j to unit i does nothing where j is off, and is not seen where i is: at a row
it takes part with probability rho_j rho_i, units being independent as in the messages. Inputs, biases and the output
are always on. Averaged over rows this is the weight's inclusion probability.
"""

from collections.abc import Sequence

import numpy as np

from bandgap.inference.assumed_density.belief import Floats, Weights
from bandgap.inference.assumed_density.moments import hidden_units, layer_moments


def units_on(weights: Weights, x: Floats) -> list[Floats]:
    """Return the probability that a unit is not zero, (n, unit) for every hidden layer, at standardised rows (n, p)."""
    return [1.0 - hidden_units(found).off for found in layer_moments(weights, x, atoms=True)[:-1]]


def weight_inclusion(weights: Weights, on: Sequence[Floats]) -> list[Floats]:
    """Return the inclusion probability (out, c) of every weight, given that of the hidden units at rows (n, unit)."""
    n = len(on[0])
    found = []
    for level in range(len(weights.means)):
        above = on[level] if level < len(on) else np.ones((n, 1))
        inputs = [on[level - 1]] if level else [np.ones((n, weights.n_inputs))]
        below = np.hstack([*inputs, np.ones((n, 1))] if weights.biased else inputs)
        found.append(above.T @ below / n)
    return found

"""The arrays that the compiled loops of `row_kernels` read and write."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.assumed_density.belief import Belief, Floats, Weights, flattened


class Messages(NamedTuple):
    """Messages of every layer and row, (layer, row, unit) each.

    Inputs of a layer (zm, zv, and `off`, the probability that a unit is zero), its outputs (am,
    av), and gradients by the outputs. `share` and its gradient are (layer, row).
    """

    zm: Floats
    zv: Floats
    off: Floats
    am: Floats
    av: Floats
    share: Floats
    g_am: Floats
    g_av: Floats
    g_share: Floats


class Network(NamedTuple):
    """Means and variances (weight,) of all weights, and out and c of every layer (layer, 2).

    With an averaged factor, `posterior` and `factor` (2, weight) are precision and shift of the
    posterior and of that factor, and m and v are those of the posterior without the factor. They
    are empty otherwise.
    """

    m: Floats
    v: Floats
    posterior: Floats
    factor: Floats
    sizes: NDArray[np.int64]
    biased: bool
    atoms: bool


def network_arrays(weights: Weights, *, atoms: bool, belief: Belief | None = None) -> Network:
    """Return copies of the weights, and of the averaged factor of a belief that has one."""
    m = flattened(weights.means)
    v = flattened(weights.variances)
    posterior = np.zeros((2, 0))
    factor = np.zeros((2, 0))
    if belief is not None and belief.likelihood is not None:
        posterior = np.stack([1.0 / v, m / v])
        factor = np.stack([belief.likelihood.precision, belief.likelihood.shift])
    sizes = np.array([mean.shape for mean in weights.means], dtype=np.int64)
    return Network(m, v, posterior, factor, sizes, weights.biased, atoms)


def message_arrays(weights: Weights, rows: int) -> Messages:
    """Return arrays for the messages of this number of rows."""
    layers = len(weights.means)
    widest = max(mean.shape[1] for mean in weights.means)
    units = max(widest, *(mean.shape[0] for mean in weights.means))
    zm, zv, off, am, av, g_am, g_av = (np.zeros((layers, rows, units)) for _ in range(7))
    return Messages(
        zm, zv, off, am, av, np.ones((layers, rows)), g_am, g_av, np.zeros((layers, rows))
    )

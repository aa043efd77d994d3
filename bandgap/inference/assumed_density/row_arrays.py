"""The arrays that the compiled loops of `row_kernels` read and write."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bandgap.inference.assumed_density.belief import Belief, Floats, Weights, flattened


class Messages(NamedTuple):
    """Of every layer and row: inputs (zm, zv, off) and what is behind (am, av, share), with gradients by the latter.

    (layer, row, unit) each, share and its gradient (layer, row). `off` is the probability that a unit is zero.
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

    The posterior's precision and shift (2, weight) and those of the averaged factor of a row are empty where rows are
    counted again in every pass; else m and v are what is left when the factor is taken out.
    """

    m: Floats
    v: Floats
    whole: Floats
    factor: Floats
    sizes: NDArray[np.int64]
    biased: bool
    atoms: bool


def network_arrays(weights: Weights, *, atoms: bool, belief: Belief | None = None) -> Network:
    """Return copies of the weights, and of the averaged factor of a belief that has one."""
    m, v = flattened(weights.means), flattened(weights.variances)
    whole = factor = np.zeros((2, 0))
    if belief is not None and belief.likelihood is not None:
        whole = np.stack([1.0 / v, m / v])
        factor = np.stack([belief.likelihood.precision, belief.likelihood.shift])
    sizes = np.array([mean.shape for mean in weights.means], dtype=np.int64)
    return Network(m, v, whole, factor, sizes, weights.biased, atoms)


def message_arrays(weights: Weights, rows: int) -> Messages:
    """Return arrays for the messages of so many rows at once."""
    layers, widest = len(weights.means), max(mean.shape[1] for mean in weights.means)
    units = max(widest, *(mean.shape[0] for mean in weights.means))
    wide = [np.zeros((layers, rows, units)) for _ in range(7)]
    zm, zv, off, am, av, g_am, g_av = wide
    return Messages(
        zm, zv, off, am, av, np.ones((layers, rows)), g_am, g_av, np.zeros((layers, rows))
    )

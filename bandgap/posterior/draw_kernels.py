"""Outputs of one draw of a network for many structures, by compiled loops over nonzero features.

Most features of a structure are zero. Let x_0 be the standardised features of a structure in which
all raw features are zero, and x = x_0 + d. The first layer of a draw is then

    W x + b = (W x_0 + b) + sum over the nonzero d_j of d_j W_j

W_j is column j of W. The first term is computed once a draw. The sums of a structure run over its
own features in their order, so its outputs do not depend on the structures predicted with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from bandgap.foundation.machine import compiled

# Standard deviations. A feature whose zero is farther from its mean counts as nonzero in every
# structure: differences from so distant a zero would cost digits of the float32 sums.
MAX_DISTANCE_OF_ZERO = 3.0

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Standardised features of n structures as differences from `base`, zeros left out.

    Row i has the features `features[starts[i] : starts[i + 1]]`, with the differences at the same
    places of `values`.
    """

    base: Floats  # (p,)
    starts: Integers  # (n + 1,)
    features: Integers
    values: Singles

    @property
    def n(self) -> int:
        """Number of structures."""
        return self.starts.size - 1

    def used_features(self) -> NDArray[np.bool_]:
        """Return which features are nonzero in any row, (p,)."""
        is_used = np.zeros(self.base.size, dtype=bool)
        is_used[self.features] = True
        return is_used


@dataclass(frozen=True, eq=False)
class DrawnLayers:
    """The layers of one draw, as `evaluate` uses them."""

    first: Singles  # (stored feature, width): weights of the first layer
    constant: Singles  # (width,): output of the first layer where all features equal the base
    upper: tuple[Singles, ...]  # (input + 1, width) each, the bias last

    @property
    def n_bytes(self) -> int:
        """Memory of all arrays in bytes."""
        return sum(array.nbytes for array in (self.first, self.constant, *self.upper))


def sparse_rows(x: Floats, zero: Floats) -> SparseRows:
    """Return standardised features as differences from those of a structure without any feature.

    Parameters
    ----------
    x
        Standardised features, (n, p).
    zero
        Standardised values of raw features that are all zero, (p,).
    """
    base = np.where(np.abs(zero) > MAX_DISTANCE_OF_ZERO, 0.0, zero)
    rows = csr_array((x - base).astype(np.float32))
    return SparseRows(base, rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data)


def drawn_layers(
    first: Singles, upper: Sequence[Singles], *, base: Floats, is_stored: NDArray[np.bool_]
) -> DrawnLayers:
    """Return the layers of a draw in the form that `evaluate` uses.

    Parameters
    ----------
    first
        Weights of the first layer, (width, p + 1), the bias last.
    upper
        Weights of each layer above, (width, inputs + 1), the bias last.
    base
        Features from which the rows are differences, (p,).
    is_stored
        Which features' weights are stored, (p,).
    """
    constant = first.astype(np.float64) @ np.append(base, 1.0)
    return DrawnLayers(
        first=np.ascontiguousarray(first[:, :-1].T[is_stored]),
        constant=constant.astype(np.float32),
        upper=tuple(np.ascontiguousarray(weights.T) for weights in upper),
    )


def evaluate(layers: DrawnLayers, rows: SparseRows, *, positions: Integers) -> Singles:
    """Return the outputs (n,) of one draw of the network, in standardised units.

    `positions` are the positions of `rows.features` among the stored features of the layers.
    """
    sums = np.empty((rows.n, layers.constant.size), dtype=np.float32)
    _write_first_layer(layers.first, layers.constant, rows.starts, positions, rows.values, sums)
    for weights in layers.upper:
        inputs = sums
        sums = np.empty((rows.n, weights.shape[1]), dtype=np.float32)
        _write_next_layer(inputs, weights, sums)
    return sums[:, 0]


@compiled
def _write_first_layer(
    weights: Singles, constant: Singles, starts: Integers, positions: Integers, values: Singles,
    sums: Singles,
) -> None:  # fmt: skip
    """Write the first layer's output before its activation, (n, width), to `sums`."""
    for row in range(sums.shape[0]):
        start = starts[row]
        end = starts[row + 1]
        sums[row] = constant
        _add_products(weights, positions[start:end], values[start:end], sums[row])


@compiled
def _write_next_layer(inputs: Singles, weights: Singles, sums: Singles) -> None:
    """Write weights applied to ReLU(inputs), inputs (n, m), weights (m + 1, width), to `sums`."""
    m = inputs.shape[1]
    units = np.empty(m, dtype=np.int64)
    values = np.empty(m, dtype=np.float32)
    for row in range(sums.shape[0]):
        # Collect the active units without a branch, which the processor would mispredict half the
        # time. NaN stays active.
        n_active = 0
        for unit in range(m):
            units[n_active] = unit
            values[n_active] = inputs[row, unit]
            n_active += not inputs[row, unit] <= 0.0
        sums[row] = weights[m]
        _add_products(weights, units[:n_active], values[:n_active], sums[row])


@compiled
def _add_products(weights: Singles, rows: Integers, values: Singles, sums: Singles) -> None:
    """Add sum_k values[k] weights[rows[k]] to `sums` (width,), four products at a time."""
    n_by_four = values.size - values.size % 4
    for k in range(0, n_by_four, 4):
        w0 = weights[rows[k]]
        w1 = weights[rows[k + 1]]
        w2 = weights[rows[k + 2]]
        w3 = weights[rows[k + 3]]
        x0 = values[k]
        x1 = values[k + 1]
        x2 = values[k + 2]
        x3 = values[k + 3]
        for unit in range(sums.size):
            sums[unit] += x0 * w0[unit] + x1 * w1[unit] + x2 * w2[unit] + x3 * w3[unit]
    for k in range(n_by_four, values.size):
        w0 = weights[rows[k]]
        x0 = values[k]
        for unit in range(sums.size):
            sums[unit] += x0 * w0[unit]

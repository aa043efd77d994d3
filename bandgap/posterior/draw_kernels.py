"""What one draw of a network says of structures, by compiled loops over features that are mostly zero.

A structure has a tenth of the features that its descriptor can hold. With x = x_0 + d, x_0 the features of a structure
that has none, the first layer is W x_0, once for every draw, and the sum over the features where d is not zero.
Features are taken by fours that lie beside each other, and structures by fours that have nearly the same of them, so
that a weight that is loaded serves sixteen products.

What a structure gets does not depend on the others: its sums run over its fours of features in their order, and a four
that only another structure has adds exact zeros. So one, a thousand or several processes give the same to the last bit.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.machine import compiled

FAR_ZERO = 3.0  # standard deviations: a feature whose zero is farther from its mean counts as there in every structure
FOUR = 4
TOGETHER = 9  # fours of features: 36, the grid of a pair of elements in the presets

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FoursOfRows:
    """Rows of differences from `base` (p,), four together: `order` (n,) are the rows in the order of the fours.

    Four k has the fours of features `blocks[starts[k] : starts[k + 1]]` and there the `values` (row, feature).
    """

    base: Floats
    n_blocks: int
    order: Places  # (n,)
    starts: Places  # (ceil(n / 4) + 1,)
    blocks: Places
    values: Singles  # (block, 4, 4)

    def present(self) -> NDArray[np.bool_]:
        """Return which blocks any row has, (n_blocks,), in wide groups, so that other rows have them already."""
        groups = np.zeros(-(-self.n_blocks // TOGETHER), dtype=bool)
        groups[self.blocks // TOGETHER] = True
        return np.repeat(groups, TOGETHER)[: self.n_blocks]


@dataclass(frozen=True, eq=False)
class DrawnLayers:
    """The layers of one draw: the first with what it gives where features are `base`, and those above it in a row.

    Every layer above has its weights (inputs, width), inputs filled up to fours with zeros, and behind them the bias.
    """

    first: Singles  # (4 blocks that are there, width)
    constant: Singles  # (width,)
    upper: Singles
    widths: Places  # of all layers


def fours_of_rows(x: Floats, zero: Floats) -> FoursOfRows:
    """Return standardised features (n, p) as differences from `zero` (p,), what a feature that is not there is."""
    n, p = x.shape
    base = np.where(np.abs(zero) > FAR_ZERO, 0.0, zero)
    padded = np.zeros((n, _filled(p)), dtype=np.float32)
    padded[:, :p] = x - base
    different = padded.reshape(n, _filled(p) // FOUR, FOUR)
    there: NDArray[np.bool_] = np.any(different != 0, axis=2)
    order = np.lexsort(np.packbits(there, axis=1).T[::-1]) if there.size else np.arange(n)
    starts, blocks, values = _gathered(different, there, order)
    return FoursOfRows(base, there.shape[1], order.astype(np.int64), starts, blocks, values)


def drawn_layers(first: Singles, upper: Sequence[Singles], *, base: Floats, blocks: NDArray[np.bool_]) -> DrawnLayers:
    """Return the layers of a draw from their weights (width, inputs + 1), the bias last; of the first, some blocks."""
    p = base.size
    there = np.flatnonzero(np.repeat(blocks, FOUR))
    own = there[there < p]
    weights = np.zeros((there.size, first.shape[0]), dtype=np.float32)
    weights[: own.size] = first[:, own].T
    constant = first.astype(np.float64) @ np.append(base, 1.0)
    rows = []
    for layer in upper:
        width, inputs = layer.shape[0], layer.shape[1] - 1
        above = np.zeros((_filled(inputs) + 1, width), dtype=np.float32)
        above[:inputs], above[-1] = layer[:, :-1].T, layer[:, -1]
        rows.append(above.ravel())
    widths = np.array([first.shape[0], *(layer.shape[0] for layer in upper)], dtype=np.int64)
    flat = np.concatenate([np.zeros(0, dtype=np.float32), *rows])
    return DrawnLayers(weights, constant.astype(np.float32), flat, widths)


def evaluate(layers: DrawnLayers, rows: FoursOfRows, *, blocks: Places) -> Floats:
    """Return the network's output (n,) of one draw; `blocks` are the rows' blocks by their place in the layers."""
    out = np.empty(FOUR * (rows.starts.size - 1), dtype=np.float32)
    _evaluate(
        layers.first, layers.constant, layers.upper, layers.widths, rows.starts, blocks, rows.values, out
    )  # fmt: skip
    values = np.empty(rows.order.size)
    values[rows.order] = out[: rows.order.size]
    return values


def _filled(inputs: int) -> int:
    return FOUR * -(-inputs // FOUR)


@compiled
def _gathered(different: Singles, there: NDArray[np.bool_], order: Places) -> tuple[Places, Places, Singles]:
    """Return starts, blocks and values of fours of rows (n, block, 4), taken in an order."""
    n, n_blocks = there.shape
    fours = (n + 3) // 4
    starts = np.zeros(fours + 1, dtype=np.int64)
    for k in range(fours):
        count = 0
        for b in range(n_blocks):
            some = False
            for s in range(4 * k, min(4 * k + 4, n)):
                some = some or there[order[s], b]
            count += some
        starts[k + 1] = starts[k] + count
    blocks = np.empty(starts[fours], dtype=np.int64)
    values = np.zeros((starts[fours], 4, 4), dtype=np.float32)
    for k in range(fours):
        at = starts[k]
        for b in range(n_blocks):
            some = False
            for s in range(4 * k, min(4 * k + 4, n)):
                some = some or there[order[s], b]
            if some:
                blocks[at] = b
                for s in range(4 * k, min(4 * k + 4, n)):
                    for c in range(4):
                        values[at, s - 4 * k, c] = different[order[s], b, c]
                at += 1
    return starts, blocks, values


@compiled
def _add_product(weights: Singles, block: int, v: Singles, out: Singles) -> None:
    """Add the products of four rows `v` (4, 4) with four rows of weights to `out` (4, width)."""
    w0, w1, w2, w3 = weights[4 * block], weights[4 * block + 1], weights[4 * block + 2], weights[4 * block + 3]
    o0, o1, o2, o3 = out[0], out[1], out[2], out[3]
    a0, a1, a2, a3 = v[0, 0], v[0, 1], v[0, 2], v[0, 3]
    b0, b1, b2, b3 = v[1, 0], v[1, 1], v[1, 2], v[1, 3]
    c0, c1, c2, c3 = v[2, 0], v[2, 1], v[2, 2], v[2, 3]
    d0, d1, d2, d3 = v[3, 0], v[3, 1], v[3, 2], v[3, 3]
    for u in range(out.shape[1]):
        x, y, z, t = w0[u], w1[u], w2[u], w3[u]
        o0[u] += (a0 * x + a1 * y) + (a2 * z + a3 * t)
        o1[u] += (b0 * x + b1 * y) + (b2 * z + b3 * t)
        o2[u] += (c0 * x + c1 * y) + (c2 * z + c3 * t)
        o3[u] += (d0 * x + d1 * y) + (d2 * z + d3 * t)


@compiled
def _evaluate(
    first: Singles, constant: Singles, upper: Singles, widths: Places, starts: Places, blocks: Places,
    values: Singles, out: Singles,
) -> None:  # fmt: skip
    """Write the outputs of all fours of rows to `out` (4 fours,)."""
    n_layers = widths.size
    widest = widths.max() + 4
    here, there = np.empty(4 * widest, dtype=np.float32), np.empty(4 * widest, dtype=np.float32)
    v = np.empty((4, 4), dtype=np.float32)
    for k in range(starts.size - 1):
        width = widths[0]
        h = here[: 4 * width].reshape(4, width)
        for s in range(4):
            for u in range(width):
                h[s, u] = constant[u]
        for at in range(starts[k], starts[k + 1]):
            _add_product(first, blocks[at], values[at], h)
        offset = 0
        for layer in range(1, n_layers):
            inputs, width = widths[layer - 1], widths[layer]
            filled = (inputs + 3) // 4
            weights = upper[offset : offset + (4 * filled + 1) * width].reshape(4 * filled + 1, width)
            offset += weights.size
            g = there[: 4 * width].reshape(4, width)
            for s in range(4):
                for u in range(width):
                    g[s, u] = weights[4 * filled, u]
            for b in range(filled):
                for s in range(4):
                    for c in range(4):
                        v[s, c] = max(h[s, 4 * b + c], np.float32(0.0)) if 4 * b + c < inputs else np.float32(0.0)
                _add_product(weights, b, v, g)
            here, there = there, here
            h = g
        for s in range(4):
            out[4 * k + s] = h[s, 0]

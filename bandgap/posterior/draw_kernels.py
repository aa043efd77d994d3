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
from bandgap.posterior.draw_tiles import UNITS, narrow_tile, wide_tile

FAR_ZERO = 3.0  # standard deviations: a feature whose zero is farther from its mean counts as there in every structure
FOUR = 4
TOGETHER = 4  # fours of features: about half of the grid of a pair of elements in the presets

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

    Every layer above has its weights (inputs, width), and behind them the bias. Widths are filled up to `UNITS`.
    """

    first: Singles  # (4 blocks that are there, width)
    constant: Singles  # (width,)
    upper: Singles
    widths: Places  # of all layers

    @property
    def n_bytes(self) -> int:
        return self.first.nbytes + self.constant.nbytes + self.upper.nbytes + self.widths.nbytes


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
    weights = np.zeros((there.size, _filled(first.shape[0], UNITS)), dtype=np.float32)
    weights[: own.size, : first.shape[0]] = first[:, own].T
    constant = np.zeros(weights.shape[1], dtype=np.float32)
    constant[: first.shape[0]] = first.astype(np.float64) @ np.append(base, 1.0)
    rows, widths = [np.zeros(0, dtype=np.float32)], [weights.shape[1]]
    for layer in upper:
        width, inputs = layer.shape[0], layer.shape[1] - 1
        above = np.zeros((widths[-1] + 1, _filled(width, UNITS)), dtype=np.float32)
        above[:inputs, :width], above[-1, :width] = layer[:, :-1].T, layer[:, -1]
        rows.append(above.ravel())
        widths.append(above.shape[1])
    return DrawnLayers(weights, constant, np.concatenate(rows), np.array(widths, dtype=np.int64))


def evaluate(layers: DrawnLayers, rows: FoursOfRows, *, blocks: Places) -> Floats:
    """Return the network's output (n,) of one draw; `blocks` are the rows' blocks by their place in the layers."""
    out = np.empty(FOUR * (rows.starts.size - 1), dtype=np.float32)
    _evaluate(
        layers.first, layers.constant, layers.upper, layers.widths, rows.starts, blocks, rows.values, out
    )  # fmt: skip
    values = np.empty(rows.order.size)
    values[rows.order] = out[: rows.order.size]
    return values


def _filled(count: int, of: int = FOUR) -> int:
    return of * -(-count // of)


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
def _add_products(weights: int, width: int, blocks: int, values: int, count: int, out: int) -> None:
    """Add products of rows `values` (count, 4, 4) with blocks of weights to `out` (4, width), all as addresses."""
    unit = 0
    while unit + 2 * UNITS <= width:
        wide_tile(weights, width, blocks, values, count, out, unit)
        unit += 2 * UNITS
    if unit < width:
        narrow_tile(weights, width, blocks, values, count, out, unit)


@compiled
def _evaluate(
    first: Singles, constant: Singles, upper: Singles, widths: Places, starts: Places, blocks: Places,
    values: Singles, out: Singles,
) -> None:  # fmt: skip
    """Write the outputs of all fours of rows to `out` (4 fours,)."""
    widest = widths.max()
    h, g = np.empty(4 * widest, dtype=np.float32), np.empty(4 * widest, dtype=np.float32)
    v = np.empty((widest // 4, 4, 4), dtype=np.float32)
    every = np.arange(widest // 4)
    for k in range(starts.size - 1):
        width = widths[0]
        for s in range(4):
            h[s * width : (s + 1) * width] = constant
        at, count = starts[k], starts[k + 1] - starts[k]
        _add_products(
            first.ctypes.data, width, blocks.ctypes.data + 8 * at, values.ctypes.data + 64 * at, count, h.ctypes.data
        )
        offset = 0
        for layer in range(1, widths.size):
            inputs, width = widths[layer - 1], widths[layer]
            bias = upper[offset + inputs * width : offset + (inputs + 1) * width]
            for s in range(4):
                g[s * width : (s + 1) * width] = bias
                for b in range(inputs // 4):
                    for c in range(4):
                        v[b, s, c] = max(h[s * inputs + 4 * b + c], np.float32(0.0))
            _add_products(
                upper.ctypes.data + 4 * offset, width, every.ctypes.data, v.ctypes.data, inputs // 4, g.ctypes.data
            )
            offset += (inputs + 1) * width
            h, g = g, h
        for s in range(4):
            out[4 * k + s] = h[s * width]

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
from bandgap.posterior.draw_tiles import LINE, UNITS, WIDE, fetch, narrow_tile, wide_tile

FAR_ZERO = 3.0  # standard deviations: a feature whose zero is farther from its mean counts as there in every structure
FOUR = 4
MANY = 16  # fours of rows, which together have most of the features

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

    def present(self, together: int = 1) -> NDArray[np.bool_]:
        """Return which blocks any row has, (n_blocks,), or which groups of so many that lie beside each other."""
        groups = np.zeros(-(-self.n_blocks // together), dtype=bool)
        groups[self.blocks // together] = True
        return np.repeat(groups, together)[: self.n_blocks]


@dataclass(frozen=True, eq=False)
class DrawnLayers:
    """The layers of one draw: the first with what it gives where features are `base`, and those above it in a row.

    Every layer above has its weights, and behind them the bias. Widths are filled up to `UNITS`, and weights (inputs,
    width) stand tile by tile, as they are used.
    """

    first: Singles  # (4 blocks that are there, width), in tiles
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


def drawn_layers(
    first: Singles, upper: Sequence[Singles], *, base: Floats, blocks: NDArray[np.bool_]
) -> DrawnLayers:
    """Return the layers of a draw from their weights (width, inputs + 1), the bias last; of the first, some blocks."""
    p = base.size
    there = np.flatnonzero(np.repeat(blocks, FOUR))
    own = there[there < p]
    weights = np.zeros((there.size, _filled(first.shape[0], UNITS)), dtype=np.float32)
    weights[: own.size, : first.shape[0]] = first[:, own].T
    constant = np.zeros(weights.shape[1], dtype=np.float32)
    constant[: first.shape[0]] = first.astype(np.float64) @ np.append(base, 1.0)
    behind, widths = [np.zeros(0, dtype=np.float32)], [weights.shape[1]]
    for layer in upper:
        width, inputs = layer.shape[0], layer.shape[1] - 1
        above = np.zeros((widths[-1] + 1, _filled(width, UNITS)), dtype=np.float32)
        above[:inputs, :width], above[-1, :width] = layer[:, :-1].T, layer[:, -1]
        behind += [_in_tiles(above[:-1]), above[-1]]
        widths.append(above.shape[1])
    return DrawnLayers(
        _in_tiles(weights), constant, np.concatenate(behind), np.array(widths, dtype=np.int64)
    )


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
def _gathered(
    different: Singles, there: NDArray[np.bool_], order: Places
) -> tuple[Places, Places, Singles]:
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
def _units(first: int, width: int) -> int:
    """Return the number of units of the tile that begins with this unit of a layer."""
    return WIDE if first + WIDE <= width else UNITS


@compiled
def _in_tiles(weights: Singles) -> Singles:
    """Return weights (inputs, width) tile by tile, those of a tile (inputs, units) together."""
    inputs, width = weights.shape
    found, at, first = np.empty(weights.size, dtype=np.float32), 0, 0
    while first < width:
        units = _units(first, width)
        for i in range(inputs):
            for unit in range(first, first + units):
                found[at] = weights[i, unit]
                at += 1
        first += units
    return found


@compiled
def _add_tile(
    units: int, weights: int, blocks: int, values: int, count: int, out: int, width: int
) -> None:
    """Add products of four rows `values` (count, 4, 4) with blocks of a tile's weights to `out`, all as addresses."""
    if units == UNITS:
        narrow_tile(weights, blocks, values, count, out, width)
    else:
        wide_tile(weights, blocks, values, count, out, width)


@compiled
def _fetch(weights: Singles, first: int, end: int, part: int, parts: int) -> None:
    """Ask for one of some equal parts of weights[first:end], line by line."""
    lines = -(-(end - first) // LINE)
    for line in range(lines * part // parts, lines * (part + 1) // parts):
        fetch(weights.ctypes.data + 4 * (first + LINE * line))


@compiled
def _fetch_blocks(weights: Singles, first: int, units: int, blocks: Places) -> None:
    """Ask for the weights of some blocks alone, of the tile of so many units that begins at `first`."""
    for block in blocks:
        for line in range(FOUR * units // LINE):
            fetch(weights.ctypes.data + 4 * (first + FOUR * units * block + LINE * line))


@compiled
def _first_layer(
    first: Singles, constant: Singles, starts: Places, blocks: Places, values: Singles, out: Singles
) -> None:
    """Write what the first layer gives for all fours of rows to `out` (four, 4, width).

    All rows take one tile's weights, which stay in the nearest cache, before the next tile's. Those are fetched
    meanwhile, all where rows are many, else those of the rows' own features: the layers of all draws are more than
    caches hold.
    """
    fours, _, width = out.shape
    inputs, unit, many = first.size // width, 0, out.shape[0] >= MANY
    out[:] = constant
    if many:
        _fetch(first, 0, inputs * _units(0, width), 0, 1)
    else:
        _fetch_blocks(first, 0, _units(0, width), blocks)
    while unit < width:
        units = _units(unit, width)
        behind = unit + units
        if behind < width and not many:
            _fetch_blocks(first, inputs * behind, _units(behind, width), blocks)
        for k in range(fours):
            if behind < width and many:
                _fetch(first, inputs * behind, inputs * (behind + _units(behind, width)), k, fours)
            at, count = starts[k], starts[k + 1] - starts[k]
            _add_tile(
                units, first.ctypes.data + 4 * inputs * unit, blocks.ctypes.data + 8 * at, values.ctypes.data + 64 * at,
                count, out.ctypes.data + 4 * (4 * k * width + unit), width,
            )  # fmt: skip
        unit = behind


@compiled
def _add_products(
    weights: int, inputs: int, width: int, blocks: int, values: int, out: int
) -> None:
    """Add products of four rows `values` (inputs / 4, 4, 4) with all weights of a layer to `out` (4, width)."""
    unit = 0
    while unit < width:
        units = _units(unit, width)
        _add_tile(
            units, weights + 4 * inputs * unit, blocks, values, inputs // 4, out + 4 * unit, width
        )
        unit += units


@compiled
def _evaluate(
    first: Singles, constant: Singles, upper: Singles, widths: Places, starts: Places, blocks: Places,
    values: Singles, out: Singles,
) -> None:  # fmt: skip
    """Write the outputs of all fours of rows to `out` (4 fours,)."""
    widest, fours = widths.max(), starts.size - 1
    below = np.empty((fours, 4, widths[0]), dtype=np.float32)
    _first_layer(first, constant, starts, blocks, values, below)
    h, g = np.empty(4 * widest, dtype=np.float32), np.empty(4 * widest, dtype=np.float32)
    v = np.empty((widest // 4, 4, 4), dtype=np.float32)
    every = np.arange(widest // 4)
    for k in range(fours):
        width = widths[0]
        h[: 4 * width] = below[k].ravel()
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
                upper.ctypes.data + 4 * offset,
                inputs,
                width,
                every.ctypes.data,
                v.ctypes.data,
                g.ctypes.data,
            )
            offset += (inputs + 1) * width
            h, g = g, h
        for s in range(4):
            out[4 * k + s] = h[s * width]

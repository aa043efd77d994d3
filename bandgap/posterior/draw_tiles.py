"""The product of four rows with the weights of some fours of inputs, with sums that stay in vector registers.

Compilers keep no array in registers, so that loops in Python cost a load and a store for every four products. Here the
instructions are written for the compiler (LLVM) as such: sums of 4 rows by 32 units (16 where there is no AVX-512) are
loaded once, added to for all fours of inputs, and stored once. Each sum runs over its inputs in their order, whatever
the tile.
Numba keeps what it compiled for `draw_kernels` until that file changes: change a line there after a change here.
"""

from typing import Any

from llvmlite import binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

UNITS = 16  # of a vector; the widths of layers are filled up to them
# of a tile: the sums of 4 rows by 32 units take 8 of AVX-512's 32 registers of 16 numbers, but all 16 of eight numbers
WIDE = 2 * UNITS if llvm.get_host_cpu_features().get("avx512f") else UNITS
LINE = 16  # numbers that are fetched together: 64 bytes
ROWS = 4
INPUTS = 4
_FUSED = ("contract",)  # a product and its sum may be rounded once


def _defined(vectors: int) -> Any:
    """Return the function for tiles of so many vectors of units.

    It takes addresses (weights, blocks, values, out) with the number of blocks and the layer's width; the weights
    (input, units of the tile) stand together, and out[:, : units of the tile] of (4, width) float32 is added to.
    """

    def tile(
        context: Any, weights: Any, blocks: Any, values: Any, count: Any, out: Any, width: Any
    ) -> Any:
        return types.void(*[types.intp] * 6), _instructions

    def _instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        weights, blocks, values, count, out, width = arguments
        single, place, vector = ir.FloatType(), ir.IntType(64), ir.VectorType(ir.FloatType(), UNITS)

        def at(address: Any, index: Any, kind: Any, size: int) -> Any:
            offset = builder.mul(index, ir.Constant(place, size))
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        def plus(index: Any, number: int) -> Any:
            return builder.add(index, ir.Constant(place, number))

        def spread(number: Any) -> Any:
            one = builder.insert_element(
                ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0)
            )
            zeros = ir.Constant(ir.VectorType(ir.IntType(32), UNITS), None)
            return builder.shuffle_vector(one, ir.Constant(vector, ir.Undefined), zeros)

        def places(row: int) -> list[Any]:
            start = builder.mul(width, ir.Constant(place, row))
            return [at(out, plus(start, UNITS * v), vector, 4) for v in range(vectors)]

        def variable() -> Any:
            return cgutils.alloca_once(builder, vector)  # type: ignore[no-untyped-call]

        sums = [[variable() for _ in range(vectors)] for _ in range(ROWS)]
        for row in range(ROWS):
            for v, where in enumerate(places(row)):
                builder.store(builder.load(where, align=4), sums[row][v])
        with cgutils.for_range(builder, count, intp=place) as loop:
            block = builder.load(at(blocks, loop.index, place, 8))
            of_block = builder.mul(loop.index, ir.Constant(place, ROWS * INPUTS))
            for k in range(INPUTS):
                line = plus(builder.mul(block, ir.Constant(place, INPUTS)), k)
                line = builder.mul(line, ir.Constant(place, UNITS * vectors))
                own = [
                    builder.load(at(weights, plus(line, UNITS * v), vector, 4), align=4)
                    for v in range(vectors)
                ]
                for row in range(ROWS):
                    x = spread(
                        builder.load(at(values, plus(of_block, INPUTS * row + k), single, 4))
                    )
                    for v in range(vectors):
                        product = builder.fmul(x, own[v], flags=_FUSED)
                        builder.store(
                            builder.fadd(builder.load(sums[row][v]), product, flags=_FUSED),
                            sums[row][v],
                        )
        for row in range(ROWS):
            for v, where in enumerate(places(row)):
                builder.store(builder.load(sums[row][v]), where, align=4)
        return context.get_dummy_value()

    return intrinsic(tile)


def _fetched(context: Any, address: Any) -> Any:
    """Ask for the 64 bytes at an address to be brought near, without waiting for them."""

    def instructions(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        ask = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")  # type: ignore[no-untyped-call]
        read, near, data = (ir.Constant(number, value) for value in (0, 3, 1))
        builder.call(ask, [builder.inttoptr(arguments[0], byte), read, near, data])
        return context.get_dummy_value()

    return types.void(types.intp), instructions


wide_tile, narrow_tile = _defined(2), _defined(1)
fetch: Any = intrinsic(_fetched)

"""Loops that numba compiles, for what no library's matrix product does: many small operations on numbers at hand.

The compiled code is kept beside the source, or in the user's cache folder where that is read-only; where neither can be
written, every process compiles it again (a few seconds).
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from numba import njit

P = ParamSpec("P")
T = TypeVar("T")
# Sums may be reordered, so that they run in vector registers. Infinities and NaN keep their meaning.
FAST = {"contract", "reassoc", "nsz"}


def compiled(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, to be compiled at its first call with arguments of a kind; x / 0 is infinite, as in numpy.

    What is kept is compiled again when the function's own file changes: constants that it reads belong there.
    """
    try:
        result: Callable[P, T] = njit(fastmath=FAST, error_model="numpy", cache=True)(function)
    except RuntimeError:  # no folder for the compiled code
        result = njit(fastmath=FAST, error_model="numpy")(function)
    return result

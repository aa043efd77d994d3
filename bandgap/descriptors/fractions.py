"""The elements of a structure: square roots of their fractions of the atoms."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block
from bandgap.descriptors.element_properties import TABLE_ELEMENTS

if TYPE_CHECKING:
    from ase import Atoms


def fractions(atoms: "Atoms", is_requested: bool = True) -> NDArray[np.float64]:
    """Return the square root (96,) of each element's fraction, hydrogen first."""
    counts = np.bincount(atoms.numbers, minlength=len(TABLE_ELEMENTS) + 1)[1:]
    roots: NDArray[np.float64] = np.sqrt(counts / counts.sum())
    return roots


BLOCK: Final = Block(
    "fractions",
    width=lambda is_requested: len(TABLE_ELEMENTS) if is_requested else 0,
    name=lambda is_requested: "fractions of elements",
    describe=fractions,
    elements=lambda is_requested: TABLE_ELEMENTS,
)

"""The composition of a structure as statistics of element properties, of one length for all.

Of each property: the mean, the mean absolute deviation, the smallest value, the largest value and
their difference, weighted by the fractions of atoms, and the value of the most frequent element.

Reference: L. Ward, A. Agrawal, A. Choudhary and C. Wolverton, npj Comput. Mater. 2, 16028 (2016).
"""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block
from bandgap.descriptors.element_properties import PROPERTIES, TABLE_ELEMENTS, scaled_properties

if TYPE_CHECKING:
    from ase import Atoms

Floats = NDArray[np.float64]

STATISTICS: Final = (
    "mean",
    "mean absolute deviation",
    "smallest",
    "largest",
    "range",
    "of the most frequent",
)


def property_statistics(numbers: NDArray[np.integer], properties: Floats) -> Floats:
    """Return statistics (statistic, property) of the element properties of a structure's atoms.

    Where several elements are the most frequent, the smallest of their values counts, as in
    matminer.

    Parameters
    ----------
    numbers
        Atomic numbers (n,).
    properties
        Properties (element, property), hydrogen first.
    """
    elements, counts = np.unique(numbers, return_counts=True)
    values = properties[elements - 1]
    fractions = counts / counts.sum()
    mean = fractions @ values
    deviation = fractions @ np.abs(values - mean)
    smallest = values.min(axis=0)
    largest = values.max(axis=0)
    most_frequent = values[counts == counts.max()].min(axis=0)
    return np.stack([mean, deviation, smallest, largest, largest - smallest, most_frequent])


def composition(atoms: "Atoms", is_requested: bool = True) -> Floats:
    """Return the statistics (132,) of properties with mean 0 and standard deviation 1."""
    return property_statistics(np.asarray(atoms.numbers), scaled_properties()).ravel()


BLOCK: Final = Block(
    "composition",
    width=lambda is_requested: len(STATISTICS) * len(PROPERTIES) if is_requested else 0,
    name=lambda is_requested: "composition",
    describe=composition,
    elements=lambda is_requested: TABLE_ELEMENTS,
    measures_similarity=True,
)

"""The composition of a structure as statistics of element properties: features of one length for any elements.

L. Ward, A. Agrawal, A. Choudhary and C. Wolverton, npj Comput. Mater. 2, 16028 (2016): of each property the mean, the
mean absolute deviation, the smallest, the largest and their difference, weighted by the fractions of atoms, and the
value of the most frequent element.
"""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.element_properties import KNOWN, PROPERTIES, scaled_properties
from bandgap.descriptors.parts import Part

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
    """Return the statistics (statistic, property) of the properties (element, property) of atoms' numbers (n,).

    Where several elements are the most frequent, the smallest of their values counts, as in matminer.
    """
    elements, counts = np.unique(numbers, return_counts=True)
    values, fractions = properties[elements - 1], counts / counts.sum()
    mean = fractions @ values
    deviation = fractions @ np.abs(values - mean)
    smallest, largest = values.min(axis=0), values.max(axis=0)
    frequent = values[counts == counts.max()].min(axis=0)
    return np.stack([mean, deviation, smallest, largest, largest - smallest, frequent])


def composition(atoms: "Atoms", wanted: bool = True) -> Floats:
    """Return the statistics (132,) of the properties, which are scaled to mean 0 and standard deviation 1."""
    return property_statistics(np.asarray(atoms.numbers), scaled_properties()).ravel()


PART: Final = Part(
    "composition",
    width=lambda wanted: len(STATISTICS) * len(PROPERTIES) if wanted else 0,
    name=lambda wanted: "composition",
    describe=composition,
    elements=lambda wanted: KNOWN,
    alike=True,
)

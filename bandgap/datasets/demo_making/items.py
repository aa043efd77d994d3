"""One molecule or crystal of the demo data, as it is made and before it is written."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.demo_making.contacts import Floats


@dataclass(frozen=True, eq=False)
class Item:
    """One molecule (cell None) or crystal: its row of the label table, atomic numbers, positions in Angstrom."""

    row: Mapping[str, str | int | float]
    numbers: NDArray[np.int64]  # (n,)
    positions: Floats  # (n, 3)
    cell: Floats | None  # (3, 3), rows are the lattice vectors

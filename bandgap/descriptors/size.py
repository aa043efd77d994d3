"""The size of a structure's molecules as a feature."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block

if TYPE_CHECKING:
    from ase import Atoms

# Number of atoms other than hydrogen at which the size is cut off; a network of bonds has this one.
LARGEST: Final = 1000


def size(atoms: "Atoms", is_requested: bool = True) -> NDArray[np.float64]:
    """Return the mean logarithm (1,) of the number of atoms other than hydrogen in a molecule.

    The mean is over these atoms, or over all atoms where there is only hydrogen. A network of
    bonds counts as `LARGEST` atoms.
    """
    from bandgap.structures.bonds import molecule_sizes

    sizes = np.log(molecule_sizes(atoms, largest=LARGEST))
    is_heavy = np.asarray(atoms.numbers) > 1
    return np.array([sizes[is_heavy if is_heavy.any() else slice(None)].mean()])


BLOCK: Final = Block("size", width=int, name=lambda is_requested: "size", describe=size)

"""The size of a structure's molecules as a feature."""

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.parts import Part

if TYPE_CHECKING:
    from ase import Atoms

LARGEST: Final = 1000  # atoms other than hydrogen in a molecule, as far as the size is told


def size(atoms: "Atoms", wanted: bool = True) -> NDArray[np.float64]:
    """Return the logarithm (1,) of the number of heavy atoms in a molecule, the mean over these (over all without)."""
    from bandgap.structures.bonds import molecule_sizes

    sizes = np.log(molecule_sizes(atoms, largest=LARGEST))
    heavy = np.asarray(atoms.numbers) > 1
    return np.array([sizes[heavy if heavy.any() else slice(None)].mean()])


PART: Final = Part("size", width=int, name=lambda wanted: "size", describe=size)

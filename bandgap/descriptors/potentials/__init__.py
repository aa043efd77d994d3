"""Pretrained interatomic potentials as descriptors: one file each, one line each in the registry.

Not here: potentials that a user trains; nothing is downloaded, the weights are those that a package brings.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.parts import Part
from bandgap.descriptors.potentials import chgnet
from bandgap.descriptors.potentials.protocol import Potential
from bandgap.foundation.errors import ConfigError

if TYPE_CHECKING:
    from ase import Atoms

_ALL: Final = (chgnet.POTENTIAL, chgnet.TWO_LAYERS)
POTENTIALS: Final[Mapping[str, Potential]] = {potential.name: potential for potential in _ALL}
NONE: Final = "none"


def check_potential(name: str) -> None:
    """Raise ConfigError for a potential that there is not."""
    if name != NONE and name not in POTENTIALS:
        raise ConfigError(f"potential is {name!r}. Accepted: {', '.join((NONE, *POTENTIALS))}.")


def potential_for(elements: Collection[str]) -> str:
    """Return the potential for the descriptor of a data set with these elements, "none" where no package is there."""
    best = chgnet.TWO_LAYERS
    return best.name if best.installed and set(elements) <= set(best.elements) else NONE


def potential_words(name: str) -> str:
    """Return what the card of a source says of this potential, an empty text where there is none."""
    return "" if name == NONE else POTENTIALS[name].words


def pooled_features(atoms: "Atoms", name: str) -> NDArray[np.float64]:
    """Return the pooled features (n_features,) of a structure; raises NoFeaturesError where it cannot be described."""
    return POTENTIALS[name].describe(atoms)


PART: Final = Part(
    "potential",
    width=lambda name: 0 if name == NONE else POTENTIALS[name].n_features,
    name=lambda name: f"{POTENTIALS[name].title} features",
    describe=pooled_features,
    elements=lambda name: POTENTIALS[name].elements,
    reach_angstrom=lambda name: POTENTIALS[name].reach_angstrom,
    alike=True,
    slow=True,
    check=lambda name: POTENTIALS[name].check(),
)

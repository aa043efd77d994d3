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

_IDS_SHOWN: Final = 4
_ALL: Final = (chgnet.POTENTIAL, chgnet.TWO_LAYERS)
POTENTIALS: Final[Mapping[str, Potential]] = {potential.name: potential for potential in _ALL}
FOR_DATA_SETS: Final = (
    chgnet.TWO_LAYERS,
)  # which may stand in the descriptor of a data set, the best first
NONE: Final = "none"
FEW_SHARE: Final = 0.05  # of the structures, that keep the others from a potential


def check_potential(name: str) -> None:
    """Raise ConfigError for a potential that there is not."""
    if name != NONE and name not in POTENTIALS:
        raise ConfigError(f"potential is {name!r}. Accepted: {', '.join((NONE, *POTENTIALS))}.")


def potential_for(elements: Collection[str]) -> str:
    """Return the potential for the descriptor of a data set with these elements, "none" where no package is there."""
    taken = (
        each.name
        for each in FOR_DATA_SETS
        if each.installed and set(elements) <= set(each.elements)
    )
    return next(taken, NONE)


def kept_from_potential(elements: Mapping[str, Collection[str]]) -> str:
    """Say that a few structures keep a data set from a potential that is installed, "" where it is not so.

    `elements` are those of every structure by its id. A few are at most `FEW_SHARE` of all.
    """
    if potential_for(set().union(*elements.values())) != NONE:
        return ""
    for each in FOR_DATA_SETS:
        lacking = {name: set(own) - set(each.elements) for name, own in elements.items()}
        others = [name for name, symbols in lacking.items() if symbols]
        if each.installed and len(others) <= FEW_SHARE * len(elements):
            more = f" and {len(others) - _IDS_SHOWN:,} more" if len(others) > _IDS_SHOWN else ""
            unknown = ", ".join(sorted(set().union(*lacking.values())))
            return (
                f"{each.title} does not know {unknown} (in {len(others):,} of {len(elements):,} structures: "
                f"{', '.join(others[:_IDS_SHOWN])}{more}). So that these can be learned from, the descriptor of all "
                "does without its features. To have its features instead, leave these structures out of the data; "
                f"preset {each.name} leaves them out, too, and describes the others by its features alone."
            )
    return ""


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

"""Pretrained interatomic potentials as descriptors: one module each, and the registry of them.

Nothing is downloaded: the weights are those in the package of the potential.

Not here: potentials that a user trains.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors.blocks import Block
from bandgap.descriptors.potentials import chgnet, sevennet
from bandgap.descriptors.potentials.protocol import Potential
from bandgap.foundation.errors import ConfigError, listed

if TYPE_CHECKING:
    from ase import Atoms

_N_LISTED_IDS: Final = 4
_ALL: Final = (chgnet.POTENTIAL, chgnet.TWO_LAYERS, sevennet.POTENTIAL)
POTENTIALS: Final[Mapping[str, Potential]] = {potential.name: potential for potential in _ALL}
# Potentials for the descriptor of a data set without a source, the best first.
FOR_DATA_SETS: Final = (chgnet.TWO_LAYERS, sevennet.POTENTIAL)
NONE: Final = "none"
# Largest share of structures with unknown elements for which `potential_obstacle` gives a message.
MAX_UNKNOWN_SHARE: Final = 0.05


def check_potential(name: str) -> None:
    """Raise ConfigError if there is no potential of this name."""
    if name != NONE and name not in POTENTIALS:
        raise ConfigError(f"potential is {name!r}. Accepted: {', '.join((NONE, *POTENTIALS))}.")


def check_second_potential(name: str, *, first: str) -> None:
    """Raise ConfigError if there is no such potential, or it is the first one too."""
    check_potential(name)
    if name == first:
        raise ConfigError(
            f"potential and second_potential are both {name!r}. Give two different ones, or only "
            "`potential`."
        )


def potentials_for(elements: Collection[str]) -> tuple[str, str]:
    """Return the names of two installed potentials that know all these elements, each or "none"."""
    names = [
        potential.name
        for potential in FOR_DATA_SETS
        if potential.is_installed and set(elements) <= set(potential.elements)
    ]
    first, second = [*names, NONE, NONE][:2]
    return first, second


def installed_extras() -> tuple[str, ...]:
    """Return the extras of the installed potentials that describe data sets without a source."""
    return tuple(potential.extra for potential in FOR_DATA_SETS if potential.is_installed)


def potential_obstacle(elements: Mapping[str, Collection[str]]) -> str:
    """Return a message if few structures prevent the use of an installed potential, otherwise "".

    Few are at most `MAX_UNKNOWN_SHARE` of all structures.

    Parameters
    ----------
    elements
        Elements of every structure, by its id.
    """
    if potentials_for(set().union(*elements.values()))[0] != NONE:
        return ""
    for potential in FOR_DATA_SETS:
        unknown = {
            name: set(symbols) - set(potential.elements) for name, symbols in elements.items()
        }
        ids = [name for name, symbols in unknown.items() if symbols]
        if potential.is_installed and len(ids) <= MAX_UNKNOWN_SHARE * len(elements):
            return _obstacle_message(potential, unknown, ids)
    return ""


def _obstacle_message(
    potential: Potential, unknown: Mapping[str, Collection[str]], ids: Sequence[str]
) -> str:
    """Return the message on the structures `ids`, among all, that have unknown elements."""
    symbols = ", ".join(sorted(set().union(*unknown.values())))
    return (
        f"{potential.title} does not know {symbols} (in {len(ids):,} of {len(unknown):,} "
        f"structures: {listed(ids, _N_LISTED_IDS)}). So that these can be learned from, "
        "the descriptor does not contain its features. To have its features instead, leave these "
        f"structures out of the data; preset {potential.name} leaves them out too, and describes "
        "the others by its features only."
    )


def potential_card_text(*names: str) -> str:
    """Return the entry of these potentials in the card of a source model, "" for "none" only."""
    return "; ".join(POTENTIALS[name].card_text for name in names if name != NONE)


def pooled_features(atoms: "Atoms", name: str) -> NDArray[np.float64]:
    """Return the pooled features (n_features,) of a structure.

    Raises NoFeaturesError if the potential cannot describe it.
    """
    return POTENTIALS[name].describe(atoms)


BLOCK: Final = Block(
    "potential",
    width=lambda name: 0 if name == NONE else POTENTIALS[name].n_features,
    name=lambda name: f"{POTENTIALS[name].title} features",
    describe=pooled_features,
    elements=lambda name: POTENTIALS[name].elements,
    reach_angstrom=lambda name: POTENTIALS[name].reach_angstrom,
    measures_similarity=True,
    is_slow=True,
    check=lambda name: POTENTIALS[name].check(),
)

"""The type of a pretrained interatomic potential, and what those of bandgap have in common.

They were trained on the Materials Project, and their features are pooled over the atoms.
"""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    # Not imported at run time: the dashboard reads names and licences without loading ASE.
    from ase import Atoms

Floats = NDArray[np.float64]

# Elements of the table that are in no structure of the Materials Project.
_ABSENT: Final = ("Po", "At", "Rn", "Fr", "Ra")
TRAINED_ELEMENTS: Final = tuple(symbol for symbol in ELEMENTS[:94] if symbol not in _ABSENT)


@dataclass(frozen=True)
class Potential:
    """A pretrained potential with its weights, which its package contains.

    Different weights are a different potential, because they give different features.

    Parameters
    ----------
    name
        Value of the descriptor's setting `potential`.
    title
        Name with the version of the weights.
    licence
        Licence of the weights.
    reference
        Authors, journal and year.
    elements
        Elements that it can describe.
    n_features
        Number of pooled features.
    reach_angstrom
        Largest distance of a neighbour.
    describe
        Returns the features (n_features,) of a structure. Raises NoFeaturesError.
    check
        Raises ConfigError if the package is not installed.
    package
        Name under which the package is imported.
    """

    name: str
    title: str
    licence: str
    reference: str
    elements: tuple[str, ...]
    n_features: int
    reach_angstrom: float
    describe: "Callable[[Atoms], Floats]"
    check: Callable[[], None]
    package: str

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def extra(self) -> str:
        """Name of the extra that installs its package."""
        return self.name.partition("-")[0]

    @property
    def card_text(self) -> str:
        """Its entry in the card of a source model."""
        return f"{self.title} ({self.reference}; licence of its weights: {self.licence})"


def pooled_over_atoms(features: Floats) -> Floats:
    """Return mean, maximum and minimum (3 k,) over the atoms of their features (atom, k)."""
    return np.concatenate([features.mean(0), features.max(0), features.min(0)])

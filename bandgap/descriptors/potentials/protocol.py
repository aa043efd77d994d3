"""The type of a pretrained interatomic potential that gives pooled features of a structure."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    # Not imported at run time: the dashboard reads names and licences without loading ASE.
    from ase import Atoms


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
    describe: "Callable[[Atoms], NDArray[np.float64]]"
    check: Callable[[], None]
    package: str

    @property
    def is_installed(self) -> bool:
        """Whether its package is installed."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def card_text(self) -> str:
        """Its entry in the card of a source model."""
        return f"{self.title} ({self.reference}; licence of its weights: {self.licence})"

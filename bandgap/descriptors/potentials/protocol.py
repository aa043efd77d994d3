"""What a pretrained interatomic potential tells of a structure: pooled features of its crystal and atoms."""

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ase import (
        Atoms,
    )  # not loaded here: pages read names, licences and how many features there are


@dataclass(frozen=True)
class Potential:
    """A potential with its weights: what it is called, whose it is, what it takes and what it gives.

    Its weights travel in its package, which loads them, and are named by `title`: other weights are another potential,
    as they give other features.
    """

    name: str  # the value of the descriptor's setting
    title: str  # with the version of its weights
    licence: str  # of its weights
    reference: str
    elements: tuple[str, ...]
    n_features: int
    reach_angstrom: float  # from an atom to its farthest neighbour
    describe: "Callable[[Atoms], NDArray[np.float64]]"  # (n_features,); raises NoFeaturesError
    check: Callable[[], None]  # raises ConfigError where its package is not installed
    package: str  # by the name under which it is imported

    @property
    def installed(self) -> bool:
        """Whether its package is there."""
        return importlib.util.find_spec(self.package) is not None

    @property
    def words(self) -> str:
        """What the card of a source model says of it."""
        return f"{self.title} ({self.reference}; licence of its weights: {self.licence})"

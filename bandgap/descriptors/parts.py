"""What may stand in the vector behind the terms of MBTR: one file each, and one line each in `PARTS` of `config.py`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    from ase import Atoms  # not loaded here: pages read how many features there are


class NoFeaturesError(Exception):
    """Why a structure does not have the features of a part, as the verdict on it."""


@dataclass(frozen=True)
class Part:
    """Features that one setting of `DescriptorConfig` asks for, by whose default stored descriptors go without them."""

    setting: str
    width: Callable[[Any], int]  # how many features a value of the setting asks for
    name: Callable[[Any], str]  # of their block in the vector
    describe: "Callable[[Atoms, Any], NDArray[np.float64]]"  # (width,); raises NoFeaturesError
    elements: Callable[[Any], Sequence[str]] = lambda value: ELEMENTS  # that it describes
    reach_angstrom: Callable[[Any], float] = lambda value: (
        0.0
    )  # of DScribe, whose matrix of distances is dense
    alike: bool = (
        False  # their directions say how alike structures are; such parts stand before the others
    )
    slow: bool = False  # a structure takes seconds, not milliseconds
    check: Callable[[Any], None] = lambda value: (
        None
    )  # raises ConfigError before any work without its package

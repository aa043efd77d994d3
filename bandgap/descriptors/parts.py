"""What may stand in the vector behind the terms of MBTR: one file each, and one line each in `PARTS` of `config.py`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ase import Atoms  # not loaded here: pages read how many features there are


class NoFeaturesError(Exception):
    """Why a structure does not have the features of a part, as the verdict on it."""


@dataclass(frozen=True)
class Part:
    """Features that one setting of `MBTRConfig` asks for, by whose default stored descriptors go without them."""

    setting: str
    width: Callable[[Any], int]  # how many features a value of the setting asks for
    name: Callable[[Any], str]  # of their block in the vector
    describe: "Callable[[Atoms, Any], NDArray[np.float64]]"  # (width,); raises NoFeaturesError
    alike: bool = False  # their directions say how alike structures are; such parts stand before the others
    slow: bool = False  # a structure takes seconds, not milliseconds
    check: Callable[[], None] = lambda: None  # raises ConfigError before any work where a package is missing

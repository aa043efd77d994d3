"""The type of the blocks that follow the MBTR terms in a feature vector.

Each block is one module of this package and one line in `BLOCKS` of `config.py`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.elements import ELEMENTS

if TYPE_CHECKING:
    # Not imported at run time: the dashboard reads numbers of features without loading ASE.
    from ase import Atoms


class NoFeaturesError(Exception):
    """A structure does not have the features of a block; the text is the verdict on it."""


@dataclass(frozen=True)
class Block:
    """Features that one setting of `DescriptorConfig` asks for.

    The functions take the value of the setting. The default of the setting must mean "no such
    block", so that stored descriptors without this setting have none.

    Parameters
    ----------
    setting
        Field of `DescriptorConfig` that asks for the block.
    width
        Number of features; 0 means that the value asks for no block.
    name
        Name of the block in the vector.
    describe
        Returns the features (width,) of a structure. Raises NoFeaturesError.
    elements
        Elements that the block can describe.
    reach_angstrom
        Distance up to which DScribe collects neighbours, whose distance matrix is dense.
    measures_similarity
        Whether the directions of its features say how similar structures are. Such blocks
        precede the others in the vector.
    is_slow
        Whether one structure takes seconds, not milliseconds.
    check
        Raises ConfigError before any work, for instance where its package is not installed.
    """

    setting: str
    width: Callable[[Any], int]
    name: Callable[[Any], str]
    describe: "Callable[[Atoms, Any], NDArray[np.float64]]"
    elements: Callable[[Any], Sequence[str]] = lambda value: ELEMENTS
    reach_angstrom: Callable[[Any], float] = lambda value: 0.0
    measures_similarity: bool = False
    is_slow: bool = False
    check: Callable[[Any], None] = lambda value: None

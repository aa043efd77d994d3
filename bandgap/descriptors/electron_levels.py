"""Electron levels behind the descriptor's features: which there are, and for which gaps they would be the answer."""

import typing
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.descriptors import tight_binding
from bandgap.descriptors.parts import NoFeaturesError, Part
from bandgap.foundation.errors import ConfigError, InputError

if TYPE_CHECKING:
    from ase import Atoms

Levels = Literal["none", "GFN1-xTB", "GFN1-xTB-supercell"]

METHOD: Final = "GFN1-xTB"
SUPERCELL: Final = (
    "GFN1-xTB-supercell"  # of a supercell, where the cell is small: at more k points than Gamma
)


def check_levels(levels: str) -> None:
    """Raise ConfigError for a method of electron levels that there is not."""
    if levels not in typing.get_args(Levels):
        raise ConfigError(f"levels is {levels!r}. Accepted: {', '.join(typing.get_args(Levels))}.")


def checked_levels(levels: str) -> Levels:
    """Return the method of electron levels of this name; raises ConfigError for one that there is not."""
    check_levels(levels)
    return typing.cast(Levels, levels)


def electron_levels(atoms: "Atoms", levels: Levels) -> NDArray[np.float64]:
    """Return gap, HOMO and LUMO (3,) in eV by this method. Raises NoFeaturesError where the structure has none."""
    assert levels != "none"  # which is described by no features
    try:
        return tight_binding.levels_eV(atoms, method=METHOD, supercell=levels == SUPERCELL)
    except tight_binding.NoLevelsError as error:
        raise NoFeaturesError(f"has no {METHOD} levels: {error}.") from error


def gap_column(levels: Levels) -> int | None:
    """Return the place of the gap in a vector with these levels, counted from its end; None without levels."""
    return None if levels == "none" else -3


def own_gaps_problem(level_of_theory: str) -> str:
    """Return why gaps of this level of theory are not learned from electron levels, or an empty text."""
    if "xtb" not in level_of_theory.lower():
        return ""
    return (
        f"The gaps are of {level_of_theory}, and {METHOD} levels would nearly be the answer: the errors would say "
        "nothing of other gaps. Leave the levels out."
    )


def refuse_own_gaps(levels: Levels, level_of_theory: str) -> None:
    """Raise InputError where levels are asked for and the gaps to learn are of tight binding themselves."""
    if levels != "none" and (problem := own_gaps_problem(level_of_theory)):
        raise InputError(problem)


PART: Final = Part(
    "levels",
    width=lambda levels: 0 if levels == "none" else 3,
    name=lambda levels: f"{levels} gap, HOMO, LUMO",
    describe=electron_levels,
    slow=True,
    check=lambda levels: tight_binding.check_installed(),
)

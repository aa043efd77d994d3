"""Electron levels behind the descriptor's features: which there are, and for which gaps they would be the answer."""

import typing
from typing import Final, Literal

from bandgap.foundation.errors import ConfigError, InputError

Levels = Literal["none", "GFN1-xTB"]

METHOD: Final = "GFN1-xTB"
N_LEVELS: Final = 3  # gap, HOMO, LUMO


def check_levels(levels: str) -> None:
    """Raise ConfigError for a method of electron levels that there is not."""
    if levels not in typing.get_args(Levels):
        raise ConfigError(f"levels is {levels!r}. Accepted: {', '.join(typing.get_args(Levels))}.")


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

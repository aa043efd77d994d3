"""Read the unit of gaps (eV or Hartree) from the name of a column or key. A unit is never guessed.

This module does not import ASE, because the dashboard's pages import it.
"""

import re
from typing import Literal

from bandgap.foundation.errors import InputError, shown

Unit = Literal["eV", "Hartree"]

EV_PER_HARTREE = 27.211386245988  # CODATA 2018
TO_EV: dict[Unit, float] = {"eV": 1.0, "Hartree": EV_PER_HARTREE}
ACCEPTED_UNITS = "Accepted: eV and Hartree (Ha), as in gap_eV or gap_Ha."
UNIT_WORDS: dict[str, Unit] = {
    "ev": "eV",
    "ha": "Hartree",
    "hartree": "Hartree",
    "hartrees": "Hartree",
}
_OTHER_UNITS = {"mev", "kev", "mha", "ry", "rydberg", "kcal", "kj", "cm", "cm1", "nm", "au", "thz"}
_GAP_WITH_UNIT = re.compile(r"(gap)(ev|ha|hartree|mev|ry|cm1|nm)\b")


def words_of_name(name: str) -> list[str]:
    """Split a header or key into lower-case words; a unit directly after "gap" is a separate word.

    >>> words_of_name("gapEV"), words_of_name("band gap (Ha)"), words_of_name("gap_cm-1")
    (['gap', 'ev'], ['band', 'gap', 'ha'], ['gap', 'cm', '1'])
    """
    separated = _GAP_WITH_UNIT.sub(r"\1 \2", name.lower())
    return [word for word in re.split(r"[^a-z0-9]+", separated) if word]


def unit_in_name(name: str, *, what: str) -> Unit | None:
    """Return the unit that a header or key states, None if it states none.

    `what` begins an error message, such as "the key". Raises InputError for a unit that is not
    accepted.

    >>> unit_in_name("gap_Ha", what="the key"), unit_in_name("gap", what="the key")
    ('Hartree', None)
    """
    words = words_of_name(name)
    stated = {UNIT_WORDS[word] for word in words if word in UNIT_WORDS}
    rejected = sorted(_OTHER_UNITS & set(words))
    if rejected or len(stated) > 1:
        units = " ".join(rejected or sorted(stated))
        raise InputError(f"{what} {shown(name)} states the unit {units}. {ACCEPTED_UNITS}")
    return stated.pop() if stated else None


def unit_of_name(name: str, unit: Unit | None, *, what: str, remedy: str = "") -> Unit:
    """Return the unit that a header or key states, or `unit` if it states none.

    Parameters
    ----------
    name
        Header or key.
    unit
        Unit that the user gave, or None.
    what
        Beginning of an error message, such as "the key".
    remedy
        End of the error message for a name without a unit.

    Raises
    ------
    InputError
        If there is no unit, if the two differ, or if a unit is not accepted.
    """
    if unit is not None and unit not in TO_EV:
        raise InputError(f"unit is {unit!r}. Accepted: {', '.join(TO_EV)}.")
    stated = unit_in_name(name, what=what)
    if stated is None and unit is None:
        raise InputError(
            f"{what} {shown(name)} states no unit, and a unit is never guessed."
            f" {ACCEPTED_UNITS}{remedy}"
        )
    if stated is not None and unit is not None and stated != unit:
        raise InputError(f"{what} {shown(name)} states {stated}, but the unit was given as {unit}.")
    return stated or unit or "eV"


def states_unit(name: str) -> bool:
    """Return whether a header or key states an accepted unit."""
    try:
        return unit_in_name(name, what="") is not None
    except InputError:
        return False

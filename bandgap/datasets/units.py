"""Read the unit of gaps from the name of a column or key. A unit is never guessed.

This module does not import ASE, because the dashboard's pages import it.
"""

import re
import unicodedata
from typing import Literal

from bandgap.foundation.errors import InputError, quoted

Unit = Literal["eV", "meV", "Hartree", "Rydberg", "kJ/mol", "kcal/mol", "cm-1"]

EV_PER_HARTREE = 27.211386245988  # CODATA 2018, as the other factors
TO_EV: dict[Unit, float] = {
    "eV": 1.0,
    "meV": 1e-3,
    "Hartree": EV_PER_HARTREE,
    "Rydberg": EV_PER_HARTREE / 2,
    "kJ/mol": 1 / 96.48533212331,
    "kcal/mol": 4.184 / 96.48533212331,
    "cm-1": 1.239841984332e-4,
}
ACCEPTED_UNITS = f"Accepted: {', '.join(TO_EV)}, as in gap_eV, gap_Ha, gap_meV or 'gap (kcal/mol)'."
UNIT_WORDS: dict[str, Unit] = {
    "ev": "eV",
    "mev": "meV",
    "ha": "Hartree",
    "hartree": "Hartree",
    "hartrees": "Hartree",
    "eh": "Hartree",
    "ry": "Rydberg",
    "rydberg": "Rydberg",
    "kj": "kJ/mol",
    "kjmol": "kJ/mol",
    "kcal": "kcal/mol",
    "kcalmol": "kcal/mol",
    "cm1": "cm-1",
}
_OTHER_UNITS = {
    "kev", "uev", "\u03bcev", "nev", "gev", "mha", "mhartree", "mry", "nm", "au", "thz", "ghz", "j",
    "k", "atom",
}  # fmt: skip
_GAP_WITH_UNIT = re.compile(r"(gap)(ev|ha|hartree|mev|ry|cm1|nm)\b")
# cm-1, cm^-1, cm**(-1)
_WAVENUMBER = re.compile(r"(?<![a-z])cm\s*(?:\^|\*\*)?[({]?\s*[-\u2212]\s*1[)}]?")
# A power, a factor of ten, a difference or a reciprocal.
_CHANGED = re.compile(
    r"(?:\^|\*\*)|[x\u00d7*\u00b7]\s*10|\b10\s*[-+\u2212]\s*\d|\d+e[-+\u2212]?\d|\b1\s*/"
    r"|\sminus\s|\s[-\u2212\u2013]\s*(?:the\s|its\s)?(?:mean|average|avg|median|baseline|reference)"
    r"|gap.*\s[-\u2212\u2013]\s.*gap"
)
_E_G = re.compile(r"(?<![a-z0-9])e[_ {]*g\}?(?![a-z0-9])")  # the symbol of a gap


def words_of_name(name: str) -> list[str]:
    """Split a header or key into lower-case words; a unit directly after "gap" is a separate word.

    >>> words_of_name("gapEV"), words_of_name("E_g (Ha)"), words_of_name("gap_cm-1")
    (['gap', 'ev'], ['eg', 'ha'], ['gap', 'cm1'])
    """
    plain = unicodedata.normalize("NFKC", name).lower()  # superscripts become digits
    separated = _E_G.sub(" eg ", plain)
    separated = _WAVENUMBER.sub(" cm1 ", separated)
    separated = _GAP_WITH_UNIT.sub(r"\1 \2", separated)
    return [word for word in re.split(r"[^a-z0-9\u03bc]+", separated) if word]


def is_changed(name: str) -> bool:
    """Return whether a header or key is that of a number computed from a gap.

    >>> is_changed("gap (10^-3 eV)"), is_changed("gap - mean (eV)"), is_changed("gap (cm^-1)")
    (True, True, False)
    """
    plain = unicodedata.normalize("NFKC", name).lower()
    return _CHANGED.search(_WAVENUMBER.sub(" cm1 ", plain)) is not None


def unit_in_name(name: str, *, what: str) -> Unit | None:
    """Return the unit that a header or key states, None if it states none.

    `what` begins an error message, such as "the key". Raises InputError for a unit that is not
    accepted, and for a power or another change of a gap.

    >>> unit_in_name("gap_Ha", what="the key"), unit_in_name("gap", what="the key")
    ('Hartree', None)
    """
    words = words_of_name(name)
    stated = {UNIT_WORDS[word] for word in words if word in UNIT_WORDS}
    rejected = sorted(_OTHER_UNITS & set(words))
    if is_changed(name):
        raise InputError(
            f"{what} {quoted(name)} is that of a number computed from a gap. Accepted: the gap"
            f" itself. {ACCEPTED_UNITS}"
        )
    if rejected or len(stated) > 1:
        units = " ".join(rejected or sorted(stated))
        raise InputError(f"{what} {quoted(name)} states the unit {units}. {ACCEPTED_UNITS}")
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
            f"{what} {quoted(name)} states no unit, and a unit is never guessed."
            f" {ACCEPTED_UNITS}{remedy}"
        )
    if stated is not None and unit is not None and stated != unit:
        raise InputError(
            f"{what} {quoted(name)} states {stated}, but the unit was given as {unit}."
        )
    return stated or unit or "eV"


def states_unit(name: str) -> bool:
    """Return whether a header or key states an accepted unit."""
    try:
        return unit_in_name(name, what="") is not None
    except InputError:
        return False

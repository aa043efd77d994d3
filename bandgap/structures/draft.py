"""File formats, and structures as their readers return them, before they are checked."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.records import InfoValue, Limits, Problem

# Largest number in a file. Products of three are finite; coordinates above 1e5 are refused later.
LARGEST_NUMBER = 1e100
_FLAGS = {"True", "False", "0", "1"}
_FORTRAN_EXPONENT = str.maketrans({"D": "e", "d": "e"})
# Possessive quantifiers: a damaged file may contain 100,000 digits in a row, and backtracking
# through them would take very long.
NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eEdD][+-]?\d++)?+"
ROW = rf"{NUMBER}[ \t]+{NUMBER}[ \t]+{NUMBER}"
_NUMBER = re.compile(NUMBER)
_GLUED_NUMBERS = re.compile(rf"{NUMBER}(?:\(\d*\))?[+-]{NUMBER}(?:\(\d*\))?")
# A number in a cell of a table: without Fortran's exponents, infinities and words.
TABLE_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)


class Unreadable(Exception):
    """A structure that cannot be read; the message is the reason in its verdict."""


@dataclass
class Draft:
    """One structure of a file before the checks.

    A problem of severity "refused" states why the structure cannot be read.
    """

    symbols: list[str] = field(default_factory=list)  # as written, not yet checked
    # (atom, 3), Angstrom
    positions: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))
    cell: NDArray[np.float64] | None = None  # (3, 3), rows are vectors, Angstrom
    pbc: tuple[bool, bool, bool] = (False, False, False)
    format: str = ""  # the format of the file if empty
    id: str = ""  # the id in the file, empty if it has none
    suffix: str = ""  # distinguishes structures of a file without ids
    names: list[str] = field(default_factory=list)  # of the atoms in the file, may be empty
    info: dict[str, InfoValue] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    expects_hydrogen: bool = False  # the formula in the file contains hydrogen
    is_of_trajectory: bool = False  # of a program that writes frames of crystals without cells
    # why the atoms cannot be those of the file, "" if they can; atoms that are too close come first
    content_problem: str = ""

    def warn(self, text: str) -> None:
        """Add a warning; the structure stays usable."""
        self.problems.append(Problem("warning", text))

    def name(self, atom: int) -> str:
        """Return the name of an atom (index from 0) for messages."""
        if self.names:
            return self.names[atom]
        return f"{atom + 1} ({self.symbols[atom][:20]})"


class Reader(Protocol):
    """Reads a file. Raises Unreadable with the reason why it cannot be read."""

    def __call__(self, source: Any, /, *, limits: Limits) -> Iterable[Draft]: ...


@dataclass(frozen=True)
class Format:
    """A format of structure files: how it is recognised, and its reader.

    Parameters
    ----------
    name
        Name on records and in verdicts.
    label
        Name in messages that list the accepted formats.
    read
        Reader of what the format takes.
    takes
        "text"; "lines" of a text, of which the reader keeps few and over which it may iterate
        repeatedly, for files with any number of structures; or "content" of a binary format.
    patterns
        Regular expressions that all match in a text of this format.
    has_signature
        For a binary format whose first bytes others have too: whether a file is of this format.
    """

    name: str
    label: str
    read: Reader
    takes: Literal["text", "lines", "content"] = "text"
    patterns: tuple[re.Pattern[str], ...] = ()
    has_signature: Callable[[bytes], bool] | None = None


def periodic_flags(value: Any, *, default: bool) -> tuple[bool, bool, bool]:
    """Return whether a structure is periodic along each vector, by one or three flags."""
    flags = [default] * 3 if value is None else value if isinstance(value, list) else [value] * 3
    if len(flags) != 3 or not {*map(repr, flags)} <= _FLAGS:
        raise Unreadable("pbc must be one or three of true and false")
    return bool(flags[0]), bool(flags[1]), bool(flags[2])


def refused_draft(text: str, *, suffix: str = "") -> Draft:
    """Return the draft of a structure that cannot be read, for the reason `text`."""
    return Draft(suffix=suffix, problems=[Problem("refused", text)])


def number(text: str) -> float:
    """Return the number in a text, also as Fortran (1.0D-5) and Mathematica (1.0*^-5) write it.

    U+2212, the minus of word processors, is a minus. Raises ValueError if the text is not a number.
    """
    try:
        return float(text)
    except ValueError:
        plain = text.replace("*^", "e").replace("\u2212", "-")
        if _NUMBER.fullmatch(plain):
            return float(plain.translate(_FORTRAN_EXPONENT))
        raise


def glued_numbers(text: str) -> str:
    """Return the first two numbers in a text without a space between them, "" if there are none."""
    for token in text.split():
        if _GLUED_NUMBERS.fullmatch(token):
            return token
    return ""


def found_text(tokens: list[str]) -> str:
    """Return tokens for a message that others were expected, which names numbers without spaces."""
    text = " ".join(tokens)
    glued = glued_numbers(text)
    return (
        f"{quoted(text)}. {quoted(glued)} is two numbers without a space" if glued else quoted(text)
    )


def coordinates(
    tokens: list[str], *, line: int, what: str = "three coordinates"
) -> tuple[float, float, float]:
    """Return the first three tokens as finite numbers.

    Raises Unreadable, with the number of the line (from 1) and what was expected, if they are not.
    """
    try:
        x, y, z = (number(token) for token in tokens[:3])
    except ValueError:
        raise Unreadable(f"line {line}: expected {what}, found {found_text(tokens[:3])}") from None
    message = f"line {line}: expected {what}, found {quoted(' '.join(tokens[:3]))}"
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        raise Unreadable(f"{message}, which is not finite")
    if max(abs(x), abs(y), abs(z)) > LARGEST_NUMBER:
        raise Unreadable(f"{message}, which is too large for a structure")
    return x, y, z

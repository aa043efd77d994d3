"""What a file format is, and a structure as its reader found it, before it is checked."""

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import shown
from bandgap.structures.records import InfoValue, Limits, Problem

if TYPE_CHECKING:
    from bandgap.structures.contents import Content

LARGEST_NUMBER = 1e100  # in a file; products of three are finite, and what is larger than 1e5 is refused later
_NOT_PYTHON = str.maketrans({"D": "e", "d": "e"})
# Possessive: never tried again with fewer digits, as a damaged file may hold a hundred thousand of them in a row.
NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eEdD][+-]?\d++)?+"
ROW = rf"{NUMBER}[ \t]+{NUMBER}[ \t]+{NUMBER}"
_NUMBER = re.compile(NUMBER)


class Unreadable(Exception):
    """A structure that cannot be read; the text is the sentence that the user gets as its verdict."""


@dataclass
class Draft:
    """One structure of a file, or with `problems` of severity "refused" the reason why there is none."""

    symbols: list[str] = field(default_factory=list)  # as written, not yet checked
    positions: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 3)))  # (atom, 3), Angstrom
    cell: NDArray[np.float64] | None = None  # (3, 3), rows are vectors, Angstrom
    pbc: tuple[bool, bool, bool] = (False, False, False)
    format: str = ""  # that of its file where the reader names no other
    id: str = ""  # the id that the file itself gives
    suffix: str = ""  # tells structures of one file apart when the file gives no ids
    names: list[str] = field(default_factory=list)  # the file's names of the atoms, empty where it has none
    info: dict[str, InfoValue] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    expects_hydrogen: bool = False  # the file's own formula holds hydrogen

    def warn(self, text: str) -> None:
        """Add a problem that leaves the structure usable."""
        self.problems.append(Problem("warning", text))

    def name(self, atom: int) -> str:
        """Return what the user calls atom number `atom` (from 0)."""
        if self.names:
            return self.names[atom]
        return f"{atom + 1} ({self.symbols[atom][:20]})"


class Reader(Protocol):
    """Text and limits to drafts. What it raises as Unreadable becomes the verdict on the file."""

    def __call__(self, text: str, *, limits: Limits) -> Iterable[Draft]: ...


class LinesReader(Protocol):
    """As `Reader`, of a text by its lines, of which it holds few; it may walk through them more than once."""

    def __call__(self, lines: Iterable[str], *, limits: Limits) -> Iterable[Draft]: ...


class ContentReader(Protocol):
    """As `Reader`, of a format that is no text."""

    def __call__(self, content: "Content", *, limits: Limits) -> Iterable[Draft]: ...


@dataclass(frozen=True)
class Format:
    """A format of structure files: how it is told from others, and its reader. One stands at the end of each file.

    One that is no text has no `read`, but `is_it`, which knows its first bytes, and `read_content`. `read_lines` reads
    what `read` does, where a file can hold any number of structures.
    """

    name: str  # on records and in verdicts
    words: str  # where the user is told what is accepted
    read: Reader | None
    content: tuple[re.Pattern[str], ...]  # all are found in a text of this format
    suffixes: tuple[str, ...] = ()
    names: tuple[str, ...] = ()  # that files begin with, whatever their suffix; the folder then gives the id
    is_it: Callable[[bytes], bool] | None = None
    read_content: ContentReader | None = None
    read_lines: LinesReader | None = None


def refused(text: str, *, suffix: str = "") -> Draft:
    """Return the draft of a structure that its reader refuses with the sentence `text`."""
    return Draft(suffix=suffix, problems=[Problem("refused", text)])


def number(text: str) -> float:
    """Return the number that `text` is; Fortran's 1.0D-5 and Mathematica's 1.0*^-5 are understood.

    Raises ValueError when it is none.
    """
    try:
        return float(text)
    except ValueError:
        plain = text.replace("*^", "e")
        if _NUMBER.fullmatch(plain):
            return float(plain.translate(_NOT_PYTHON))
        raise


def coordinates(tokens: list[str], *, line: int, what: str = "three coordinates") -> tuple[float, float, float]:
    """Return the first three tokens as numbers that arithmetic can bear; `line` counts from 1. Raises Unreadable."""
    found = f"line {line}: expected {what}, found {shown(' '.join(tokens[:3]))}"
    try:
        x, y, z = (number(token) for token in tokens[:3])
    except ValueError:
        raise Unreadable(found) from None
    if not (math.isfinite(x) and math.isfinite(y) and math.isfinite(z)):
        raise Unreadable(f"{found}, which is not finite")
    if max(abs(x), abs(y), abs(z)) > LARGEST_NUMBER:
        raise Unreadable(f"{found}, which is out of all proportion")
    return x, y, z

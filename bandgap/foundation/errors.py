"""Errors that the library raises: messages say what was found, where, and what is accepted."""

import re
from collections.abc import Sequence


class BandgapError(Exception):
    """Base of every error that a user of the library can cause.

    The command line and the dashboard catch this class and show its text without a traceback.
    """


class InputError(BandgapError):
    """A file, a label, a column or an argument that cannot be used."""


class ConfigError(BandgapError):
    """A setting that is not accepted."""


class BudgetError(BandgapError):
    """A computation that would need more memory than the budget, refused before it starts."""


class ArtifactError(BandgapError):
    """A stored model or run that is damaged, of another version, or fails its self-check."""


class Cancelled(BandgapError):
    """The user cancelled the computation."""


def printable(text: str) -> str:
    """Return text from a file with a question mark for every character that cannot be printed."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def quoted(text: str) -> str:
    """Return text from a file in quotes, shortened, with control characters replaced."""
    clean = printable(text.strip())
    if not clean:
        return "nothing"
    return repr(clean if len(clean) <= 40 else clean[:37] + "...")


def listed(names: Sequence[str], n_shown: int, *, separator: str = ", ") -> str:
    """Return the first names, and how many more there are.

    >>> listed(["Si", "Ge", "Sn"], 2)
    'Si, Ge and 1 more'
    """
    more = f" and {len(names) - n_shown:,} more" if len(names) > n_shown else ""
    return separator.join(names[:n_shown]) + more


def reason_of(error: Exception) -> str:
    """Return the message of an archive reader's error, without the bytes that some contain."""
    return re.sub(r" \(?b(['\"]).*\1\)?", "", str(error)) or "no reason is given"

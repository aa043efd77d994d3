"""Errors that the library raises; every message says what, where, what is accepted and what to do."""

import re


class BandgapError(Exception):
    """Base of every error that a user of the library can cause or meet.

    The command line and the dashboard catch exactly this class and show its text without a traceback.
    """


class InputError(BandgapError):
    """A file, a label, a column or an argument that cannot be used as it is."""


class ConfigError(BandgapError):
    """A setting outside what is accepted."""


class BudgetError(BandgapError):
    """A computation that would need more memory than the stated budget, refused before it starts."""


class ArtifactError(BandgapError):
    """A stored model or run that is damaged, of another version, or that fails its self-check."""


class Cancelled(BandgapError):
    """The person who started the computation asked for its end."""


def printable(text: str) -> str:
    """Return text from a file with a question mark for everything that cannot be shown."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def shown(text: str) -> str:
    """Return text from a file in quotes, shortened, with control characters replaced."""
    clean = printable(text.strip())
    return repr(clean if len(clean) <= 40 else clean[:37] + "...") if clean else "nothing"


def reason_of(error: Exception) -> str:
    """Return what Python's readers of archives say of a damaged one, without the bytes that some of them show."""
    return re.sub(r" \(?b(['\"]).*\1\)?", "", str(error)) or "no reason is given"

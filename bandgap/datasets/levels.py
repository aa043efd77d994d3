"""Levels of theory: free text such as PBE or GW that travels with gaps, and the warning when they are mixed."""

from collections.abc import Iterable

from bandgap.foundation.errors import printable


def distinct_levels(levels: Iterable[str]) -> tuple[str, ...]:
    """Return the levels of theory that differ in more than case and blanks, in order; empty ones are left out."""
    seen: dict[str, str] = {}
    for level in levels:
        words = printable(" ".join(level.split()))
        if words:
            seen.setdefault(words.casefold(), words)
    return tuple(seen.values())


def mixed_levels_warning(levels: Iterable[str]) -> str:
    """Return the warning for gaps of more than one level of theory, or "" where they all agree or state none."""
    names = distinct_levels(levels)
    if len(names) < 2:
        return ""
    return (
        f"Levels of theory are mixed ({', '.join(names)}). Gaps of different levels differ systematically, often by "
        "more than 1 eV; label one set at one level."
    )

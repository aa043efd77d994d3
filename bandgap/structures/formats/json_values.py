"""Parse JSON and JSON lines, and take the values of objects that become keys of a structure."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from bandgap.foundation.damage import MAX_NESTING, is_too_deep
from bandgap.foundation.errors import quoted
from bandgap.structures.draft import Unreadable
from bandgap.structures.records import InfoValue

_LONGEST = 2_000  # characters of a text
_LARGEST = 2**63  # limit of an integer


def parse_json(
    text: str, *, object_of: Callable[[list[tuple[str, Any]]], dict[str, Any]] | None = None
) -> Any:
    """Return the content of JSON, or the list of the values of JSON lines, one on each line.

    `object_of` makes an object of its keys and values, for example to check them. Raises Unreadable
    if the text is neither, or is nested too deep.
    """
    if is_too_deep(text):
        raise Unreadable(
            f"not JSON that can be read: it is nested deeper than {MAX_NESTING} levels"
        )
    try:
        return json.loads(text, object_pairs_hook=object_of)
    except ValueError as error:
        lines = [line for line in text.split("\n") if line.strip()]
        try:
            json.loads(lines[0] if len(lines) > 1 else "")
        except ValueError:
            question = " Is the file cut off?" if _ends_early(error, text) else ""
            raise Unreadable(
                f"not JSON that can be read ({quoted(str(error))}).{question}"
            ) from None
    values = []
    for number, line in enumerate(lines, start=1):
        try:
            values.append(json.loads(line, object_pairs_hook=object_of))
        except ValueError as error:
            raise Unreadable(
                f"line {number:,} of the JSON lines cannot be read ({quoted(str(error))}). Is the"
                " file cut off?"
            ) from None
    return values


def _ends_early(error: ValueError, text: str) -> bool:
    """Return whether the parser stopped in the last word of the text."""
    if not isinstance(error, json.JSONDecodeError) or error.msg == "Extra data":
        return False
    is_open = error.msg.startswith("Unterminated")
    return is_open or len(text[error.pos :].strip()) <= len("false")


def short_values(fields: Mapping[str, Any]) -> dict[str, InfoValue]:
    """Return the numbers, flags and short texts of an object."""
    values: dict[str, InfoValue] = {}
    for key, value in fields.items():
        is_short_text = isinstance(value, str) and len(value) <= _LONGEST
        is_number = isinstance(value, bool | float) or (
            isinstance(value, int) and abs(value) < _LARGEST
        )
        if is_short_text or is_number:
            values[key] = value
    return values

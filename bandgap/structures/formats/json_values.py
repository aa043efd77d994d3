"""Values of JSON objects that become keys of a structure."""

from collections.abc import Mapping
from typing import Any

from bandgap.structures.records import InfoValue

_LONGEST = 2_000  # characters of a text
_LARGEST = 2**63  # limit of an integer


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

"""Values of a CIF block: tags in the styles of old and new dictionaries, columns and numbers."""

import re
from functools import lru_cache
from typing import Any

from gemmi import cif

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import Unreadable, glued_numbers, number

_UNCERTAINTY = re.compile(r"\(\d*\)$")
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+(?:\(\d*\))?")
_CATEGORIES = ("_cell", "_atom_site", "_exptl_crystal", "_chemical_formula")


def value_of(block: cif.Block, tag: str) -> str:
    """Return the value of a tag without quotes, "" if it is missing, ? or a dot."""
    raw = block.find_value(tag) or block.find_value(_dotted(tag))
    return "" if raw is None else _text(raw)


def first_value(block: cif.Block, tags: tuple[str, ...]) -> str:
    """Return the first of several tags that has a value, "" if none has."""
    values = (value_of(block, tag) for tag in tags)
    return next((text for text in values if text not in ("", "?", ".")), "")


def column(block: cif.Block, name: str, length: int | None = None) -> list[str]:
    """Return a column of _atom_site, with "" for ? and a dot.

    If the column is missing or has another length than `length`, the result is `length` times "".
    """
    tag = f"_atom_site_{name}"
    values = [_text(raw) for raw in block.find_values(tag)]
    if not values:
        values = [_text(raw) for raw in block.find_values(_dotted(tag))]
    return values if length is None or len(values) == length else [""] * length


def has_column(block: cif.Block, name: str) -> bool:
    """Return whether a block has values in a column of _atom_site."""
    tag = f"_atom_site_{name}"
    return len(block.find_values(tag)) > 0 or len(block.find_values(_dotted(tag))) > 0


def tags_of(block: cif.Block) -> list[str]:
    """Return the tags of all pairs and loops of a block."""
    tags: list[str] = []
    item: Any  # gemmi's annotations leave the items of a block open
    for item in block:
        if item.pair is not None:
            tags.append(item.pair[0])
        elif item.loop is not None:
            tags += item.loop.tags
    return tags


def without_uncertainty(text: str) -> str:
    """Return a number as text without its standard uncertainty: 5.431 for 5.431(2)."""
    return _UNCERTAINTY.sub("", text)


def number_of(text: str, *, what: str) -> float:
    """Return a number. Raises Unreadable, with what the number is, if the text is none."""
    if not text:
        raise Unreadable(f"{what} is missing")
    try:
        return number(without_uncertainty(text))
    except ValueError:
        raise Unreadable(f"{what} is {quoted(text)}, {_kind_of_text(text)}") from None


def _kind_of_text(text: str) -> str:
    if glued_numbers(text):
        return "two numbers without a space"
    if _DECIMAL_COMMA.fullmatch(text):
        return "a number with a decimal comma; write a point"
    return "not a number"


@lru_cache(maxsize=256)
def _dotted(tag: str) -> str:
    """Return a tag in the style of newer dictionaries: _cell.length_a for _cell_length_a."""
    category = next((c for c in _CATEGORIES if tag.startswith(c + "_")), "")
    return f"{category}.{tag[len(category) + 1 :]}" if category else tag


def _text(raw: str) -> str:
    """Return a value without quotes, "" for ? and a dot."""
    if raw in ("?", "."):
        return ""
    return str(cif.as_string(raw)).strip() if raw[:1] in ("'", '"', ";") else raw

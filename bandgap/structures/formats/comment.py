"""The comment line of extended XYZ: key=value pairs, the lattice, and which column holds what.

Written from the format's description (https://github.com/libAtoms/extxyz), with one difference: an id keeps its text,
so that 00011 does not turn into 11.
"""

import re
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import shown
from bandgap.structures.draft import Unreadable, number
from bandgap.structures.records import InfoValue

_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\{[^}]*\}|\[[^\]]*\]"""
_PAIR = re.compile(rf"""([A-Za-z_][\w.\-/]*)(?:\s*=\s*({_QUOTED}|[^\s"'\[{{]\S*))?""")
_LONGEST = 20_000
_EXTENDED = re.compile(r"\b(properties|lattice|pbc)\s*=", re.IGNORECASE)
_ANY_PAIR = re.compile(r"[A-Za-z_]\w*=\S")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)  # 00011 is a name
_REAL = re.compile(r"[+-]?(\d+(\.\d*|(?=[eE]))|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|NaN|Inf)", re.ASCII)
_BOOLEANS = {"T": True, "F": False, "true": True, "false": False, "True": True, "False": False}
_BOOLEANS |= {"TRUE": True, "FALSE": False}
_IDS = re.compile(r"(.*_)?id|identifier|name|refcode", re.IGNORECASE)
_WIDTHS = {str(width): width for width in range(1, 1000)}
_STRUCTURAL = {"properties", "lattice", "pbc"}


@dataclass(frozen=True)
class Columns:
    """Where a row holds the element and the first of the three coordinates."""

    species: int = 0
    position: int = 1


@dataclass(frozen=True)
class Comment:
    """What a comment line says about its frame."""

    extended: bool = False
    lattice: NDArray[np.float64] | None = None  # (3, 3), rows are vectors, Angstrom
    pbc: tuple[bool, bool, bool] | None = None
    columns: Columns = Columns()
    info: dict[str, InfoValue] = field(default_factory=dict)


def parse_comment(line: str) -> Comment:
    """Return what the line says; free text gives an empty comment.

    Raises Unreadable on a lattice, pbc or Properties that make no sense.
    """
    if len(line) > _LONGEST:
        raise Unreadable(f"the comment line has {len(line):,} characters; the limit is {_LONGEST:,}")
    extended = _EXTENDED.search(line) is not None
    if not extended and not _ANY_PAIR.search(line):
        return Comment()
    pairs = [(key, value) for key, value in _PAIR.findall(line) if value or extended]
    structural = {key.lower(): _unquoted(value) for key, value in pairs if key.lower() in _STRUCTURAL}
    info = {_key(key): _value(key, value) for key, value in pairs if key.lower() not in _STRUCTURAL}
    return Comment(
        extended=extended,
        lattice=_lattice(structural["lattice"]) if "lattice" in structural else None,
        pbc=_pbc(structural["pbc"]) if "pbc" in structural else None,
        columns=_columns(structural["properties"]) if "properties" in structural else Columns(),
        info=info,
    )


def _key(key: str) -> str:
    return "id" if key.lower() == "id" else key


def _value(key: str, text: str) -> InfoValue:
    plain = _unquoted(text)
    if _IDS.fullmatch(key):
        return plain
    if not text:
        return True  # a key alone
    if plain in _BOOLEANS:
        return _BOOLEANS[plain]
    if _INTEGER.fullmatch(plain) and len(plain) < 19:
        return int(plain)
    return float(plain) if _REAL.fullmatch(plain) else plain


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] + text[-1] in ('""', "''"):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text[1:-1] if len(text) > 1 and text[0] + text[-1] in ("{}", "[]") else text


def _lattice(text: str) -> NDArray[np.float64]:
    try:
        values = [number(token) for token in re.split(r"[\s,\[\]]+", text) if token]
    except ValueError:
        values = []
    if len(values) != 9:
        raise Unreadable(f"Lattice must be nine numbers, found {shown(text)}")
    return np.array(values).reshape(3, 3)


def _pbc(text: str) -> tuple[bool, bool, bool]:
    flags = [{"1": True, "0": False, **_BOOLEANS}.get(token) for token in re.split(r"[\s,\[\]]+", text) if token]
    if len(flags) == 1:
        flags *= 3
    if len(flags) != 3 or None in flags:
        raise Unreadable(f"pbc must be three of T and F, found {shown(text)}")
    return bool(flags[0]), bool(flags[1]), bool(flags[2])


def _columns(text: str) -> Columns:
    parts = text.split(":")
    starts: dict[str, int] = {}
    at = 0
    try:
        for name, _, width in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            starts[name.lower()] = at
            at += _WIDTHS[width]
        return Columns(starts["species"] if "species" in starts else starts["z"], starts["pos"])
    except (ValueError, KeyError):
        example = "species:S:1:pos:R:3"
        raise Unreadable(f"Properties must name species and pos, as in {example}; found {shown(text)}") from None

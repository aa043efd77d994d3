"""Read XYZ and extended XYZ with any number of frames.

Frames are found by their counts of atoms. If the count and the rows of a frame differ, the frame is
refused, and reading resumes at the next line that is a count.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import (
    ROW,
    Draft,
    Format,
    Unreadable,
    coordinates,
    found_text,
    number,
    refused_draft,
)
from bandgap.structures.ids import is_id, stated_id
from bandgap.structures.records import InfoValue, Limits, StructureRecord

_COUNT = re.compile(r"\s*\d{1,9}\s*", re.ASCII)
_PERIODIC_BY_LATTICE = (True, True, True)
_QUOTED = r""""(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\{[^}]*\}|\[[^\]]*\]"""
_PAIR = re.compile(rf"""([A-Za-z_][\w.\-/]*)(?:\s*=\s*({_QUOTED}|[^\s"'\[{{]\S*))?""")
_LONGEST = 20_000  # characters of a comment line
_EXTENDED = re.compile(r"\b(properties|lattice|pbc)\s*=", re.IGNORECASE)
_ANY_PAIR = re.compile(r"[A-Za-z_]\w*=\S")
_INTEGER = re.compile(r"[+-]?(0|[1-9]\d*)", re.ASCII)  # 00011 is text
_REAL = re.compile(
    r"[+-]?(\d+(\.\d*|(?=[eE]))|\.\d+)([eE][+-]?\d+)?|[+-]?(nan|inf|NaN|Inf)", re.ASCII
)
_BOOLEANS = {"T": True, "F": False, "true": True, "false": False, "True": True, "False": False}
_BOOLEANS |= {"TRUE": True, "FALSE": False}
_TRAJECTORY = re.compile(r"\s*i\s*=\s*\d+,\s*time\s*=|Atoms\. Timestep:")  # CP2K, LAMMPS
_WIDTHS = {str(width): width for width in range(1, 1000)}
_STRUCTURAL = {"properties", "lattice", "pbc"}


@dataclass(frozen=True)
class _Frame:
    line: int  # of the count, from 1
    comment: str
    rows: list[list[str]]
    fault: str = ""
    unread: int = 0  # lines after the atoms that are neither atoms nor blank


@dataclass(frozen=True)
class _Comment:
    """Contents of the comment line of a frame."""

    extended: bool = False
    lattice: NDArray[np.float64] | None = None  # (3, 3), rows are vectors, Angstrom
    pbc: tuple[bool, bool, bool] | None = None
    species: int = 0  # column of the element
    position: int = 1  # column of the first coordinate
    info: dict[str, InfoValue] = field(default_factory=dict)


def read_frames(lines: Iterable[str], *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every frame of an XYZ or extXYZ file, of which one frame is in memory."""
    for index, frame in enumerate(_frames(lines, limits.max_atoms), start=1):
        try:
            comment = _comment(frame.comment)
        except Unreadable as error:
            draft = refused_draft(f"line {frame.line + 1}: {error}", suffix=str(index))
            draft.format = "extXYZ"
            yield draft
            continue
        form = "extXYZ" if comment.extended else "XYZ"
        try:
            draft = _draft(frame, comment)
        except Unreadable as error:
            draft = refused_draft(str(error))
            draft.info = comment.info
        draft.format = form
        draft.suffix = str(index)
        draft.id = stated_id(comment.info)
        yield draft


def _draft(frame: _Frame, comment: _Comment) -> Draft:
    if frame.fault:
        raise Unreadable(frame.fault)
    try:
        start = comment.position
        values = [
            (float(row[start]), float(row[start + 1]), float(row[start + 2])) for row in frame.rows
        ]
        symbols = [row[comment.species] for row in frame.rows]
    except (ValueError, IndexError):
        values, symbols = _checked_rows(frame, comment)
    pbc = comment.pbc or (
        _PERIODIC_BY_LATTICE if comment.lattice is not None else (False, False, False)
    )
    positions = np.array(values, dtype=float).reshape(-1, 3)
    draft = Draft(
        symbols=symbols, positions=positions, cell=comment.lattice, pbc=pbc, info=comment.info
    )
    draft.is_of_trajectory = _TRAJECTORY.match(frame.comment) is not None
    if frame.unread:
        draft.warn(
            f"what follows the atoms of the frame at line {frame.line} was not read (lines:"
            f" {frame.unread})"
        )
    return draft


def _checked_rows(
    frame: _Frame, comment: _Comment
) -> tuple[list[tuple[float, float, float]], list[str]]:
    """Read rows one by one, to name the invalid line and to accept numbers of Fortran."""
    start = comment.position
    n_columns = max(comment.species, start + 2) + 1
    values = []
    for line, row in enumerate(frame.rows, start=frame.line + 2):
        if len(row) < n_columns:
            raise Unreadable(
                f"line {line}: expected an element and three coordinates, found {found_text(row)}"
            )
        values.append(coordinates(row[start : start + 3], line=line))
    return values, [row[comment.species] for row in frame.rows]


def _comment(line: str) -> _Comment:
    """Return the contents of a comment line; free text gives an empty comment.

    Raises Unreadable if the lattice, pbc or Properties are invalid.
    """
    if len(line) > _LONGEST:
        raise Unreadable(
            f"the comment line has {len(line):,} characters; the limit is {_LONGEST:,}"
        )
    extended = _EXTENDED.search(line) is not None
    if not extended and not _ANY_PAIR.search(line):
        return _Comment()
    pairs = [(key, value) for key, value in _PAIR.findall(line) if value or extended]
    structural = {
        key.lower(): _unquoted(value) for key, value in pairs if key.lower() in _STRUCTURAL
    }
    info = {_key(key): _value(key, value) for key, value in pairs if key.lower() not in _STRUCTURAL}
    species, position = _columns(structural["properties"]) if "properties" in structural else (0, 1)
    return _Comment(
        extended=extended,
        lattice=_lattice(structural["lattice"]) if "lattice" in structural else None,
        pbc=_pbc(structural["pbc"]) if "pbc" in structural else None,
        species=species,
        position=position,
        info=info,
    )


def _key(key: str) -> str:
    return "id" if key.lower() == "id" else key


def _value(key: str, text: str) -> InfoValue:
    plain = _unquoted(text)
    if is_id(key):
        return plain
    if not text:
        return True  # a key without value
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
        raise Unreadable(f"Lattice must be nine numbers, found {quoted(text)}")
    return np.array(values).reshape(3, 3)


def _pbc(text: str) -> tuple[bool, bool, bool]:
    flags = [
        {"1": True, "0": False, **_BOOLEANS}.get(token)
        for token in re.split(r"[\s,\[\]]+", text)
        if token
    ]
    if len(flags) == 1:
        flags *= 3
    if len(flags) != 3 or None in flags:
        raise Unreadable(f"pbc must be three of T and F, found {quoted(text)}")
    return bool(flags[0]), bool(flags[1]), bool(flags[2])


@lru_cache(maxsize=64)
def _columns(text: str) -> tuple[int, int]:
    """Return the columns of the element and of the first coordinate."""
    parts = text.split(":")
    starts: dict[str, int] = {}
    at = 0
    try:
        for name, _, width in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
            starts[name.lower()] = at
            at += _WIDTHS[width]
        return starts["species"] if "species" in starts else starts["z"], starts["pos"]
    except (ValueError, KeyError):
        example = "species:S:1:pos:R:3"
        raise Unreadable(
            f"Properties must name species and pos, as in {example}; found {quoted(text)}"
        ) from None


class _LineCursor:
    """A position in lines that are read once.

    `line` is the line at this position, None after the last one, and `number` counts from 1.
    """

    def __init__(self, lines: Iterable[str]) -> None:
        self._remaining = iter(lines)
        self.line: str | None = next(self._remaining, None)
        self.number = 1

    def step(self) -> None:
        """Go to the next line."""
        self.line = next(self._remaining, None)
        self.number += 1


def _frames(lines: Iterable[str], max_atoms: int) -> Iterator[_Frame]:
    """Yield the frames, with the rows of at most `max_atoms` atoms each."""
    cursor = _LineCursor(lines)
    while (line := cursor.line) is not None:
        if not line.strip():
            cursor.step()
        elif _COUNT.fullmatch(line):
            yield _frame_at(cursor, line, max_atoms)
        else:
            at = cursor.number
            _to_next_count(cursor)
            fault = f"line {at}: expected the number of atoms, found {quoted(line)}"
            yield _Frame(at, "", [], fault)


def _frame_at(cursor: _LineCursor, line: str, max_atoms: int) -> _Frame:
    """Return the frame whose count is in `line`, and move to the next one."""
    at = cursor.number
    count = int(line)
    cursor.step()
    comment = cursor.line or ""
    cursor.step()
    rows = []
    n_atoms = 0
    while n_atoms < count and (row := cursor.line) is not None:
        if len(row) < 16 and (_COUNT.fullmatch(row) or not row.strip()):
            break
        n_atoms += 1
        if n_atoms <= max_atoms:
            rows.append(row)
        cursor.step()
    n_unread, unread = _to_next_count(cursor)
    fault = ""
    if count > max_atoms:
        fault = f"the structure has {count:,} atoms; the limit is {max_atoms:,}"
    elif n_atoms < count:
        fault = f"line {at} announces {count} atoms, and {n_atoms} follow. Is the file cut off?"
        if _is_atom(comment):
            fault = (
                f"line {at + 1} must be a comment, and contains an atom. Add a comment line, which"
                " may be empty."
            )
    elif _is_atom(unread):
        fault = f"line {at} announces {count} atoms, and more follow"
    cells = [] if fault else [row.split() for row in rows]
    return _Frame(at, comment, cells, fault, n_unread)


def _to_next_count(cursor: _LineCursor) -> tuple[int, str]:
    """Move to the next line that is a count.

    Return the number of lines before it that are not blank, and the first of these.
    """
    n_lines = 0
    first_line = ""
    while (line := cursor.line) is not None and not _COUNT.fullmatch(line):
        if line.strip():
            n_lines += 1
            first_line = first_line or line
        cursor.step()
    return n_lines, first_line


def _is_atom(line: str) -> bool:
    tokens = line.split()
    if len(tokens) < 4 or not tokens[0][:1].isalnum():
        return False
    try:
        return all(np.isfinite(number(token)) for token in tokens[1:4])
    except ValueError:
        return False


def extxyz_blocks(
    records: Sequence[StructureRecord], comments: Sequence[Mapping[str, InfoValue]]
) -> Iterator[str]:
    """Yield one extXYZ block for every record with atoms.

    Parameters
    ----------
    records
        Structures; refused ones are skipped. Positions and cell are written in Angstrom.
    comments
        Key=value pairs of the comment line of every record; empty texts are omitted.
    """
    from ase import Atoms
    from ase.io.extxyz import write_extxyz

    for record, comment in zip(records, comments, strict=True):
        if record.atoms is None:
            continue
        atoms = record.atoms
        plain_atoms = Atoms(  # type: ignore[no-untyped-call]
            atoms.numbers, atoms.positions, cell=atoms.cell, pbc=atoms.pbc
        )
        values = {
            key: _single_line(value) if isinstance(value, str) else value
            for key, value in comment.items()
        }
        plain_atoms.info = {key: value for key, value in values.items() if value != ""}
        text = io.StringIO()
        write_extxyz(text, [plain_atoms])
        yield text.getvalue()


def _single_line(text: str) -> str:
    """Return text on one line, without backslashes, which ASE writes but does not read."""
    return " ".join(text.replace("\\", "/").split())


FORMAT = Format(
    "XYZ",
    label="XYZ, extXYZ",
    read=read_frames,
    takes="lines",
    patterns=(re.compile(rf"\A\s*\d++[ \t]*\n[^\n]*\n[ \t]*\w++[ \t]+{ROW}"),),
)

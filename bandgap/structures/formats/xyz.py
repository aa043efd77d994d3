"""XYZ and extended XYZ, any number of frames; a bad frame costs only itself.

Frames are found by their counts. When a count and the rows below it disagree, that frame is refused and reading goes on
at the next line that is a count.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bandgap.foundation.errors import shown
from bandgap.structures.draft import ROW, Draft, Format, Unreadable, coordinates, number, refused
from bandgap.structures.formats.comment import Comment, parse_comment
from bandgap.structures.records import Limits

_COUNT = re.compile(r"\s*\d{1,9}\s*", re.ASCII)
_PERIODIC_BY_LATTICE = (True, True, True)


@dataclass(frozen=True)
class _Frame:
    line: int  # of the count, from 1
    comment: str
    rows: list[list[str]]
    fault: str = ""
    unread: int = 0  # lines after the atoms that are neither atoms nor blank


def read_xyz(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every frame of an XYZ or extXYZ file."""
    for index, frame in enumerate(_frames(text.split("\n"), limits.max_atoms), start=1):
        try:
            comment = parse_comment(frame.comment)
        except Unreadable as error:
            draft = refused(f"line {frame.line + 1}: {error}", suffix=str(index))
            draft.format = "extXYZ"
            yield draft
            continue
        form = "extXYZ" if comment.extended else "XYZ"
        try:
            draft = _draft(frame, comment)
        except Unreadable as error:
            draft = refused(str(error))
            draft.info = comment.info
        draft.format, draft.suffix, draft.id = form, str(index), str(comment.info.get("id", ""))
        yield draft


def _draft(frame: _Frame, comment: Comment) -> Draft:
    if frame.fault:
        raise Unreadable(frame.fault)
    column = comment.columns
    needed = max(column.species, column.position + 2) + 1
    try:
        start = column.position
        values = [(float(row[start]), float(row[start + 1]), float(row[start + 2])) for row in frame.rows]
        symbols = [row[column.species] for row in frame.rows]
    except (ValueError, IndexError):
        values, symbols = _slowly(frame, comment, needed=needed)
    pbc = comment.pbc or (_PERIODIC_BY_LATTICE if comment.lattice is not None else (False, False, False))
    positions = np.array(values, dtype=float).reshape(-1, 3)
    draft = Draft(symbols=symbols, positions=positions, cell=comment.lattice, pbc=pbc, info=comment.info)
    if frame.unread:
        draft.warn(f"what follows the atoms of the frame at line {frame.line} was not read (lines: {frame.unread})")
    return draft


def _slowly(frame: _Frame, comment: Comment, *, needed: int) -> tuple[list[tuple[float, float, float]], list[str]]:
    """Read rows one by one, to name the line at fault and to understand Fortran's way of writing numbers."""
    start = comment.columns.position
    values = []
    for line, row in enumerate(frame.rows, start=frame.line + 2):
        if len(row) < needed:
            raise Unreadable(f"line {line}: expected an element and three coordinates, found {shown(' '.join(row))}")
        values.append(coordinates(row[start : start + 3], line=line))
    return values, [row[comment.columns.species] for row in frame.rows]


def _frames(lines: list[str], max_atoms: int) -> Iterator[_Frame]:
    at = 0
    while True:
        while at < len(lines) and not lines[at].strip():
            at += 1
        if at >= len(lines):
            return
        if not _COUNT.fullmatch(lines[at]):
            found = shown(lines[at])
            yield _Frame(at + 1, "", [], f"line {at + 1}: expected the number of atoms, found {found}")
            at = _next_count(lines, at)
            continue
        count = int(lines[at])
        first = at + 2
        comment = lines[at + 1] if at + 1 < len(lines) else ""
        end = _end_of_atoms(lines, first=first, last=min(first + count, len(lines)))
        after = _next_count(lines, end)
        unread = [line for line in lines[end:after] if line.strip()]
        yield _frame(at, count, comment=comment, body=lines[first:end], unread=unread, max_atoms=max_atoms)
        at = after


def _frame(at: int, count: int, *, comment: str, body: list[str], unread: list[str], max_atoms: int) -> _Frame:
    fault = ""
    if count > max_atoms:
        fault = f"the structure has {count:,} atoms; the limit is {max_atoms:,}"
    elif len(body) < count:
        fault = f"line {at + 1} announces {count} atoms, and {len(body)} follow. Is the file cut off?"
        if _is_atom(comment):
            fault = f"line {at + 2} must be a comment, and holds an atom. Add a comment line, which may be empty."
    elif unread and _is_atom(unread[0]):
        fault = f"line {at + 1} announces {count} atoms, and more follow"
    return _Frame(at + 1, comment, [] if fault else [line.split() for line in body], fault, len(unread))


def _end_of_atoms(lines: list[str], *, first: int, last: int) -> int:
    """Return the first line from `first` on that is blank or the next frame's count, at most `last`."""
    for at in range(first, last):
        if len(lines[at]) < 16 and (_COUNT.fullmatch(lines[at]) or not lines[at].strip()):
            return at
    return last


def _next_count(lines: list[str], at: int) -> int:
    while at < len(lines) and not _COUNT.fullmatch(lines[at]):
        at += 1
    return at


def _is_atom(line: str) -> bool:
    tokens = line.split()
    if len(tokens) < 4 or not tokens[0][:1].isalnum():
        return False
    try:
        return all(np.isfinite(number(token)) for token in tokens[1:4])
    except ValueError:
        return False


FORMAT = Format(
    "XYZ",
    words="XYZ, extXYZ",
    read=read_xyz,
    content=(re.compile(rf"\A\s*\d++[ \t]*\n[^\n]*\n[ \t]*\w++[ \t]+{ROW}"),),
    suffixes=("xyz", "extxyz", "exyz"),
)

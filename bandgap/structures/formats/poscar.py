"""Read POSCAR and CONTCAR of VASP (https://www.vasp.at/wiki/index.php/POSCAR), and XDATCAR.

An XDATCAR is a POSCAR whose positions follow for every step of a run. Every step is one structure;
where the cell changes, the header is repeated before the step.
"""

import re
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import (
    LARGEST_NUMBER,
    NUMBER,
    ROW,
    Draft,
    Format,
    Unreadable,
    coordinates,
    number,
    refused_draft,
)
from bandgap.structures.elements import element_of_name, pseudo_hydrogen_note
from bandgap.structures.records import Limits

_COUNTS = re.compile(r"\s*\d+(\s+\d+)*\s*", re.ASCII)


_CONFIGURATION = re.compile(r"\s*(?:Direct|Cartesian) configuration=\s*(\d*)", re.IGNORECASE)
_HEADER_LINES = 7  # comment, scale, three lattice vectors, elements, counts


def read_poscar(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield the structure of a POSCAR, or every step of an XDATCAR.

    Raises Unreadable with the invalid line.
    """
    lines = [
        line.split("!")[0].split("#")[0] if at else line for at, line in enumerate(text.split("\n"))
    ]
    steps = [at for at, line in enumerate(lines) if at and _CONFIGURATION.match(line)]
    if not steps:
        yield _read_structure(lines, limits=limits)
        return
    header = lines[:_HEADER_LINES]
    ends = [*steps[1:], len(lines)]
    for start, end in zip(steps, ends, strict=True):
        before = lines[start - _HEADER_LINES : start] if start >= _HEADER_LINES else []
        if _is_header(before):
            header = before
        frame = lines[start:end]
        if _is_header(frame[-_HEADER_LINES:]):  # of the next step
            frame = frame[:-_HEADER_LINES]
        match = _CONFIGURATION.match(lines[start])
        number_of_step = match.group(1) if match else ""
        try:
            draft = _read_structure([*header, *frame], limits=limits)
        except Unreadable as error:
            draft = refused_draft(f"configuration {number_of_step}: {error}")
        draft.suffix = number_of_step
        yield draft


def _is_header(lines: list[str]) -> bool:
    """Return whether seven lines are the header of a structure."""
    if len(lines) < _HEADER_LINES or not _COUNTS.fullmatch(lines[6]):
        return False
    is_cell = all(len(line.split()) == 3 for line in lines[2:5])
    symbols = [token for token in lines[5].split() if not _is_number(token)]
    return is_cell and any(map(element_of_name, symbols))


def _read_structure(lines: list[str], *, limits: Limits) -> Draft:
    """Return one structure: header, mode and positions."""
    if len([line for line in lines if line.strip()]) < 7:
        raise Unreadable(
            "too few lines for a POSCAR: comment, scale, three lattice vectors, elements, counts,"
            " atoms"
        )
    cell, factors = _cell(lines)
    names, counts, at = _names(lines)
    elements = [element_of_name(name) or name for name in names]
    if sum(counts) > limits.max_atoms:
        raise Unreadable(
            f"the structure has {sum(counts):,} atoms; the limit is {limits.max_atoms:,}"
        )
    if at < len(lines) and lines[at].strip()[:1] in ("S", "s"):
        at += 1
    mode = lines[at].strip()[:1].lower() if at < len(lines) else ""
    if mode not in ("d", "c", "k"):
        text = quoted(lines[at]) if at < len(lines) else "the end of the file"
        raise Unreadable(f"line {at + 1}: expected Direct or Cartesian, found {text}")
    values = _positions(lines, at + 1, n_atoms=sum(counts))
    positions = values @ cell if mode == "d" else values * factors
    symbols = [
        element for element, count in zip(elements, counts, strict=True) for _ in range(count)
    ]
    draft = Draft(symbols=symbols, positions=positions, cell=cell, pbc=(True, True, True))
    if note := pseudo_hydrogen_note(names):
        draft.warn(note)
    return draft


def _cell(lines: list[str]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the scaled cell (3, 3) and the scale factors (3,) of Cartesian positions."""
    try:
        scale = np.array([number(token) for token in lines[1].split()[:3]])
    except ValueError:
        scale = np.zeros(0)
    if (
        len(scale) not in (1, 3)
        or not scale.all()
        or not (np.abs(scale) <= LARGEST_NUMBER).all()
        or (len(scale) == 3 and (scale < 0).any())
    ):
        raise Unreadable(
            "line 2: expected the scale (one number, or three above zero), found"
            f" {quoted(lines[1])}"
        )
    rows = [
        coordinates(lines[at].split(), line=at + 1, what="a lattice vector (three numbers)")
        for at in (2, 3, 4)
    ]
    vectors = np.array(rows)
    if scale[0] < 0:  # the negative volume of the cell
        volume = abs(np.linalg.det(vectors))
        if volume < 1 / LARGEST_NUMBER:
            raise Unreadable("the unit cell has no volume")
        scale = np.array([(-scale[0] / volume) ** (1 / 3)])
    factors = np.broadcast_to(scale, (3,)).astype(float)
    return vectors * factors, factors


def _names(lines: list[str]) -> tuple[list[str], list[int], int]:
    """Return names of elements, their counts, and the index of the next line."""
    if _COUNTS.fullmatch(lines[5]):  # VASP 4; elements may be in the comment
        tokens = lines[0].split()
        counts = lines[5].split()
        next_line = 6
        if len(tokens) != len(counts) or not all(map(element_of_name, tokens)):
            raise Unreadable(
                "line 6: no element symbols (VASP 4). Add the line of element symbols above the"
                " counts."
            )
    elif len(lines) > 6 and _COUNTS.fullmatch(lines[6]):
        tokens = lines[5].split()
        counts = lines[6].split()
        next_line = 7
    else:
        text = f"{quoted(lines[5])} and {quoted(lines[6] if len(lines) > 6 else '')}"
        raise Unreadable(f"lines 6 and 7: expected element symbols and their counts, found {text}")
    if len(tokens) != len(counts):
        raise Unreadable(f"lines 6 and 7: {len(tokens)} element symbols and {len(counts)} counts")
    return tokens, [int(count[:12]) for count in counts], next_line


def _positions(lines: list[str], start: int, *, n_atoms: int) -> NDArray[np.float64]:
    rows = lines[start : start + n_atoms]
    n_present = next((index for index, row in enumerate(rows) if not row.strip()), len(rows))
    if n_present < n_atoms:
        raise Unreadable(
            f"the counts announce {n_atoms} atoms, and {n_present} positions follow. Is the file"
            " cut off?"
        )
    next_tokens = lines[start + n_atoms].split()[:3] if len(lines) > start + n_atoms else []
    if len(next_tokens) == 3 and all(map(_is_number, next_tokens)):
        raise Unreadable(f"the counts announce {n_atoms} atoms, and more positions follow")
    _refuse_second_structure(lines, start + n_atoms)
    values = [
        coordinates(row.split(), line=index) for index, row in enumerate(rows, start=start + 1)
    ]
    return np.array(values, dtype=float).reshape(-1, 3)


def _refuse_second_structure(lines: list[str], start: int) -> None:
    """Raise Unreadable if another structure follows the positions, as in joined files.

    Velocities and the state that molecular dynamics resumes from may follow, but no lattice with
    elements and counts.
    """
    for at in range(start, len(lines) - _HEADER_LINES + 1):
        if _is_header(lines[at : at + _HEADER_LINES]):
            raise Unreadable(
                f"a second structure begins in line {at + 1}. Give one file for each structure, or"
                " write all of them as extXYZ or XDATCAR."
            )


def _is_number(token: str) -> bool:
    try:
        number(token)
    except ValueError:
        return False
    return True


FORMAT = Format(
    "POSCAR",
    label="POSCAR/CONTCAR/XDATCAR",
    read=read_poscar,
    patterns=(re.compile(rf"\A[^\n]*\n[ \t]*{NUMBER}[^\n]*\n(?:[ \t]*{ROW}[^\n]*\n){{3}}"),),
)

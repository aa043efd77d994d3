"""Read PDB: ATOM and HETATM records, and CRYST1 for the cell; every MODEL is one structure.

The columns are those of the wwPDB format description, version 3.3.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import printable, quoted
from bandgap.structures.draft import Draft, Format, Unreadable, coordinates, number, refused_draft
from bandgap.structures.elements import element_of
from bandgap.structures.neighbours import THINNEST_ANGSTROM
from bandgap.structures.operators import operations_from_symbol, parse_operations
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Site, from_sites, refuse_disorder
from bandgap.structures.unit_cells import UnitCell, unit_cell

_NO_CELL = (1.0, 1.0, 1.0)  # lengths in CRYST1 that mean no crystal
_SCALES = ("SCALE1", "SCALE2", "SCALE3")


@dataclass
class _Model:
    name: str
    lines: list[tuple[int, str]] = field(default_factory=list)  # with their numbers, from 1
    n_atoms: int = 0


def read_models(lines: Iterable[str], *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every model of a file.

    The lines are read twice, because the cell may be at the end.
    """
    cryst = ""
    scale: list[str] = []
    has_models = False
    for line in lines:
        record = line[:6].rstrip()
        if record == "CRYST1":
            cryst = line
        elif record in _SCALES and len(scale) < 4:  # only exactly three are used
            scale.append(line)
    for model in _models(lines, limits.max_atoms):
        has_models = True
        try:
            draft = _structure(model, cryst, scale=scale, limits=limits)
        except Unreadable as error:
            draft = refused_draft(str(error))
        draft.suffix = model.name or "1"
        yield draft
    if not has_models:
        yield refused_draft("no atoms in the file (no ATOM or HETATM line)")


def _models(lines: Iterable[str], max_atoms: int) -> Iterator[_Model]:
    """Yield the models that have atoms, with the lines of at most `max_atoms` atoms each."""
    model = _Model("")
    model_number = 0
    for at, line in enumerate(lines, start=1):
        record = line[:6].rstrip()
        if record == "MODEL":
            if model.n_atoms:
                yield model
            model_number += 1
            model = _Model(line[10:14].strip() or str(model_number))
        elif record in ("ATOM", "HETATM"):
            model.n_atoms += 1
            if model.n_atoms <= max_atoms:
                model.lines.append((at, line))
    if model.n_atoms:
        yield model


def _structure(model: _Model, cryst: str, *, scale: list[str], limits: Limits) -> Draft:
    if model.n_atoms > limits.max_atoms:
        raise Unreadable(
            f"the structure has {model.n_atoms:,} atoms; the limit is {limits.max_atoms:,}"
        )
    symbols = [_symbol(line) for _, line in model.lines]
    names = [line[12:16].strip() or symbols[i] for i, (_, line) in enumerate(model.lines)]
    xyz = [
        coordinates([line[30:38], line[38:46], line[46:54]], line=at) for at, line in model.lines
    ]
    positions = np.array(xyz, dtype=float)
    occupancies = _occupancies(model)
    groups = [line[16:17].strip() for _, line in model.lines]
    cell, group = _crystal(cryst)
    if cell is None:
        sites = [
            Site(name, "", (0, 0, 0), o, g)
            for name, o, g in zip(names, occupancies, groups, strict=True)
        ]
        draft = Draft(symbols=symbols, positions=positions, names=names)
        refuse_disorder(sites, "", draft=draft)
        _warn_of_guesses(draft, model)
        return draft
    _check_scale(scale, cell.vectors)
    settings = operations_from_symbol(group, cell) if group else [parse_operations(["x,y,z"])]
    if len(settings) > 1:
        raise Unreadable(
            f"CRYST1 names the space group {quoted(group)}, which has two origins, and does not say"
            " which one. Export in P 1 or as CIF."
        )
    if not settings:
        raise Unreadable(
            f"CRYST1 names the space group {quoted(group)}, which is not known. Export in P 1 or as"
            " CIF."
        )
    fractional = np.linalg.solve(cell.vectors.T, positions.T).T
    sites = [
        Site(name, symbol, (f[0], f[1], f[2]), o, g)
        for name, symbol, f, o, g in zip(
            names, symbols, fractional.tolist(), occupancies, groups, strict=True
        )
    ]
    origin = f"of CRYST1's space group {printable(group)}"
    draft = from_sites(
        sites, cell=cell, operations=settings[0], operators_origin=origin, place="", limits=limits
    )
    _warn_of_guesses(draft, model)
    return draft


def _warn_of_guesses(draft: Draft, model: _Model) -> None:
    """Warn if the element of an atom was taken from a name that may mean another element.

    " CA " is carbon by its columns, and calcium in files of programs that ignore columns.
    """
    for _, line in model.lines:
        letters = re.match(r"[A-Za-z]*", line[12:16].strip().lstrip("0123456789"))
        name = letters.group() if letters else ""
        if not line[76:78].strip() and len(name) > 1 and element_of(name[:2]):
            draft.warn(
                f"columns 77-78 are empty; elements were guessed from atom names, such as"
                f" {_symbol(line)} from {line[12:16].strip()}"
            )
            return


def _symbol(line: str) -> str:
    """Return the element of columns 77-78, or of the atom name without them.

    In the atom name it is right-adjusted in columns 13-14, or the first letter.
    """
    symbol = line[76:78].strip()
    if symbol:
        return symbol.capitalize()
    name = line[12:16]
    two = name[:2].strip()
    if two.isalpha() and len(two) == 2 and element_of(two) and name[:1] != "H":
        return two.capitalize()
    letters = name.strip().lstrip("0123456789")
    return letters[:1].upper() or "X"


def _occupancies(model: _Model) -> list[float]:
    """Return occupancies, which are 1 if all are zero or blank, as in files of calculations."""
    values = []
    for at, line in model.lines:
        text = line[54:60].strip()
        try:
            values.append(number(text) if text else 1.0)
        except ValueError:
            raise Unreadable(f"line {at}: the occupancy is {quoted(text)}, not a number") from None
    return values if any(values) else [1.0] * len(values)


def _crystal(cryst: str) -> tuple[UnitCell | None, str]:
    """Return the cell, None if there is no crystal, and the space group symbol."""
    if not cryst:
        return None, ""
    texts = [*(cryst[a : a + 9] for a in (6, 15, 24)), *(cryst[a : a + 7] for a in (33, 40, 47))]
    try:
        values = [number(text) for text in texts]
    except ValueError:
        raise Unreadable(f"CRYST1 is not six numbers: {quoted(cryst[6:54])}") from None
    if tuple(values[:3]) == _NO_CELL:
        return None, ""
    return unit_cell(values, texts=texts), cryst[55:66].strip()


def _check_scale(scale: list[str], cell: NDArray[np.float64]) -> None:
    """Raise Unreadable if SCALE1 to SCALE3 do not belong to the cell.

    The cell is built with a along x and b in the xy plane; SCALE may describe other axes.
    """
    if len(scale) != 3:
        return
    try:
        matrix = np.array([[number(line[a : a + 10]) for a in (10, 20, 30)] for line in scale])
    except ValueError:
        raise Unreadable("SCALE1 to SCALE3 are not numbers") from None
    # Larger values are not the inverse of a cell, and may overflow.
    is_plausible = (np.abs(matrix) < 1 / THINNEST_ANGSTROM + 1).all()
    if not is_plausible or not np.abs(matrix @ cell.T - np.eye(3)).max() < 0.02:
        raise Unreadable("SCALE1 to SCALE3 do not fit the cell of CRYST1. Export as CIF.")


FORMAT = Format(
    "PDB",
    label="PDB",
    read=read_models,
    takes="lines",
    patterns=(re.compile(r"^(?:ATOM  |HETATM|CRYST1)", re.MULTILINE),),
)

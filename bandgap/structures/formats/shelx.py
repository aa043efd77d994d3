"""SHELX .res and .ins, also as AIRSS writes them: cell, symmetry, atoms and their site occupation.

G. M. Sheldrick, Acta Cryst. A64 (2008) 112; instructions as in the SHELXL manual.
"""

import math
import re
from dataclasses import dataclass, field

import gemmi
import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import shown
from bandgap.structures.draft import NUMBER, ROW, Draft, Format, Unreadable, coordinates, number
from bandgap.structures.formula import parse_formula, warn_on_mismatch
from bandgap.structures.operators import Operations, parse_operations
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Site, from_sites
from bandgap.structures.unit_cells import unit_cell

Floats = NDArray[np.float64]
_LATTICES = dict(enumerate("PIRFABC", start=1))  # of LATT
_PEAK = re.compile(r"Q\d+", re.IGNORECASE)  # residual electron density, not an atom
_READ = {"CELL", "LATT", "SYMM", "SFAC", "FVAR", "PART", "HKLF", "END"}
_INSTRUCTIONS = {
    "ABIN", "ACTA", "AFIX", "ANIS", "ANSC", "ANSR", "BASF", "BIND", "BLOC", "BOND", "BUMP", "CGLS", "CHIV",
    "CONF", "CONN", "DAMP", "DANG", "DEFS", "DELU", "DFIX", "DISP", "EADP", "EQIV", "EXTI", "EXYZ", "FEND",
    "FLAT", "FMAP", "FRAG", "FREE", "GRID", "HFIX", "HKLF", "HTAB", "ISOR", "L.S.", "LAUE", "LIST", "LONE", "MERG",
    "MORE", "MOVE", "MPLA", "NCSY", "NEUT", "OMIT", "PLAN", "PRIG", "REM", "RESI", "RIGU", "RTAB", "SADI",
    "SAME", "SHEL", "SIMU", "SIZE", "SPEC", "STIR", "SUMP", "SWAT", "TEMP", "TIME", "TITL", "TWIN", "TWST",
    "WGHT", "WIGL", "WPDB", "XNPD", "ZERR", "BEDE", "ANOM", "MOLE",
}  # fmt: skip


@dataclass
class _File:
    """What the instructions say, collected line by line."""

    cell: list[str] = field(default_factory=list)  # three lengths and three angles, as written
    lattice: int = 1
    symmetry: list[str] = field(default_factory=lambda: ["x,y,z"])
    elements: list[str] = field(default_factory=list)
    contents: list[float] = field(default_factory=list)
    ended: bool = False
    not_read: list[int] = field(default_factory=list)
    variables: list[float] = field(default_factory=list)
    part: int = 0
    part_occupation: float | None = None
    atoms: list[tuple[Site, float]] = field(default_factory=list)  # with the site occupation factor as written


def read_shelx(text: str, *, limits: Limits) -> list[Draft]:
    """Return the one structure of a .res file. Raises Unreadable with what is wrong."""
    found = _File()
    for line, tokens in _lines(text):
        keyword = tokens[0].upper().split("_")[0]
        if keyword == "END" or (keyword == "HKLF" and found.atoms):
            found.ended = True
            break
        _take(found, keyword, tokens=tokens, line=line)
        if len(found.atoms) > limits.max_atoms:
            raise Unreadable(f"the structure has more than {limits.max_atoms:,} atoms, the limit")
    if not found.cell:
        raise Unreadable("no unit cell in the file (CELL is missing)")
    cell = unit_cell([number(text) for text in found.cell], texts=found.cell)
    operations = _operations(found)
    vectors = cell.vectors
    sites = [
        _with_occupancy(site, factor, found=found, operations=operations, cell=vectors) for site, factor in found.atoms
    ]
    draft = from_sites(
        sites, cell=cell, operations=operations, operators_origin="of SYMM and LATT", place="", limits=limits
    )
    if found.not_read:
        draft.warn(f"lines that are no instruction of SHELX were not read: {', '.join(map(str, found.not_read[:5]))}")
    if not found.ended:
        draft.warn("the file has neither HKLF nor END; is it cut off?")
    counts = zip(found.elements, found.contents, strict=False)
    warn_on_mismatch(draft, parse_formula(" ".join(f"{element}{count:g}" for element, count in counts if count)))
    return [draft]


def _take(found: _File, keyword: str, *, tokens: list[str], line: int) -> None:
    if keyword == "CELL":
        found.cell = tokens[2:8] if _all_numbers(tokens[1:8]) else []
        if len(found.cell) != 6:
            raise Unreadable(f"line {line}: CELL needs a wavelength and six numbers, found {shown(' '.join(tokens))}")
    elif keyword == "LATT":
        found.lattice = int(number(tokens[1])) if len(tokens) > 1 and _all_numbers(tokens[1:2]) else 0
        if abs(found.lattice) not in _LATTICES:
            raise Unreadable(f"line {line}: LATT must be 1 to 7 or -1 to -7, found {shown(' '.join(tokens[1:]))}")
    elif keyword == "SYMM":
        found.symmetry.append(" ".join(tokens[1:]))
    elif keyword == "SFAC":
        found.elements += tokens[1:2] if _all_numbers(tokens[2:3]) else tokens[1:]
    elif keyword == "UNIT" and _all_numbers(tokens[1:]):
        found.contents = [number(token) for token in tokens[1:]]
    elif keyword == "FVAR" and _all_numbers(tokens[1:]):
        found.variables += [number(token) for token in tokens[1:]]
    elif keyword == "PART":
        found.part = int(number(tokens[1])) if _all_numbers(tokens[1:2]) and len(tokens) > 1 else 0
        found.part_occupation = number(tokens[2]) if len(tokens) > 2 and _all_numbers(tokens[2:3]) else None
    elif keyword not in _INSTRUCTIONS and not keyword.startswith("+"):
        _take_atom(found, tokens, line=line)


def _take_atom(found: _File, tokens: list[str], *, line: int) -> None:
    label = tokens[0]
    if _PEAK.fullmatch(label):
        return
    if len(tokens) < 5 or not _is_count(tokens[1]):
        if label.rstrip("0123456789").upper() in {element.upper() for element in found.elements}:
            raise Unreadable(f"line {line}: expected an atom, found {shown(' '.join(tokens))}. Is the file cut off?")
        found.not_read.append(line)
        return
    kind = int(tokens[1][:4])
    if not 1 <= kind <= len(found.elements):
        named = len(found.elements)
        raise Unreadable(f"line {line}: atom {label} has scattering factor {kind}, and SFAC names {named}")
    fractional = coordinates([_unfixed(token) for token in tokens[2:5]], line=line)
    factor = number(tokens[5]) if _all_numbers(tokens[5:6]) and len(tokens) > 5 else 11.0
    if found.part_occupation is not None:
        factor = found.part_occupation
    group = str(found.part) if found.part else ""
    found.atoms.append((Site(label, found.elements[kind - 1], fractional, disorder_group=group), factor))


def _unfixed(token: str) -> str:
    """Return a coordinate without the 10 that SHELX adds to one that is not refined."""
    if _all_numbers([token]) and 5 < abs(number(token)) < 15:
        return f"{number(token) - math.copysign(10, number(token)):.10f}"
    return token


def _with_occupancy(site: Site, factor: float, *, found: _File, operations: Operations, cell: Floats) -> Site:
    """Turn the site occupation factor, which counts site symmetry, into the share of atoms that are there."""
    size, index = abs(factor), round(abs(factor) / 10)
    share = factor if size < 5 else size - 10 if size < 15 else np.nan
    if size >= 15 and index <= len(found.variables):
        rest, variable = size - 10 * index, found.variables[index - 1]
        share = rest * variable if factor > 0 else rest * (1 - variable)
    if not np.isfinite(share):
        raise Unreadable(f"atom {site.name} has the site occupation {factor:g}, which no FVAR explains")
    return site.with_site_factor(share, operations=operations, cell=cell)


def _operations(found: _File) -> Operations:
    """Return the operators of SYMM by those of LATT: its centrings, with a centre of symmetry where it is positive."""
    lattice = gemmi.symops_from_hall(f"{'-' if found.lattice > 0 else ''}{_LATTICES[abs(found.lattice)]} 1")
    listed = [_op(text) for text in found.symmetry]
    return parse_operations([by_lattice.combine(op).wrap().triplet() for by_lattice in lattice for op in listed])


def _op(text: str) -> gemmi.Op:
    try:
        return gemmi.Op(text)
    except (RuntimeError, ValueError):
        raise Unreadable(f"the symmetry operator {shown(text)} (SYMM) is not understood") from None


def _all_numbers(tokens: list[str]) -> bool:
    try:
        return all(np.isfinite(number(token)) for token in tokens)
    except ValueError:
        return False


def _is_count(token: str) -> bool:
    return token.isascii() and token.isdigit()


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """Return lines that are not blank, split, with continuations ("=" at the end) joined and remarks left out."""
    joined: list[tuple[int, list[str]]] = []
    open_line = False
    for at, raw in enumerate(text.split("\n"), start=1):
        tokens = raw.split("!")[0].split()
        if not tokens or tokens[0].upper() == "REM":
            continue
        continued = tokens[-1] == "="
        body = tokens[:-1] if continued else tokens
        if open_line:
            joined[-1][1].extend(body)
        elif not (raw[0].isspace() and _is_remark(body)):
            joined.append((at, body))
        open_line = continued and bool(joined)
    return [(at, tokens) for at, tokens in joined if tokens]


def _is_remark(tokens: list[str]) -> bool:
    """Return whether an indented line is the remark that SHELX takes it for; some writers indent atoms and cell."""
    keyword = tokens[0].upper() if tokens else ""
    return keyword not in _READ and not (len(tokens) > 4 and _is_count(tokens[1]))


_LINE = re.MULTILINE | re.IGNORECASE
FORMAT = Format(
    "SHELX",
    label="SHELX .res",
    read=read_shelx,
    patterns=(
        re.compile(rf"^[ \t]*CELL[ \t]+{NUMBER}[ \t]+{ROW}", _LINE),
        re.compile(r"^[ \t]*SFAC[ \t]", _LINE),
    ),
    suffixes=("res", "ins"),
)

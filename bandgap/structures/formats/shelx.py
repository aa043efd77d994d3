"""Read SHELX .res and .ins files, also those of AIRSS: cell, symmetry, atoms and occupation.

References: G. M. Sheldrick, Acta Cryst. A64 (2008) 112; the SHELXL manual for the instructions.
"""

import math
import re
from dataclasses import dataclass, field

import gemmi
import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import NUMBER, ROW, Draft, Format, Unreadable, coordinates, number
from bandgap.structures.formula import formula_difference, parse_formula
from bandgap.structures.operators import Operations, parse_operations
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Site, from_sites, masked_solvent
from bandgap.structures.unit_cells import unit_cell

Floats = NDArray[np.float64]
_LATTICES = dict(enumerate("PIRFABC", start=1))  # by the number of LATT
_PEAK = re.compile(r"Q\d+", re.IGNORECASE)  # residual electron density, not an atom
_USED_INSTRUCTIONS = {"CELL", "LATT", "SYMM", "SFAC", "FVAR", "PART", "HKLF", "END"}
_INSTRUCTIONS = {
    "ACTA", "AFIX", "ANIS", "ANSC", "ANSR", "BASF", "BIND", "BLOC", "BOND", "BUMP",
    "CGLS", "CHIV", "CONF", "CONN", "DAMP", "DANG", "DEFS", "DELU", "DFIX", "DISP", "EADP",
    "EQIV", "EXTI", "EXYZ", "FEND", "FLAT", "FMAP", "FRAG", "FREE", "GRID", "HFIX", "HKLF",
    "HTAB", "ISOR", "L.S.", "LAUE", "LIST", "LONE", "MERG", "MORE", "MOVE", "MPLA", "NCSY",
    "NEUT", "OMIT", "PLAN", "PRIG", "REM", "RESI", "RIGU", "RTAB", "SADI", "SAME", "SHEL",
    "SIMU", "SIZE", "SPEC", "STIR", "SUMP", "SWAT", "TEMP", "TIME", "TITL", "TWIN", "TWST",
    "WGHT", "WIGL", "WPDB", "XNPD", "ZERR", "BEDE", "ANOM", "MOLE",
}  # fmt: skip


@dataclass
class _Contents:
    """Values of the instructions, collected line by line."""

    cell: list[str] = field(default_factory=list)  # three lengths and three angles, as written
    lattice: int = 1
    symmetry: list[str] = field(default_factory=lambda: ["x,y,z"])
    elements: list[str] = field(default_factory=list)
    contents: list[float] = field(default_factory=list)
    ended: bool = False
    is_masked: bool = False
    not_read: list[int] = field(default_factory=list)
    variables: list[float] = field(default_factory=list)
    part: int = 0
    part_occupation: float | None = None
    atoms: list[tuple[Site, float]] = field(default_factory=list)  # with site occupation factors


def read_shelx(text: str, *, limits: Limits) -> list[Draft]:
    """Return the structure of a .res file. Raises Unreadable if it is not valid."""
    file = _Contents()
    for line, tokens in _lines(text):
        keyword = tokens[0].upper().split("_")[0]
        if keyword == "END" or (keyword == "HKLF" and file.atoms):
            file.ended = True
            break
        _read_instruction(file, keyword, tokens=tokens, line=line)
        if len(file.atoms) > limits.max_atoms:
            raise Unreadable(f"the structure has more than {limits.max_atoms:,} atoms, the limit")
    if not file.cell:
        raise Unreadable("no unit cell in the file (CELL is missing)")
    cell = unit_cell([number(text) for text in file.cell], texts=file.cell)
    operations = _operations(file)
    vectors = cell.vectors
    sites = [
        _with_occupancy(site, factor, file=file, operations=operations, cell=vectors)
        for site, factor in file.atoms
    ]
    draft = from_sites(
        sites,
        cell=cell,
        operations=operations,
        operators_origin="of SYMM and LATT",
        place="",
        limits=limits,
    )
    if file.not_read:
        draft.warn(
            "lines that are no instruction of SHELX were not read:"
            f" {', '.join(map(str, file.not_read[:5]))}"
        )
    if file.is_masked:
        draft.warn(masked_solvent("its electrons (ABIN)"))
    if not file.ended:
        draft.warn("the file has neither HKLF nor END; is it cut off?")
    counts = zip(file.elements, file.contents, strict=False)
    stated = parse_formula(" ".join(f"{element}{count:g}" for element, count in counts if count))
    if difference := formula_difference(draft, stated):  # UNIT is often an estimate
        draft.warn(f"{difference} (UNIT); are atoms missing?")
    return [draft]


def _read_instruction(file: _Contents, keyword: str, *, tokens: list[str], line: int) -> None:
    if keyword == "CELL":
        file.cell = tokens[2:8] if _all_numbers(tokens[1:8]) else []
        if len(file.cell) != 6:
            raise Unreadable(
                f"line {line}: CELL needs a wavelength and six numbers, found"
                f" {quoted(' '.join(tokens))}"
            )
    elif keyword == "LATT":
        file.lattice = (
            int(number(tokens[1])) if len(tokens) > 1 and _all_numbers(tokens[1:2]) else 0
        )
        if abs(file.lattice) not in _LATTICES:
            raise Unreadable(
                f"line {line}: LATT must be 1 to 7 or -1 to -7, found"
                f" {quoted(' '.join(tokens[1:]))}"
            )
    elif keyword == "SYMM":
        file.symmetry.append(" ".join(tokens[1:]))
    elif keyword == "SFAC":
        file.elements += tokens[1:2] if _all_numbers(tokens[2:3]) else tokens[1:]
    elif keyword == "UNIT" and _all_numbers(tokens[1:]):
        file.contents = [number(token) for token in tokens[1:]]
    elif keyword == "FVAR" and _all_numbers(tokens[1:]):
        file.variables += [number(token) for token in tokens[1:]]
    elif keyword == "PART":
        file.part = int(number(tokens[1])) if _all_numbers(tokens[1:2]) and len(tokens) > 1 else 0
        file.part_occupation = (
            number(tokens[2]) if len(tokens) > 2 and _all_numbers(tokens[2:3]) else None
        )
    elif keyword == "ABIN":
        file.is_masked = True
    elif keyword not in _INSTRUCTIONS and not keyword.startswith("+"):
        _read_atom(file, tokens, line=line)


def _read_atom(file: _Contents, tokens: list[str], *, line: int) -> None:
    label = tokens[0]
    if _PEAK.fullmatch(label):
        return
    if len(tokens) < 5 or not _is_count(tokens[1]):
        if label.rstrip("0123456789").upper() in {element.upper() for element in file.elements}:
            raise Unreadable(
                f"line {line}: expected an atom, found {quoted(' '.join(tokens))}. Is the file cut"
                " off?"
            )
        file.not_read.append(line)
        return
    kind = int(tokens[1][:4])
    if not 1 <= kind <= len(file.elements):
        n_elements = len(file.elements)
        raise Unreadable(
            f"line {line}: atom {label} has scattering factor {kind}, and SFAC names {n_elements}"
        )
    fractional = coordinates([_without_fixed_offset(token) for token in tokens[2:5]], line=line)
    factor = number(tokens[5]) if _all_numbers(tokens[5:6]) and len(tokens) > 5 else 11.0
    if file.part_occupation is not None:
        factor = file.part_occupation
    group = str(file.part) if file.part else ""
    file.atoms.append(
        (Site(label, file.elements[kind - 1], fractional, disorder_group=group), factor)
    )


def _without_fixed_offset(token: str) -> str:
    """Return a coordinate without the 10 that SHELX adds to a fixed one."""
    if _all_numbers([token]) and 5 < abs(number(token)) < 15:
        return f"{number(token) - math.copysign(10, number(token)):.10f}"
    return token


def _with_occupancy(
    site: Site, factor: float, *, file: _Contents, operations: Operations, cell: Floats
) -> Site:
    """Return the site with the occupancy of its site occupation factor, which may use FVAR."""
    size = abs(factor)
    index = round(abs(factor) / 10)
    site_factor = factor if size < 5 else size - 10 if size < 15 else np.nan
    if size >= 15 and index <= len(file.variables):
        multiplier = size - 10 * index
        variable = file.variables[index - 1]
        site_factor = multiplier * variable if factor > 0 else multiplier * (1 - variable)
    if not np.isfinite(site_factor):
        raise Unreadable(
            f"atom {site.name} has the site occupation {factor:g}, which no FVAR explains"
        )
    return site.with_site_factor(site_factor, operations=operations, cell=cell)


def _operations(file: _Contents) -> Operations:
    """Return the products of the operators of SYMM and LATT.

    LATT gives the centring, and a centre of symmetry if it is positive.
    """
    lattice = gemmi.symops_from_hall(
        f"{'-' if file.lattice > 0 else ''}{_LATTICES[abs(file.lattice)]} 1"
    )
    listed = [_operator(text) for text in file.symmetry]
    return parse_operations(
        [by_lattice.combine(op).wrap().triplet() for by_lattice in lattice for op in listed]
    )


def _operator(text: str) -> gemmi.Op:
    try:
        return gemmi.Op(text)
    except (RuntimeError, ValueError):
        raise Unreadable(f"the symmetry operator {quoted(text)} (SYMM) is not understood") from None


def _all_numbers(tokens: list[str]) -> bool:
    try:
        return all(np.isfinite(number(token)) for token in tokens)
    except ValueError:
        return False


def _is_count(token: str) -> bool:
    return token.isascii() and token.isdigit()


def _lines(text: str) -> list[tuple[int, list[str]]]:
    """Return the number and the tokens of every line, without blank lines and remarks.

    A line that ends with "=" is joined with the next one.
    """
    lines: list[tuple[int, list[str]]] = []
    is_open = False
    for at, raw in enumerate(text.split("\n"), start=1):
        tokens = raw.split("!")[0].split()
        if not tokens or tokens[0].upper() == "REM":
            continue
        continued = tokens[-1] == "="
        body = tokens[:-1] if continued else tokens
        if is_open:
            lines[-1][1].extend(body)
        elif not (raw[0].isspace() and _is_remark(body)):
            lines.append((at, body))
        is_open = continued and bool(lines)
    return [(at, tokens) for at, tokens in lines if tokens]


def _is_remark(tokens: list[str]) -> bool:
    """Return whether an indented line is a remark, as it is for SHELX.

    Some programs indent atoms and instructions; these lines are no remarks.
    """
    keyword = tokens[0].upper() if tokens else ""
    return keyword not in _USED_INSTRUCTIONS and not (len(tokens) > 4 and _is_count(tokens[1]))


_LINE = re.MULTILINE | re.IGNORECASE
FORMAT = Format(
    "SHELX",
    label="SHELX .res",
    read=read_shelx,
    patterns=(
        re.compile(rf"^[ \t]*CELL[ \t]+{NUMBER}[ \t]+{ROW}", _LINE),
        re.compile(r"^[ \t]*SFAC[ \t]", _LINE),
    ),
)

"""Read CIF; every block with atoms becomes one structure.

Reference: S. R. Hall et al., Acta Cryst. A47 (1991) 655. gemmi reads the syntax. Symmetry comes
from the operators in the file, and from its space group symbol only if it lists no operators,
because symbols are written in many ways (P2(1)/c, Pmn2(1), ?).
"""

import re
from collections.abc import Iterator

from gemmi import cif

from bandgap.foundation.errors import shown
from bandgap.structures.draft import Draft, Format, Unreadable, number, refused_draft
from bandgap.structures.elements import element_of
from bandgap.structures.formula import parse_formula, warn_on_mismatch
from bandgap.structures.operators import (
    Operations,
    operations_from_hall,
    operations_from_symbol,
    parse_operations,
)
from bandgap.structures.records import Limits
from bandgap.structures.symmetry import Site, from_sites
from bandgap.structures.unit_cells import UnitCell, unit_cell

_HEADER = re.compile(r"data_\S*", re.IGNORECASE)
# A loop without values, as GULP writes it.
_EMPTY_LOOP = re.compile(
    r"^[ \t]*loop_[ \t]*\n(?:[ \t]*_\S+[ \t]*\n)+(?=[ \t]*_\S+[ \t]+\S)", re.MULTILINE
)
_AT_LINE = re.compile(r"^[^:]*:(\d+)(?::\d+)?\S*(?: in \S+)?:?\s*(.*)", re.DOTALL)
_UNCERTAINTY = re.compile(r"\(\d*\)$")
_CELL = [
    f"_cell_{name}"
    for name in ("length_a", "length_b", "length_c", "angle_alpha", "angle_beta", "angle_gamma")
]
# Elements that labels may continue with a letter: CA1 is carbon unless the formula has Ca.
_AMBIGUOUS = {"C", "H", "N", "O", "S", "P", "F", "B", "I"}
_OPERATORS = (
    "_space_group_symop_operation_xyz",
    "_symmetry_equiv_pos_as_xyz",
    "_space_group_symop.operation_xyz",
    "_symmetry_equiv.pos_as_xyz",
)
_SYMBOLS = (
    "_space_group_name_H-M_alt",
    "_symmetry_space_group_name_H-M",
    "_space_group_name_H-M_full",
    "_symmetry_space_group_name_H-M_alt",
)
_HALL = ("_space_group_name_Hall", "_symmetry_space_group_name_Hall")
_NUMBERS = ("_space_group_IT_number", "_symmetry_Int_Tables_number")


def read_cif(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every block with atoms or a cell, or a refused one if there is none."""
    plain = text if text.isascii() else re.sub(r"[^\x00-\x7f]", "_", text)
    plain = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", " ", plain)
    plain = _EMPTY_LOOP.sub(lambda match: "\n" * match.group().count("\n"), plain)
    try:
        blocks: list[cif.Block | Draft] = list(cif.read_string(plain, check_level=0))
    except (ValueError, RuntimeError) as error:
        blocks = _blocks_one_by_one(plain, error, max_blocks=limits.max_structures)
    has_several = (
        sum(isinstance(block, Draft) or _has_atoms(block) or _has_cell(block) for block in blocks)
        > 1
    )
    n_drafts = 0
    for block in blocks:
        if isinstance(block, Draft):
            draft = block
        elif _has_atoms(block) or _has_cell(block):
            draft = _from_block(block, limits=limits)
        else:
            continue
        n_drafts += 1
        draft.suffix = str(n_drafts)
        draft.id = draft.id if has_several else ""
        yield draft
    if not n_drafts:
        yield refused_draft(_reason_without_atoms(text, len(blocks)))


def _reason_without_atoms(text: str, n_blocks: int) -> str:
    if "_atom_site.Cartn_x" in text:
        return "a macromolecular CIF (_atom_site.Cartn_x) is not supported. Export it as PDB."
    count = f"{n_blocks} blocks" if n_blocks != 1 else "one block"
    return (
        "no atoms in the file"
        f" ({f'{count}, none with _atom_site_fract_x' if n_blocks else 'no data_ block'})"
    )


def _from_block(block: cif.Block, *, limits: Limits) -> Draft:
    name = block.name.strip()
    place = f"block {name}" if name else "the block without a name"
    try:
        draft = _structure(block, place, limits=limits)
    except Unreadable as error:
        draft = refused_draft(str(error))
    draft.id = name
    if name:
        draft.info["block"] = name
    return draft


def _structure(block: cif.Block, place: str, *, limits: Limits) -> Draft:
    if not _has_atoms(block):
        raise Unreadable(f"{place} has a unit cell and no atoms (_atom_site_fract_x is missing)")
    values = [value_of(block, tag) for tag in _CELL]
    if not all(values):
        missing = _CELL[values.index("")]
        raise Unreadable(
            f"no unit cell in {place} ({missing} is missing). Export a molecule without a cell as"
            " XYZ."
        )
    numbers = [_number(value, what=tag) for tag, value in zip(_CELL, values, strict=True)]
    cell = unit_cell(numbers, texts=[_UNCERTAINTY.sub("", value) for value in values])
    operations, origin, notes = _symmetry(block, place, cell=cell)
    formula = parse_formula(value_of(block, "_chemical_formula_sum"))
    sites = _sites(block, formula)
    draft = from_sites(
        sites, cell=cell, operations=operations, operators_origin=origin, place=place, limits=limits
    )
    for note in notes:
        draft.warn(note)
    warn_on_mismatch(draft, formula)
    return draft


def _sites(block: cif.Block, formula: dict[str, float]) -> list[Site]:
    x, y, z = (_column(block, f"fract_{axis}") for axis in "xyz")
    n = len(x)
    if not len(y) == len(z) == n:
        raise Unreadable("_atom_site_fract_x, _y and _z have different lengths")
    types = _column(block, "type_symbol", n)
    labels = _column(block, "label", n)
    occupancies = _column(block, "occupancy", n)
    groups = _column(block, "disorder_group", n)
    assemblies = _column(block, "disorder_assembly", n)
    sites = []
    for i in range(n):
        symbol = _symbol(types[i], labels[i], formula=formula)
        name = labels[i] or f"{symbol}{i + 1}"
        what = f"a coordinate of atom {name}"
        fractional = (
            _number(x[i], what=what),
            _number(y[i], what=what),
            _number(z[i], what=what),
        )
        occupancy = (
            _number(occupancies[i], what=f"the occupancy of atom {name}") if occupancies[i] else 1.0
        )
        group = "" if groups[i] == "0" else groups[i]
        sites.append(Site(name, symbol, fractional, occupancy, group, assemblies[i]))
    return sites


def _symbol(type_symbol: str, label: str, *, formula: dict[str, float]) -> str:
    """Return the element of a type symbol, or of a label without one.

    If neither is an element, the text itself is returned. A label such as CA1 may begin with a
    symbol of one or two letters; the formula decides.
    """
    if type_symbol:
        return element_of(type_symbol) or type_symbol
    letters = re.match(r"[A-Za-z]*", label)
    start = letters.group() if letters else ""
    two, one = element_of(start[:2]), element_of(start[:1])
    if len(start) == 1 or not two:
        return one or label
    if not one or two in formula or (start[1].islower() and one not in formula):
        return two
    return (
        one
        if one in formula or (one in _AMBIGUOUS and two not in ("Cl", "Br", "Si", "Se"))
        else two
    )


def _symmetry(block: cif.Block, place: str, *, cell: UnitCell) -> tuple[Operations, str, list[str]]:
    """Return the operators (operation, 3, 4) of a block, where they come from, and warnings.

    Raises Unreadable if the block lists no operators and its space group is unknown.
    """
    symbol = _first(block, _SYMBOLS)
    by_symbol = operations_from_symbol(symbol, cell) if symbol else None
    triplets = [
        _operator_text(raw)
        for tag in _OPERATORS
        for raw in block.find_values(tag)
        if not cif.is_null(raw)
    ]
    if triplets:
        operations = parse_operations(triplets)
        return operations, f"listed in {place}", _disagreement(operations, by_symbol, symbol, place)
    if by_symbol is not None:
        return by_symbol, f"of the space group {symbol} ({place})", []
    hall = _first(block, _HALL)
    by_hall = operations_from_hall(hall) if hall else None
    if by_hall is not None:
        return by_hall, f"of the Hall symbol {hall} ({place})", []
    number = _first(block, _NUMBERS)
    if number == "1" or (not symbol and not hall and number in ("", "0")):
        identity = parse_operations(["x,y,z"])
        note = f"no symmetry in {place}; its atoms were taken as the whole cell (P 1)"
        return identity, f"of {place}", [] if number == "1" else [note]
    space_group = f"symbol {symbol or hall!r}" if symbol or hall else f"number {number}"
    raise Unreadable(
        f"{place} lists no symmetry operators, and its space group's {space_group} does not say"
        " which they are. Export with _space_group_symop_operation_xyz, or in P 1."
    )


def _disagreement(
    operations: Operations, by_symbol: Operations | None, symbol: str, place: str
) -> list[str]:
    """Return a warning if operators and symbol differ in the number of operators."""
    if by_symbol is None or len(by_symbol) == len(operations):
        return []
    listed = (
        f"{place} lists {len(operations)} symmetry operators and its space group {symbol} has"
        f" {len(by_symbol)}"
    )
    return [f"{listed}; the listed ones were used"]


def _first(block: cif.Block, tags: tuple[str, ...]) -> str:
    for tag in tags:
        raw = block.find_value(tag)
        if (
            raw is not None
            and not cif.is_null(raw)
            and cif.as_string(raw).strip() not in ("", "?", ".")
        ):
            return cif.as_string(raw).strip()
    return ""


def _operator_text(raw: str) -> str:
    """Return an operator without quotes and without a number before it, as some programs write."""
    text = cif.as_string(raw).strip()
    first, _, operator = text.partition(" ")
    return operator if first.isdigit() and operator else text


def _blocks_one_by_one(text: str, error: Exception, *, max_blocks: int) -> list[cif.Block | Draft]:
    """Read the blocks of a file with a syntax error one by one, to keep those without errors."""
    blocks: list[cif.Block | Draft] = []
    pieces = _pieces(text.split("\n"))
    if not pieces:
        return [refused_draft(f"not a CIF: {_located_message(error, 0)}")]
    for first, lines in pieces[: max_blocks + 1]:
        try:
            blocks += cif.read_string("\n".join(lines) + "\n", check_level=0)
        except (ValueError, RuntimeError) as block_error:
            header = _HEADER.match(lines[0].strip())
            name = header.group()[5:] if header else ""
            sentence = (
                f"block {name} is not valid CIF: {_located_message(block_error, first)}. Is the"
                " file cut off?"
            )
            draft = refused_draft(sentence)
            draft.id = name
            blocks.append(draft)
    return blocks


def _pieces(lines: list[str]) -> list[tuple[int, list[str]]]:
    """Return the first line number (from 0) and the lines of every block.

    A line with data_ inside a text field does not begin a block.
    """
    starts = []
    in_text_field = False
    for index, line in enumerate(lines):
        if line.startswith(";"):
            in_text_field = not in_text_field
        elif not in_text_field and _HEADER.match(line.strip()):
            starts.append(index)
    ends = [*starts[1:], len(lines)] if starts else []
    return [(start, lines[start:end]) for start, end in zip(starts, ends, strict=True)]


def _located_message(error: Exception, lines_before: int) -> str:
    """Return gemmi's message with the line number in the file instead of the block."""
    match = _AT_LINE.match(str(error))
    return (
        f"line {int(match.group(1)) + lines_before}, {match.group(2)}"
        if match
        else shown(str(error))
    )


def value_of(block: cif.Block, tag: str) -> str:
    """Return the value of a tag without quotes, "" if it is missing, ? or a dot."""
    raw = block.find_value(tag) or block.find_value(_dotted(tag))
    return "" if raw is None else _text(raw)


def _dotted(tag: str) -> str:
    """Return a tag in the style of newer dictionaries: _cell.length_a for _cell_length_a."""
    category = next((c for c in ("_cell", "_atom_site") if tag.startswith(c + "_")), "")
    return f"{category}.{tag[len(category) + 1 :]}" if category else tag


def _text(raw: str) -> str:
    """Return a value without quotes, "" for ? and a dot."""
    if raw in ("?", "."):
        return ""
    return cif.as_string(raw).strip() if raw[:1] in ("'", '"', ";") else raw


def _has_atoms(block: cif.Block) -> bool:
    return any(len(_column(block, f"fract_{axis}")) for axis in "xyz")


def _has_cell(block: cif.Block) -> bool:
    return bool(value_of(block, _CELL[0]))


def _column(block: cif.Block, name: str, length: int | None = None) -> list[str]:
    """Return a column of _atom_site, with "" for ? and a dot.

    If the column is missing or has another length than `length`, the result is `length` times "".
    """
    tag = f"_atom_site_{name}"
    values = [_text(raw) for raw in block.find_values(tag)]
    if not values:
        values = [_text(raw) for raw in block.find_values(_dotted(tag))]
    return values if length is None or len(values) == length else [""] * length


def _number(text: str, *, what: str) -> float:
    if not text:
        raise Unreadable(f"{what} is missing")
    try:
        return number(_UNCERTAINTY.sub("", text))
    except ValueError:
        raise Unreadable(f"{what} is {shown(text)}, not a number") from None


_LINE = re.MULTILINE | re.IGNORECASE
FORMAT = Format(
    "CIF",
    label="CIF",
    read=read_cif,
    patterns=(
        re.compile(r"^[ \t]*data_", _LINE),
        re.compile(r"^[ \t]*_(?:cell|atom_site|symmetry|space_group)", _LINE),
    ),
    suffixes=("cif", "mcif"),
)

"""Which symmetry operators a CIF block means."""

from gemmi import cif

from bandgap.structures.draft import Unreadable
from bandgap.structures.symmetry import (
    Operations,
    operations_from_hall,
    operations_from_symbol,
    parse_operations,
)

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


def symmetry(block: cif.Block, place: str) -> tuple[Operations, list[str]]:
    """Return the operators (operation, 3, 4) of a block, and sentences on what is odd about them.

    Raises Unreadable when the block names a space group that is not understood and lists no operators.
    """
    symbol = _first(block, _SYMBOLS)
    by_symbol = operations_from_symbol(symbol) if symbol else None
    triplets = [_plain(raw) for tag in _OPERATORS for raw in block.find_values(tag) if not cif.is_null(raw)]
    if triplets:
        operations = parse_operations(triplets)
        return operations, _disagreement(operations, by_symbol, symbol, place)
    if by_symbol is not None:
        return by_symbol, []
    hall = _first(block, _HALL)
    by_hall = operations_from_hall(hall) if hall else None
    if by_hall is not None:
        return by_hall, []
    number = _first(block, _NUMBERS)
    if number == "1" or (not symbol and not hall and number in ("", "0")):
        identity = parse_operations(["x,y,z"])
        note = f"no symmetry in {place}; its atoms were taken as the whole cell (P 1)"
        return identity, [] if number == "1" else [note]
    named = f"symbol {symbol or hall!r}" if symbol or hall else f"number {number}"
    raise Unreadable(
        f"{place} lists no symmetry operators, and its space group's {named} does not say which they are. "
        "Export with _space_group_symop_operation_xyz, or in P 1."
    )


def _disagreement(operations: Operations, by_symbol: Operations | None, symbol: str, place: str) -> list[str]:
    """Say so when operators and symbol differ in number; R lattices have two settings under one symbol."""
    if by_symbol is None or len(by_symbol) == len(operations):
        return []
    if symbol.strip().upper().startswith("R") and len(operations) * 3 == len(by_symbol):
        return []
    listed = f"{place} lists {len(operations)} symmetry operators and its space group {symbol} has {len(by_symbol)}"
    return [f"{listed}; the listed ones were used"]


def _first(block: cif.Block, tags: tuple[str, ...]) -> str:
    for tag in tags:
        raw = block.find_value(tag)
        if raw is not None and not cif.is_null(raw) and cif.as_string(raw).strip() not in ("", "?", "."):
            return cif.as_string(raw).strip()
    return ""


def _plain(raw: str) -> str:
    """Return an operator without quotes and without the running number that some programs put in front."""
    text = cif.as_string(raw).strip()
    first, _, rest = text.partition(" ")
    return rest if first.isdigit() and rest else text

"""The symmetry operators of a CIF block, by the way in which the block states its space group.

Listed operators are used first. Without them the Hall symbol is used, which states origin and axes,
then the Hermann-Mauguin symbol with its setting. Magnetic operators are used without time reversal.

References: International Tables for Crystallography A, section 3.4; S. R. Hall et al., Acta Cryst.
A47 (1991) 655; the magnetic CIF dictionary (magCIF).
"""

import re
from dataclasses import dataclass, field

import gemmi
import numpy as np
from gemmi import Op, cif

from bandgap.structures.draft import Unreadable
from bandgap.structures.formats.cif_values import first_value, tags_of
from bandgap.structures.operators import (
    Operations,
    check_group,
    operations_from_hall,
    operations_from_symbol,
    parse_operations,
)
from bandgap.structures.unit_cells import UnitCell

_OPERATORS = (
    "_space_group_symop_operation_xyz",
    "_symmetry_equiv_pos_as_xyz",
    "_space_group_symop.operation_xyz",
    "_symmetry_equiv.pos_as_xyz",
)
_MAGNETIC_OPERATORS = (
    "_space_group_symop_magn_operation.xyz",
    "_space_group_symop_magn_operation_xyz",
    "_space_group_symop.magn_operation_xyz",
)
_MAGNETIC_CENTERINGS = (
    "_space_group_symop_magn_centering.xyz",
    "_space_group_symop_magn_centering_xyz",
    "_space_group_symop.magn_centering_xyz",
)
_SYMBOLS = (
    "_space_group_name_H-M_alt",
    "_symmetry_space_group_name_H-M",
    "_space_group_name_H-M_full",
    "_symmetry_space_group_name_H-M_alt",
    "_space_group.name_H-M_alt",
    "_symmetry.space_group_name_H-M",
)
_HALL = (
    "_space_group_name_Hall",
    "_symmetry_space_group_name_Hall",
    "_space_group.name_Hall",
    "_symmetry.space_group_name_Hall",
)
_CODES = ("_space_group_IT_coordinate_system_code", "_space_group.IT_coordinate_system_code")
_NUMBERS = (
    "_space_group_IT_number",
    "_symmetry_Int_Tables_number",
    "_space_group.IT_number",
    "_symmetry.Int_Tables_number",
)
# Tags of modulated and composite structures, whose operators act on more than three coordinates.
_MODULATED_TAGS = (
    *("_space_group_symop_ssg", "_space_group_ssg", "_cell_modulation_dimension"),
    *("_cell_wave_vector", "_cell_subsystem", "_atom_site_fourier_wave_vector"),
    *("_atom_site_displace_", "_atom_site_occ_fourier", "_atom_site_moment_fourier"),
    *("_atom_site_occ_special_func", "_atom_site_moment_special_func"),
)
# Tags, with underscores for dots, that state the symmetry in whatever dictionary.
_SYMMETRY_TAG = re.compile(r"space_?group|symop|symmetry", re.IGNORECASE)
# Tags that state no operators.
_WITHOUT_OPERATORS = re.compile(r"crystal_system|cell_setting|bravais|(?:^|_)id$", re.IGNORECASE)
_TRIVIAL = {"p1", "1", "0", "x,y,z", "p1.1", "1.1"}  # values that mean P 1
# x,y,z and a translation, such as 1_655 without _, by which tables of bonds name another cell.
_NEIGHBOUR_CELL = re.compile(r"1\d{3}")
_TIME_REVERSAL = re.compile(r"\s*,\s*[+-]?1\s*$")


@dataclass(frozen=True, eq=False)
class Symmetry:
    """Symmetry operators, and where they come from.

    Parameters
    ----------
    operations
        The operators, (operation, 3, 4).
    source
        Where they come from, for messages: "of the space group P 21/c (block x)".
    notes
        Warnings.
    """

    operations: Operations
    source: str
    notes: list[str] = field(default_factory=list)


def symmetries_of(block: cif.Block, place: str, *, cell: UnitCell) -> list[Symmetry]:
    """Return the symmetry of a block, or both if its space group has two possible origins.

    `place` names the block in messages. Raises Unreadable if the block lists no operators and its
    space group is unknown, and for modulated structures.
    """
    _refuse_modulated(block, place)
    symbol = first_value(block, _SYMBOLS)
    code = first_value(block, _CODES)
    by_symbol = operations_from_symbol(symbol, cell, code=code) if symbol else []
    triplets = _triplets(block, _OPERATORS)
    if triplets:
        operations = parse_operations(triplets)
        check_group(operations, origin=f"listed in {place}")
        notes = _disagreement(operations, by_symbol, symbol, place)
        notes = notes or _contradiction(operations, block, place)
        return [Symmetry(operations, f"listed in {place}", notes)]
    if magnetic := _magnetic_triplets(block):
        operations = parse_operations(magnetic)
        check_group(operations, origin=f"of the magnetic group of {place}")
        return [Symmetry(operations, f"of the magnetic group of {place}")]
    hall = first_value(block, _HALL)
    by_hall = operations_from_hall(hall) if hall else None
    if by_hall is not None:
        notes = _disagreement(by_hall, by_symbol, symbol, place, stated_by=f"Hall symbol {hall}")
        notes = notes or _contradiction(by_hall, block, place)
        return [Symmetry(by_hall, f"of the Hall symbol {hall} ({place})", notes)]
    if by_symbol:
        source = f"of the space group {symbol} ({place})"
        return [
            Symmetry(operations, source, _contradiction(operations, block, place))
            for operations in by_symbol
        ]
    return [_without_symbol(block, place, symbol=symbol or hall)]


def ambiguous_origin(block: cif.Block, place: str) -> Unreadable:
    """Return the error of a space group with two origins between which nothing decides."""
    symbol = first_value(block, _SYMBOLS)
    return Unreadable(
        f"the space group {symbol} of {place} has two origins, and neither the symbol nor the"
        " formula, Z and density of the file say which one its coordinates have. Export with"
        f" _space_group_symop_operation_xyz, or write {symbol}:1 or {symbol}:2."
    )


def _without_symbol(block: cif.Block, place: str, *, symbol: str) -> Symmetry:
    """Return P 1 for a block without a space group. Raises Unreadable for an unknown one."""
    number = first_value(block, _NUMBERS)
    unread_tag = "" if number == "1" else _unread_symmetry(block)
    if unread_tag and "magn" in unread_tag.lower():
        raise Unreadable(
            f"{place} states a magnetic space group and lists no operators"
            " (_space_group_symop_magn_operation.xyz). Export with them, or in P 1."
        )
    if unread_tag and not symbol:
        raise Unreadable(
            f"{place} states its symmetry by {unread_tag}, which is not read. Export with"
            " _space_group_symop_operation_xyz, or in P 1."
        )
    if number == "1" or (not symbol and number in ("", "0")):
        identity = parse_operations(["x,y,z"])
        note = f"no symmetry in {place}; its atoms were taken as the whole cell (P 1)"
        return Symmetry(identity, f"of {place}", [] if number == "1" else [note])
    space_group = f"symbol {symbol!r}" if symbol else f"number {number}"
    raise Unreadable(
        f"{place} lists no symmetry operators, and its space group's {space_group} does not say"
        " which they are. Export with _space_group_symop_operation_xyz, or in P 1."
    )


def _unread_symmetry(block: cif.Block) -> str:
    """Return a tag that states a symmetry other than P 1 and is none of those that are read."""
    tags_read = {tag.lower() for tag in (*_SYMBOLS, *_HALL, *_NUMBERS, *_CODES)}
    for tag in tags_of(block):
        plain_tag = tag.replace(".", "_")
        is_unread = _SYMMETRY_TAG.search(plain_tag) and not _WITHOUT_OPERATORS.search(plain_tag)
        if not is_unread or tag.lower() in tags_read:
            continue
        texts = [str(cif.as_string(raw)) for raw in block.find_values(tag) if not cif.is_null(raw)]
        plain_texts = {re.sub(r"[\s_]", "", text).lower() for text in texts}
        if tag.lower().startswith("_geom_"):
            plain_texts = {text for text in plain_texts if not _NEIGHBOUR_CELL.fullmatch(text)}
        if plain_texts - {"", *_TRIVIAL}:
            return tag
    return ""


def _disagreement(
    operations: Operations,
    by_symbol: list[Operations],
    symbol: str,
    place: str,
    *,
    stated_by: str = "",
) -> list[str]:
    """Return a warning if operators and symbol differ in the number of operators."""
    if not by_symbol or len(by_symbol[0]) == len(operations):
        return []
    operators = f"{len(operations)} symmetry operators"
    listed = (
        f"{place} has a {stated_by} of {operators}" if stated_by else f"{place} lists {operators}"
    )
    return [
        f"{listed} and its space group {symbol} has {len(by_symbol[0])}; the"
        f" {'former' if stated_by else 'listed ones'} were used"
    ]


def _contradiction(operations: Operations, block: cif.Block, place: str) -> list[str]:
    """Return a warning if the block's number of its space group is of other point symmetry.

    The rotations of a point group are counted, which are the same in all settings and cells.
    """
    text = first_value(block, _NUMBERS)
    if not re.fullmatch(r"[1-9]\d{0,2}", text):
        return []
    space_group = gemmi.find_spacegroup_by_number(int(text))
    if space_group is None:
        return []
    n_stated = len(space_group.operations().sym_ops)
    n_rotations = len(np.unique(np.round(operations[:, :, :3]), axis=0))
    if n_stated == n_rotations:
        return []
    return [
        f"{place} has the number {text} of a space group with {n_stated} rotations, and its"
        f" symmetry operators have {n_rotations}; the operators were used. Are atoms missing or"
        " doubled?"
    ]


def _refuse_modulated(block: cif.Block, place: str) -> None:
    dimension = first_value(block, ("_cell_modulation_dimension", "_cell.modulation_dimension"))
    if dimension == "0":
        return
    tags = [tag.lower().replace(".", "_") for tag in tags_of(block)]
    for beginning in _MODULATED_TAGS:
        if any(tag.startswith(beginning) for tag in tags):
            raise Unreadable(
                f"{place} is a modulated structure ({beginning}...), whose symmetry acts on more"
                " than three coordinates. Export a commensurate supercell in P 1."
            )


def _magnetic_triplets(block: cif.Block) -> list[str]:
    """Return magnetic operators times centrings as triplets, without their time reversal."""
    operators = _triplets(block, _MAGNETIC_OPERATORS)
    centerings = _triplets(block, _MAGNETIC_CENTERINGS) or ["x,y,z"]
    try:
        return [
            Op(_TIME_REVERSAL.sub("", centering))
            .combine(Op(_TIME_REVERSAL.sub("", operator)))
            .wrap()
            .triplet()
            for centering in centerings
            for operator in operators
        ]
    except (RuntimeError, ValueError):
        raise Unreadable("the magnetic symmetry operators are not understood") from None


def _triplets(block: cif.Block, tags: tuple[str, ...]) -> list[str]:
    return [
        _operator_text(raw)
        for tag in tags
        for raw in block.find_values(tag)
        if not cif.is_null(raw)
    ]


def _operator_text(raw: str) -> str:
    """Return an operator without quotes and without a number before it, as some programs write."""
    text = str(cif.as_string(raw)).strip()
    first, _, operator = text.partition(" ")
    return operator if first.isdigit() and operator else text

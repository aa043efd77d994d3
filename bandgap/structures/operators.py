"""Read symmetry operators from triplets or space group symbols, and check them against the cell.

An operator x -> R x + t is a symmetry of a crystal only if R maps the cell onto itself, which is
R^T G R = G for the metric tensor G (International Tables for Crystallography A, sections 1.5.2 and
3.5).
"""

import re
from functools import lru_cache

import gemmi
import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Unreadable
from bandgap.structures.unit_cells import UnitCell

Floats = NDArray[np.float64]
# (operation, 3, 4): rotation, and translation in fractions of the cell.
Operations = NDArray[np.float64]
_MAX_OPERATIONS = 2_000  # the largest space groups have 192
# A symbol with its setting, after a colon or as a letter of ICSD at the end.
_SETTING = re.compile(
    r"(?P<symbol>.*?\S)(?:\s*:\s*(?P<code>[12HR])|\s+(?P<letter>[SZHR]))", re.IGNORECASE
)
_SETTING_OF_CODE = {"1": "1", "S": "1", "2": "2", "Z": "2", "H": "H", "R": "R"}


def parse_operations(triplets: list[str]) -> Operations:
    """Return operators such as "-x, y+1/2, -z" as matrices (operation, 3, 4), without duplicates.

    Raises Unreadable if a triplet is not an operator, or if there are more than 2,000.
    """
    if len(triplets) > _MAX_OPERATIONS:
        raise Unreadable(
            f"the file lists {len(triplets):,} symmetry operators; no space group has that many"
        )
    operations: dict[str, gemmi.Op] = {}
    for triplet in triplets:
        try:
            operation = gemmi.Op(triplet).wrap()
        except (RuntimeError, ValueError):
            raise Unreadable(f"the symmetry operator {triplet[:40]!r} is not understood") from None
        operations[operation.triplet()] = operation
    return _matrices(list(operations.values()))


def operations_from_symbol(symbol: str, cell: UnitCell, *, code: str = "") -> list[Operations]:
    """Return the operators of a Hermann-Mauguin symbol such as P 21/c, P2(1)/c or P2_1/c.

    A symbol may have several settings: hexagonal or rhombohedral axes of R -3 m, the unique axis
    of P 21, or the two origins of F d -3 m.

    Parameters
    ----------
    symbol
        The symbol, also with its setting: F d -3 m:2, F d -3 m Z (origin 2 in ICSD), R -3 m H.
    cell
        The unit cell, which decides between settings with different axes.
    code
        Setting that the file states apart from the symbol: 1 or 2 for an origin, h or r for axes.
        That of the symbol itself takes precedence.

    Returns
    -------
    list
        The operators of one setting. Those of both origins, if neither the symbol nor the code
        says which one is meant. If no setting fits the cell, one that `check_operations` refuses.
        Empty if the symbol is unknown.
    """
    alpha, _, gamma = cell.angles
    settings, are_origins = _settings_of_symbol(symbol, code, alpha, gamma)
    if are_origins or len(settings) == 1:
        return list(settings)
    fitting = [operations for operations in settings if _misfit(operations, cell) is None]
    return (fitting or list(settings))[:1]


@lru_cache(maxsize=64)
def _settings_of_symbol(
    symbol: str, code: str, alpha: float, gamma: float
) -> tuple[tuple[Operations, ...], bool]:
    """Return the operators of the settings of a symbol, and whether they differ by their origin.

    The angles, in degrees, are those by which gemmi chooses between axes. A file may have thousands
    of blocks with one symbol.
    """
    plain = symbol.translate(str.maketrans("", "", "()_")).strip()
    if match := _SETTING.fullmatch(plain):
        plain = match["symbol"]
        code = match["code"] or match["letter"]
    setting = _SETTING_OF_CODE.get(code.upper(), "")
    group = gemmi.find_spacegroup_by_name(plain, alpha, gamma) if plain else None
    if group is None:
        return (), False
    same_symbol = [other for other in gemmi.spacegroup_table() if other.hm == group.hm]
    if group.ext in ("1", "2"):
        origins = tuple(
            _matrices(list(origin.operations()))
            for origin in same_symbol
            if setting not in ("1", "2") or origin.ext == setting
        )
        return origins, True
    groups = [group, *_other_unique_axes(group, plain)]
    if setting in ("H", "R") and group.ext in ("H", "R"):
        groups = [axes for axes in same_symbol if axes.ext == setting]
    return tuple(_matrices(list(candidate.operations())) for candidate in groups), False


@lru_cache(maxsize=64)
def operations_from_hall(symbol: str) -> Operations | None:
    """Return the operators of a Hall symbol such as -P 2ybc; None if it is unknown."""
    try:
        return _matrices(list(gemmi.symops_from_hall(symbol)))
    except (RuntimeError, ValueError):
        return None


def check_operations(operations: Operations, cell: UnitCell, *, origin: str) -> None:
    """Raise Unreadable if an operator does not map the cell onto itself, within its precision.

    `origin` tells in the message where the operators come from, such as "of space group R 3".
    """
    misfit = _misfit(operations, cell)
    if misfit is None:
        return
    lengths = ", ".join(f"{length:g}" for length in cell.lengths)
    angles = ", ".join(f"{angle:g}" for angle in cell.angles)
    raise Unreadable(
        f"the symmetry operator {_operator(operations[misfit]).triplet()} {origin} does not map the"
        f" unit cell onto itself (lengths {lengths} A, angles {angles}): it belongs to other axes"
        " or to another cell. Export all atoms of the cell in P 1, or list the operators of these"
        " axes (_space_group_symop_operation_xyz of a CIF)."
    )


def check_group(operations: Operations, *, origin: str) -> None:
    """Raise Unreadable if the operators are no group, up to lattice vectors.

    The cell lacks atoms if one of a group is missing. Operators that generate the group are
    multiplied; their products must be listed. `origin` is as in `check_operations`.
    """
    listed = {operator.triplet(): operator for operator in map(_operator, operations)}
    group = {"x,y,z"}
    if not group <= listed.keys():
        raise Unreadable(
            f"the {len(listed):,} symmetry operators {origin} lack the identity x,y,z. List all"
            " operators, or export all atoms of the cell in P 1."
        )
    generators: list[gemmi.Op] = []
    for triplet in sorted(listed):
        if triplet in group:
            continue
        generators.append(listed[triplet])
        products = [(listed[member], listed[triplet]) for member in group]
        while products:
            operator, generator = products.pop()
            product = operator.combine(generator).wrap().triplet()
            if product not in listed:
                raise Unreadable(
                    f"the {len(listed):,} symmetry operators {origin} are no group:"
                    f" {operator.triplet()} after {generator.triplet()} gives an operator that is"
                    " missing. List all operators, those with centring translations too, or export"
                    " all atoms of the cell in P 1."
                )
            if product not in group:
                group.add(product)
                products += [(listed[product], other) for other in generators]


def _misfit(operations: Operations, cell: UnitCell) -> int | None:
    """Return the first operator for which R^T G R differs from G by more than the error of G.

    None if there is none.
    """
    rotations = operations[:, :, :3]
    change = np.abs(_transformed(rotations, cell.metric) - cell.metric)
    allowed_change = _transformed(np.abs(rotations), cell.metric_error) + cell.metric_error
    misfits = np.flatnonzero((change > allowed_change).any(axis=(1, 2)))
    return int(misfits[0]) if misfits.size else None


def _transformed(rotations: Floats, metric: Floats) -> Floats:
    """Return R^T G R (operation, 3, 3)."""
    product: Floats = rotations.transpose(0, 2, 1) @ metric @ rotations
    return product


def _other_unique_axes(group: gemmi.SpaceGroup, symbol: str) -> list[gemmi.SpaceGroup]:
    """Return the settings with unique axis c and a that a short monoclinic symbol may mean as well.

    gemmi reads such a symbol with unique axis b.
    """
    is_full_symbol = symbol.replace(" ", "").upper() == group.hm.replace(" ", "").upper()
    if group.crystal_system_str() != "monoclinic" or is_full_symbol:
        return []
    lattice, *axes = group.hm.split()
    (element,) = [axis for axis in axes if axis != "1"]
    names = f"{lattice} 1 1 {element}", f"{lattice} {element} 1 1"
    settings = [gemmi.find_spacegroup_by_name(name) for name in names]
    return [
        setting for setting in settings if setting is not None and setting.number == group.number
    ]


def _matrices(operations: list[gemmi.Op]) -> Operations:
    matrices = np.array([operation.float_seitz()[:3] for operation in operations], dtype=float)
    matrices.setflags(write=False)  # they are kept for the next block
    return matrices


def _operator(operation: Floats) -> gemmi.Op:
    return gemmi.seitz_to_op([*operation.tolist(), [0.0, 0.0, 0.0, 1.0]])

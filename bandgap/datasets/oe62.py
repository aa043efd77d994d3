"""Read OE62: molecules from organic crystals, with orbital energies at several levels of theory.

Reference: Stuke et al. (2020), Sci. Data 7, 58; doi:10.14459/2019mp1507656, CC BY-SA 4.0. The files
are df_62k.json (61,489 molecules; PBE and PBE0), df_31k.json (adds PBE0 in water) and df_5k.json
(adds GW). The gap is LUMO - HOMO in eV: the first unoccupied minus the last occupied level of a
row.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from bandgap.datasets.split_json import read_split_json
from bandgap.foundation.errors import InputError, printable
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.structures import StructureRecord
from bandgap.structures.elements import ELEMENTS
from bandgap.structures.neighbours import CLOSEST_ANGSTROM, LARGEST_ANGSTROM

if TYPE_CHECKING:
    from ase import Atoms  # slow to import; the dashboard's pages only need the levels

Level = Literal["pbe", "pbe0", "pbe0_tzvp", "pbe0_qzvp", "pbe0_water", "gw_tzvp", "gw_qzvp", "gw"]

# level: (column of occupied levels, column of unoccupied levels, label). The columns of GW at the
# basis-set limit have names of another pattern.
LEVELS: dict[Level, tuple[str, str, str]] = {
    "pbe": ("energies_occ_pbe", "energies_unocc_pbe", "PBE+vdW"),
    "pbe0": ("energies_occ_pbe0_vac_tier2", "energies_unocc_pbe0_vac_tier2", "PBE0"),
    "pbe0_tzvp": ("energies_occ_pbe0_vac_tzvp", "energies_unocc_pbe0_vac_tzvp", "PBE0 (def2-TZVP)"),
    "pbe0_qzvp": ("energies_occ_pbe0_vac_qzvp", "energies_unocc_pbe0_vac_qzvp", "PBE0 (def2-QZVP)"),
    "pbe0_water": ("energies_occ_pbe0_water", "energies_unocc_pbe0_water", "PBE0 (water)"),
    "gw_tzvp": ("energies_occ_gw_tzvp", "energies_unocc_gw_tzvp", "G0W0@PBE0 (def2-TZVP)"),
    "gw_qzvp": ("energies_occ_gw_qzvp", "energies_unocc_gw_qzvp", "G0W0@PBE0 (def2-QZVP)"),
    "gw": ("cbs_occ_gw", "cbs_unocc_gw", "G0W0@PBE0 (basis-set limit)"),
}

_ROWS_PER_UPDATE = 1000  # rows between two calls of `progress`
_NUMBER_OF = {symbol: number for number, symbol in enumerate(ELEMENTS, start=1)}
_LARGEST_EV = 1e5  # of a frontier level; a larger value is an error


@dataclass(frozen=True)
class Dropped:
    """A row that was omitted: its id, its index label in the file, and the reason."""

    id: str
    index: int | str
    reason: str


@dataclass(frozen=True, eq=False)
class OE62:
    """Molecules with gaps, in the order of the file, and the omitted rows."""

    records: list[StructureRecord]
    gaps_eV: NDArray[np.float64]  # (n,)
    dropped: tuple[Dropped, ...]
    level_of_theory: str

    @property
    def summary(self) -> str:
        """One sentence with the numbers of rows that were read, kept, and omitted by reason."""
        reasons = Counter(row.reason for row in self.dropped).most_common()
        omitted = "".join(f"; {count:,} left out: {reason}" for reason, count in reasons)
        return (
            f"{len(self.records) + len(self.dropped):,} rows read, {len(self.records):,}"
            f" kept{omitted}."
        )


def read_oe62(path: Path | str, *, level: Level, progress: Progress = no_progress) -> OE62:
    """Read a published file with the gaps at one level of theory.

    Parameters
    ----------
    path
        A file of OE62, .json or .json.gz.
    level
        Level of theory, a key of `LEVELS`.
    progress
        Called every 1,000 rows.

    Returns
    -------
    OE62
        Molecules in the order of the file. The id is the CSD refcode, or the index label without
        one. Rows without levels or with an invalid geometry are listed in `dropped`. The records
        and one chunk of text are in memory (measured on 61,489 rows, 290 MB: 330 MB, 25 s).

    Raises
    ------
    InputError
        If the file has another layout, or does not have the level.
    """
    if level not in LEVELS:
        raise InputError(f"level is {level!r}. Accepted: {', '.join(get_args(Level))}.")
    path = Path(path)
    occupied, unoccupied, label = LEVELS[level]
    molecules: list[tuple[StructureRecord, float]] = []
    dropped: list[Dropped] = []
    used_ids: set[str] = set()
    for number, (index, row) in enumerate(read_split_json(path)):
        if number == 0:
            _check_columns(row, level, path.name)
        if number % _ROWS_PER_UPDATE == 0:
            progress(
                Update("reading OE62", done=number, message=f"{len(molecules):,} molecules kept")
            )
        name = _name(row, index, used_ids)
        try:
            homo = _frontier_level(row[occupied], last=True)
            lumo = _frontier_level(row[unoccupied], last=False)
            if homo is None or lumo is None:
                raise _Unusable(
                    f"no {'occupied' if homo is None else 'unoccupied'} levels at {label}"
                )
            if not lumo >= homo:
                raise _Unusable("HOMO above LUMO")
            if lumo - homo > LARGEST_GAP_EV:
                raise _Unusable(f"a gap above {LARGEST_GAP_EV:g} eV")
            record = StructureRecord(name, path.name, "OE62", _atoms(row), (), {"index": index})
            molecules.append((record, lumo - homo))
        except _Unusable as error:
            dropped.append(Dropped(name, index, str(error)))
    gaps = np.array([gap for _, gap in molecules], dtype=np.float64)
    return OE62([record for record, _ in molecules], gaps, tuple(dropped), label)


class _Unusable(Exception):
    """A row that is omitted; the message is the reason."""


def _check_columns(row: dict[str, Any], level: Level, name: str) -> None:
    if "xyz_pbe_relaxed" not in row:
        raise InputError(
            f"{name}: column 'xyz_pbe_relaxed' is missing. Accepted: df_62k.json, df_31k.json,"
            " df_5k.json."
        )
    present = [
        key
        for key, (occupied, unoccupied, _) in LEVELS.items()
        if occupied in row and unoccupied in row
    ]
    if level not in present:
        raise InputError(
            f"{name}: no levels of {level!r} ({LEVELS[level][0]}, {LEVELS[level][1]}). This file"
            f" has: {', '.join(present) or 'none'}. df_31k.json adds pbe0_water, df_5k.json"
            " adds gw."
        )


def _name(row: dict[str, Any], index: int | str, used_ids: set[str]) -> str:
    """Return the refcode or the index label as id; a repeated one gets the index label appended."""
    refcode = row.get("refcode_csd")
    name = printable(
        refcode.strip() if isinstance(refcode, str) and refcode.strip() else f"oe62_{index:>05}"
    )
    name = f"{name}_{index}" if name in used_ids else name
    used_ids.add(name)
    return name


def _frontier_level(cell: object, *, last: bool) -> float | None:
    """Return the last (HOMO) or first (LUMO) level of a cell, None if it was not computed.

    A cell is a list, null, NaN, or a number if it has only one level.
    """
    values = cell if isinstance(cell, list) else [cell]
    value = values[-1 if last else 0] if values else None
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float))
        or not abs(value) < _LARGEST_EV
    ):
        return None
    return float(value)


def _atoms(row: dict[str, Any]) -> "Atoms":
    """Return the atoms of an XYZ text: count, comment, and rows of symbol, x, y and z."""
    from ase import Atoms

    text = row["xyz_pbe_relaxed"]
    lines = text.rstrip().split("\n") if isinstance(text, str) else []
    if len(lines) < 3 or lines[0].strip() != str(len(lines) - 2):
        raise _Unusable("geometry is absent or cut off")
    if row.get("number_of_atoms", len(lines) - 2) != len(lines) - 2:
        raise _Unusable("number_of_atoms differs from the geometry")
    cells = [line.split() for line in lines[2:]]
    try:
        numbers = [_NUMBER_OF[cell[0]] for cell in cells]
        positions = np.array([(float(x), float(y), float(z)) for _, x, y, z, *_ in cells])
    except (KeyError, ValueError, IndexError):
        raise _Unusable("geometry contains a line that is not an atom") from None
    if not (np.abs(positions) <= LARGEST_ANGSTROM).all():
        raise _Unusable("geometry contains a line that is not an atom")
    if cKDTree(positions).query_pairs(CLOSEST_ANGSTROM):
        raise _Unusable(f"geometry contains atoms closer than {CLOSEST_ANGSTROM} A")
    return Atoms(numbers=numbers, positions=positions)  # type: ignore[no-untyped-call]

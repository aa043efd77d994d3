"""Write structures as input files for other programs, each in a folder: POSCAR, CIF, or XYZ.

References: the page POSCAR of the VASP manual; S. R. Hall, F. H. Allen and I. D. Brown, Acta
Crystallographica A 47, 655 (1991), for CIF. Loads no ASE, because the dashboard's pages import it.
"""

import io
import re
import zipfile
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bandgap.structures.draft import Draft
from bandgap.structures.shapes import cell_lengths_angles

InputFormat = Literal["poscar", "cif"]

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_MAX_NAME = 100
_DATE = (1980, 1, 1, 0, 0, 0)  # the first that zip has; equal structures give equal archives
_FILE_NAMES = {"poscar": "POSCAR", "cif": "structure.cif", "xyz": "structure.xyz"}


def input_zip(
    structures: Sequence[Draft], ids: Sequence[str], *, form: InputFormat, table: str = ""
) -> bytes:
    """Return a zip archive with a folder for each structure, named after its id.

    A structure without a cell is an XYZ file in any format.

    Parameters
    ----------
    structures
        Structures in Angstrom.
    ids
        Id of each structure.
    form
        Format of the files.
    table
        Text of a table that is added as `structures.csv`, "" for none.
    """
    archive_bytes = io.BytesIO()
    with zipfile.ZipFile(archive_bytes, "w", zipfile.ZIP_DEFLATED) as archive:
        if table:
            archive.writestr(_entry("structures.csv"), table)
        for structure, id, folder in zip(structures, ids, folder_names(ids), strict=True):
            if not all(structure.pbc) or structure.cell is None:
                name, text = _FILE_NAMES["xyz"], xyz_text(structure, id)
            elif form == "poscar":
                name, text = _FILE_NAMES["poscar"], poscar_text(structure, id)
            else:
                name, text = _FILE_NAMES["cif"], cif_text(structure, id)
            archive.writestr(_entry(f"{folder}/{name}"), text)
    return archive_bytes.getvalue()


def folder_names(ids: Sequence[str]) -> list[str]:
    """Return a name for the folder of each id, which differ also in capitals only."""
    names: list[str] = []
    used: set[str] = set()
    for id in ids:
        stem = _UNSAFE.sub("_", id).strip("._")[:_MAX_NAME] or "structure"
        name = stem
        count = 1
        while name.lower() in used:
            count += 1
            name = f"{stem}-{count}"
        used.add(name.lower())
        names.append(name)
    return names


def poscar_text(structure: Draft, title: str) -> str:
    """Return a POSCAR with fractional coordinates.

    Atoms are grouped by element. A left-handed cell, which VASP refuses, gets its first two
    vectors exchanged.
    """
    cell, fractional = _cell_and_fractional(structure)
    if np.linalg.det(cell) < 0:
        order = [1, 0, 2]
        cell = cell[order]
        fractional = fractional[:, order]
    symbols = np.array(structure.symbols)
    elements = list(dict.fromkeys(structure.symbols))
    atoms = np.concatenate([np.flatnonzero(symbols == element) for element in elements])
    counts = [str(int((symbols == element).sum())) for element in elements]
    lines = [
        _one_line(title) or "structure",
        "1.0",
        *(_row(vector) for vector in cell),
        " ".join(elements),
        " ".join(counts),
        "Direct",
        *(_row(fractional[atom]) for atom in atoms),
    ]
    return "\n".join(lines) + "\n"


def cif_text(structure: Draft, title: str) -> str:
    """Return a CIF with all atoms of the cell, in space group P 1."""
    cell, fractional = _cell_and_fractional(structure)
    lengths, angles = cell_lengths_angles(cell)
    lines = [f"data_{_UNSAFE.sub('_', title)[:_MAX_NAME] or 'structure'}"]
    lines += [
        f"_cell_length_{name} {length:.10f}" for name, length in zip("abc", lengths, strict=True)
    ]
    lines += [
        f"_cell_angle_{name} {angle:.8f}"
        for name, angle in zip(("alpha", "beta", "gamma"), angles, strict=True)
    ]
    lines += ["_symmetry_space_group_name_H-M 'P 1'", "_symmetry_Int_Tables_number 1"]
    lines += ["loop_", "_symmetry_equiv_pos_as_xyz", "'x, y, z'"]
    lines += ["loop_", "_atom_site_label", "_atom_site_type_symbol"]
    lines += [f"_atom_site_fract_{axis}" for axis in "xyz"]
    counts: dict[str, int] = {}
    for symbol, place in zip(structure.symbols, fractional, strict=True):
        counts[symbol] = counts.get(symbol, 0) + 1
        coordinates = " ".join(f"{value:.10f}" for value in place)
        lines.append(f"{symbol}{counts[symbol]} {symbol} {coordinates}")
    return "\n".join(lines) + "\n"


def xyz_text(structure: Draft, title: str) -> str:
    """Return an XYZ file, for a structure without a cell."""
    lines = [str(len(structure.symbols)), _one_line(title)]
    lines += [
        f"{symbol} {_row(position)}"
        for symbol, position in zip(structure.symbols, structure.positions, strict=True)
    ]
    return "\n".join(lines) + "\n"


def _cell_and_fractional(structure: Draft) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the cell (3, 3) and fractional coordinates (atom, 3)."""
    cell = np.asarray(structure.cell, dtype=np.float64)
    fractional = np.linalg.solve(cell.T, np.asarray(structure.positions).T).T
    return cell, np.asarray(fractional, dtype=np.float64)


def _row(vector: NDArray[np.float64]) -> str:
    return " ".join(f"{value:20.14f}" for value in vector)


def _one_line(text: str) -> str:
    return " ".join(text.split())[:_MAX_NAME]


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, date_time=_DATE)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry

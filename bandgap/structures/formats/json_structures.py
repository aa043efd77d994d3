"""Read JSON with structures: one, or a list of entries, as programs write them or by hand.

| keys | written by |
|---|---|
| `lattice` and `sites` | `Structure.to(fmt="json")` and `as_dict` of pymatgen |
| `numbers` or `symbols`, and `positions` | `ase.io.write("x.json", atoms)` and `Atoms.todict` |
| `lattice_mat`, `coords` and `elements` | JARVIS-tools |
| `unit_cell` and `sites` as texts | OQMD |
| those of OPTIMADE | one structure of a response |

An entry has these keys itself, or under `structure` or `atoms`, such as the entries of the
Materials Project and of JARVIS. Its other numbers and short texts become keys of the structure. The
service reads the structures of its requests by the same functions.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import quoted
from bandgap.structures.draft import (
    Draft,
    Format,
    Unreadable,
    periodic_flags,
    refused_draft,
)
from bandgap.structures.elements import symbol_of
from bandgap.structures.formats import optimade
from bandgap.structures.formats.cif_elements import is_vacant
from bandgap.structures.formats.json_values import parse_json, short_values
from bandgap.structures.ids import stated_id
from bandgap.structures.records import InfoValue, Limits
from bandgap.structures.symmetry import left_out, only_element
from bandgap.structures.unit_cells import cell_vectors

Floats = NDArray[np.float64]

MARKS = ('"sites"', '"lattice_mat"', '"positions"')  # keys of every structure
_MARKED = {*(mark[1:-1] for mark in MARKS), optimade.MARK}
_CONTAINERS = ("structure", "final_structure", "atoms", "attributes")
_VALUES = ("info", "data", "key_value_pairs")  # objects with further values of an entry
_LISTS = ("data", "structures", "entries")
_LATTICE = ("a", "b", "c", "alpha", "beta", "gamma")
_SAME_ANGSTROM = 0.01
_SMALLEST_VOLUME = 1e-6  # cubic Angstrom
_LARGEST_FRACTION = 1.5  # of coordinates that may be fractional
ACCEPTED = (
    "lattice and sites (pymatgen), positions with numbers or symbols, and cell and pbc of a crystal"
    " (ASE), lattice_mat, coords and elements (JARVIS), or a structure of OPTIMADE or OQMD"
)


def read_json(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every structure. Raises Unreadable if the text is no such JSON."""
    for number, (name, entry) in enumerate(_entries(parse_json(text)), start=1):
        draft = read_entry(entry, limits=limits)
        draft.id = draft.id or name
        draft.suffix = str(number)
        yield draft


def read_entry(entry: Any, *, limits: Limits) -> Draft:
    """Return the draft of one structure, refused with the reason if it is invalid."""
    try:
        draft = _draft(entry, limits=limits)
    except Unreadable as error:
        draft = refused_draft(str(error))
    draft.format = "JSON"
    fields: dict[str, Any] = {}
    for values in (*(entry.get(key) for key in _VALUES), entry) if isinstance(entry, dict) else ():
        fields |= values if isinstance(values, dict) else {}
    draft.info = {**_info(fields), **draft.info}
    draft.id = stated_id(fields)
    return draft


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """Yield an id, which may be "", and the entry of every structure."""
    if isinstance(content, dict) and _structure_in(content) is None:
        lists = [content[key] for key in _LISTS if isinstance(content.get(key), list)]
        columns = content.get("columns")
        if lists and isinstance(columns, list):  # a table of pandas, as matminer stores it
            lists = [[_row(columns, cells) for cells in lists[0]]]
        if not lists:
            # ASE numbers its structures; other programs name them by their ids.
            entries = [(key, value) for key, value in content.items() if isinstance(value, dict)]
            yield from ((("" if key.isdigit() else key), entry) for key, entry in entries)
            return
        content = lists[0]
    yield from (("", entry) for entry in (content if isinstance(content, list) else [content]))


def _row(columns: list[Any], cells: Any) -> Any:
    return dict(zip(map(str, columns), cells, strict=False)) if isinstance(cells, list) else cells


def _structure_in(entry: Any) -> Mapping[str, Any] | None:
    """Return the object with the geometry: the entry itself or one of its values, or None."""
    if not isinstance(entry, dict):
        return None
    for fields in (entry, *(entry.get(key) for key in _CONTAINERS)):
        if isinstance(fields, dict) and not _MARKED.isdisjoint(fields):
            return fields
    return None


def _draft(entry: Any, *, limits: Limits) -> Draft:
    """Return the draft of an entry. Raises Unreadable if its geometry is invalid."""
    fields = _structure_in(entry)
    if fields is None:
        raise Unreadable(f"an entry without a structure. Accepted: {ACCEPTED}")
    if optimade.MARK in fields:
        return optimade.draft_of(fields)
    if "lattice_mat" in fields:
        return _of_jarvis(fields, _checked_atoms(fields.get("elements"), limits))
    if "unit_cell" in fields:
        return _of_oqmd(fields, _checked_atoms(fields.get("sites"), limits))
    if "sites" in fields:
        return _of_pymatgen(fields, _checked_atoms(fields["sites"], limits))
    return _of_ase(fields, limits)


def _checked_atoms(atoms: Any, limits: Limits) -> list[Any]:
    """Return the list of atoms. Raises Unreadable if it is none, or too long."""
    if not isinstance(atoms, list):
        raise Unreadable("the structure has no list of atoms")
    if len(atoms) > limits.max_atoms:
        raise Unreadable(
            f"the structure has {len(atoms):,} atoms; the limit is {limits.max_atoms:,}"
        )
    return atoms


def _of_pymatgen(fields: Mapping[str, Any], sites: list[Any]) -> Draft:
    lattice = fields.get("lattice")
    draft = Draft()
    if isinstance(lattice, dict):
        values = lattice.get("matrix", [lattice.get(name) for name in _LATTICE])
        draft.cell = _cell(values, "the matrix of the lattice")
        draft.pbc = periodic_flags(lattice.get("pbc"), default=True)
    elif lattice is not None:
        raise Unreadable("the lattice must be an object with a matrix")
    points = []
    vacancies = []
    n_differing = 0
    for number, site in enumerate(sites, start=1):
        where = f"site {number}"
        if not isinstance(site, dict):
            raise Unreadable(f"{where} is no object with species and coordinates")
        element = _element_of_site(site, where)
        if not element:
            vacancies.append(where)
            continue
        draft.symbols.append(element)
        xyz = _array(site["xyz"], f"xyz of {where}", (3,)) if "xyz" in site else None
        abc = _array(site["abc"], f"abc of {where}", (3,)) if "abc" in site else None
        if draft.cell is None or abc is None:
            point = _array(site.get("xyz"), f"xyz of {where}", (3,)) if xyz is None else xyz
        else:
            point = abc @ draft.cell
            n_differing += xyz is not None and not _is_same_point(point, xyz, draft.cell)
        points.append(point)
    draft.positions = np.array(points, dtype=np.float64).reshape(-1, 3)
    for note in left_out(vacancies, "vacancies"):
        draft.warn(note)
    if n_differing:
        draft.warn(
            f"{n_differing:,} of {len(points):,} sites have other Cartesian coordinates (xyz) than"
            " their fractional ones (abc); abc was used, as pymatgen does"
        )
    return draft


def _is_same_point(point: Floats, other: Floats, cell: Floats) -> bool:
    """Return whether two Cartesian positions are equal up to a lattice vector."""
    if abs(np.linalg.det(cell)) < _SMALLEST_VOLUME:
        return True  # refused later
    shift = np.linalg.solve(cell.T, other - point)
    return bool(np.abs((shift - np.round(shift)) @ cell).max() < _SAME_ANGSTROM)


def _element_of_site(site: Mapping[str, Any], where: str) -> str:
    """Return the element of a site, "" for a vacancy. Raises Unreadable if it is disordered."""
    species = site.get("species")
    if not isinstance(species, list) or not species:
        raise Unreadable(f"{where} must have a list species with at least one element")
    parts = [part if isinstance(part, dict) else {} for part in species]
    if all(part.get("occu") == 0 or is_vacant(str(part.get("element")), "") for part in parts):
        return ""
    if not all(isinstance(part.get("element"), str) for part in parts):
        raise Unreadable(f"{where} has no element")
    shares = [(str(p["element"]), float(_array(p.get("occu", 1), "occu", ()))) for p in parts]
    return only_element(shares, where)


def _of_jarvis(fields: Mapping[str, Any], elements: list[Any]) -> Draft:
    cell = _array(fields["lattice_mat"], "lattice_mat", (3, 3))
    positions = _array(fields.get("coords"), "coords", (len(elements), 3))
    if not _is_cartesian(fields.get("cartesian"), positions):
        positions = positions @ cell
    return Draft([str(e).strip() for e in elements], positions, cell=cell, pbc=(True, True, True))


def _is_cartesian(value: Any, coordinates: Floats) -> bool:
    """Return whether the coordinates of JARVIS are Cartesian.

    Raises Unreadable if the value is neither true nor false, or if it is missing and coordinates
    are outside of the cell as fractions.
    """
    text = str(value).strip().lower()
    if value is None and coordinates.size and np.abs(coordinates).max() > _LARGEST_FRACTION:
        raise Unreadable(
            "the structure does not say whether its coords are Cartesian. Add cartesian, true or"
            " false"
        )
    if value is not None and text not in ("true", "false"):
        raise Unreadable(f"cartesian is {quoted(str(value))}. Accepted: true or false")
    return text == "true"


def _of_oqmd(fields: Mapping[str, Any], sites: list[Any]) -> Draft:
    """Return the draft of sites such as "Na @ 0 0.5 0.5", in fractions of the cell."""
    cell = _array(fields["unit_cell"], "unit_cell", (3, 3))
    texts = [str(site).partition("@") for site in sites]
    fractional = _array([text.split() for _, _, text in texts], "sites", (len(sites), 3))
    symbols = [symbol.strip() for symbol, _, _ in texts]
    return Draft(symbols, fractional @ cell, cell=cell, pbc=(True, True, True))


def _of_ase(fields: Mapping[str, Any], limits: Limits) -> Draft:
    lists = [_plain(fields[key]) for key in ("numbers", "symbols") if key in fields]
    symbols = [[symbol_of(a) for a in _checked_atoms(atoms, limits)] for atoms in lists or [None]]
    if symbols[0] != symbols[-1]:
        raise Unreadable("numbers and symbols name different elements")
    positions = _array(_plain(fields["positions"]), "positions", (len(symbols[0]), 3))
    draft = Draft(symbols[0], positions)
    cell = _plain(fields.get("cell"))
    if cell is not None:
        draft.cell = _cell(cell, "cell")
    has_cell = draft.cell is not None and bool(np.any(draft.cell))
    draft.pbc = periodic_flags(_plain(fields.get("pbc")), default=has_cell)
    return draft


def _plain(value: Any) -> Any:
    """Return the nested list of an array as ASE encodes it; other values stay."""
    if isinstance(value, dict) and "array" in value:
        value = value["array"]
    if not isinstance(value, dict) or "__ndarray__" not in value:
        return value
    try:
        shape, _, flat = value["__ndarray__"]
        # as objects, so that whole numbers stay whole
        return np.array(flat, dtype=object).reshape(shape).tolist()
    except (TypeError, ValueError):
        raise Unreadable("an array of ASE (__ndarray__) has the wrong shape") from None


def _cell(values: Any, name: str) -> Floats:
    """Return the vectors (3, 3) of a cell: as they are, or by three lengths or these and angles."""
    is_flat = isinstance(values, list) and not any(isinstance(value, list) for value in values)
    if is_flat and len(values) in (3, 6):
        numbers = _array(values, name, (len(values),))
        lengths = numbers[:3]
        angles = numbers[3:]
        return cell_vectors(lengths.tolist(), angles.tolist()) if angles.size else np.diag(lengths)
    return _array(values, name, (3, 3))


def _array(value: Any, name: str, shape: tuple[int, ...]) -> Floats:
    """Return nested lists of numbers as an array of this shape."""
    try:
        cells = np.array(value, dtype=object)
        if any(isinstance(cell, bool) for cell in cells.flat):
            raise TypeError
        array = cells.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise Unreadable(f"{name} must be lists of numbers") from None
    if array.shape != shape and not (array.size == 0 and 0 in shape):
        raise Unreadable(
            f"{name} has the shape {array.shape}; {shape} is expected, for the atoms of the"
            " structure"
        )
    return array.reshape(shape)


def _info(fields: dict[str, Any]) -> dict[str, InfoValue]:
    """Return the numbers and short texts of an entry."""
    return {k: value for k, value in short_values(fields).items() if not k.startswith("@")}


FORMAT = Format(
    "JSON",
    label="pymatgen, ASE, JARVIS and OQMD .json",
    read=read_json,
    patterns=(re.compile("|".join(rf"{mark}\s*+:" for mark in MARKS)),),
)

"""Structures of other libraries and paths as records, with the checks that files get.

pymatgen is not imported: its structures are recognised by their attributes.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from ase import Atoms

from bandgap.foundation.arguments import described
from bandgap.foundation.errors import InputError, quoted
from bandgap.structures.checks import to_record
from bandgap.structures.draft import Draft, Unreadable, refused_draft
from bandgap.structures.ids import stated_id, with_unique_ids
from bandgap.structures.reading import read_paths
from bandgap.structures.records import DEFAULT_LIMITS, InfoValue, Limits, StructureRecord
from bandgap.structures.symmetry import ADVICE, OCCUPANCY_SLACK, only_element

ACCEPTED = (
    "ase.Atoms, a pymatgen Structure or Molecule, the path of a file or folder, or a"
    " StructureRecord"
)
_OCCUPANCY_ARRAYS = ("occupancy", "occupancies")  # of ASE's readers of PDB and others


def as_records(structures: object, *, limits: Limits = DEFAULT_LIMITS) -> list[StructureRecord]:
    """Return the records of structures of any accepted kind.

    Parameters
    ----------
    structures
        One or several (a list, tuple, array, iterator or a DataFrame with one column) of:
        `ase.Atoms`, pymatgen `Structure` or `Molecule`, paths of files or folders, and records.
        Lengths are in Angstrom. The id of an object is its `info["id"]` (`properties["id"]` of
        pymatgen), otherwise "structure-1" for the first item, and so on.
    limits
        Largest sizes and counts that are read.

    Returns
    -------
    list of StructureRecord
        In the order of the items; a file can give several. A structure that cannot be used
        (disorder, atoms too close) has the status "refused", as one of a file. Ids are unique,
        unless all items are records, which are returned as they are.

    Raises
    ------
    InputError
        For an item of another kind, with its number, and for a path that does not exist.
    """
    items = items_of(structures)
    if all(isinstance(item, StructureRecord) for item in items):
        return items
    records: list[StructureRecord] = []
    for number, item in enumerate(items, start=1):
        records += records_of_item(item, number=number, limits=limits)
    return with_unique_ids(records)


def items_of(structures: object) -> list[Any]:
    """Return one or several structures as a list of items, whose kinds are not yet checked.

    Raises InputError if it is neither a structure nor a collection.
    """
    if _is_structure(structures):
        return [structures]
    if getattr(structures, "ndim", 1) == 2:  # a DataFrame or an array
        table = np.asarray(structures)
        if table.shape[1] != 1:
            raise InputError(
                f"structures: found a table of {table.shape[1]} columns. Accepted: one column of"
                ' structures, such as X[["structure"]].'
            )
        return list(table[:, 0])
    if isinstance(structures, Iterable) and not isinstance(structures, (bytes, Mapping)):
        is_number = isinstance(structures, np.ndarray) and structures.ndim == 0
        if not is_number:
            return list(structures)
    raise InputError(
        f"structures: found {described(structures)}. Accepted: one or several of {ACCEPTED}."
    )


def records_of_item(
    item: object, *, number: int, limits: Limits = DEFAULT_LIMITS
) -> list[StructureRecord]:
    """Return the records of one item; errors are those of `as_records`.

    `number` is the place of the item, from 1.
    """
    if isinstance(item, StructureRecord):
        return [item]
    if isinstance(item, (str, os.PathLike)):
        return _records_of_path(item, number=number, limits=limits)
    if isinstance(item, Atoms):
        return [_checked(_draft_of_atoms, item, "ASE", number=number, limits=limits)]
    if _is_pymatgen(item):
        return [_checked(_draft_of_pymatgen, item, "pymatgen", number=number, limits=limits)]
    raise InputError(f"structure {number} is {described(item)}. Accepted: {ACCEPTED}.")


def _is_structure(item: object) -> bool:
    return isinstance(item, (str, os.PathLike, Atoms, StructureRecord)) or _is_pymatgen(item)


def _is_pymatgen(item: object) -> bool:
    return hasattr(item, "sites") and hasattr(item, "is_ordered")


def _records_of_path(
    path: str | os.PathLike[str], *, number: int, limits: Limits
) -> list[StructureRecord]:
    try:
        exists = Path(path).exists()
    except (OSError, ValueError):  # too long, or with a null character
        exists = False
    if not exists:
        raise InputError(
            f"structure {number}, {_path_text(path)}: there is no such file or folder."
        )
    return read_paths(path if isinstance(path, str) else Path(path), limits=limits)


def _path_text(path: str | os.PathLike[str]) -> str:
    text = os.fspath(path)
    return text if text.isprintable() and 0 < len(text) <= 300 else quoted(text)


def _checked(
    draft_of: Any, item: Any, format: str, *, number: int, limits: Limits
) -> StructureRecord:
    """Return the record of an object, by the checks of files."""
    info = _plain_info(getattr(item, "info", None) or getattr(item, "properties", None))
    try:
        draft: Draft = draft_of(item)
    except Unreadable as error:
        draft = refused_draft(str(error))
    draft.format = format
    draft.info = info
    id = stated_id(info) or f"structure-{number}"
    return to_record(draft, file="", id=id, limits=limits)


def _plain_info(info: object) -> dict[str, InfoValue]:
    """Return the entries of `Atoms.info` that are numbers, texts or flags."""
    if not isinstance(info, Mapping):
        return {}
    values = {
        str(key): value.item() if isinstance(value, np.generic) else value
        for key, value in info.items()
    }
    return {key: value for key, value in values.items() if isinstance(value, (int, float, str))}


def _draft_of_atoms(atoms: Atoms) -> Draft:
    _check_occupancies(atoms)
    pbc = tuple(bool(flag) for flag in atoms.pbc)
    cell = np.array(atoms.cell.array, dtype=float)
    draft = Draft(
        symbols=list(atoms.get_chemical_symbols()),  # type: ignore[no-untyped-call]
        positions=np.array(atoms.positions, dtype=float),
        cell=cell,
        pbc=(pbc[0], pbc[1], pbc[2]),
    )
    if cell.any() and not any(pbc):
        draft.warn(
            "the structure has a cell and is not periodic (pbc is False); it is read as a molecule."
            " For a crystal set atoms.pbc = True"
        )
    return draft


def _check_occupancies(atoms: Atoms) -> None:
    """Raise Unreadable if a site is shared or partly occupied.

    `ase.io.read` takes one element of such a site and states the occupancies in `info` (CIF) or in
    an array (PDB).
    """
    occupancies = atoms.info.get("occupancy")
    if isinstance(occupancies, Mapping):
        for species in occupancies.values():
            only_element(
                [(str(symbol), float(share)) for symbol, share in species.items()], "an atom"
            )
    for name in _OCCUPANCY_ARRAYS:
        for atom, value in enumerate(np.ravel(atoms.arrays.get(name, ()))):
            if abs(float(value) - 1.0) > OCCUPANCY_SLACK:
                symbol = atoms.symbols[atom]
                raise Unreadable(
                    f"atom {atom + 1} ({symbol}) has occupancy {float(value):.4g}. {ADVICE}"
                )


def _draft_of_pymatgen(structure: Any) -> Draft:
    draft = Draft()
    positions = []
    for number, site in enumerate(structure.sites, start=1):
        shares = [(element.symbol, float(amount)) for element, amount in site.species.items()]
        name = f"{number} ({', '.join(symbol[:20] for symbol, _ in shares[:1])})"
        draft.symbols.append(only_element(shares, f"atom {name}"))
        positions.append(site.coords)
    draft.positions = np.array(positions, dtype=float).reshape(-1, 3)
    lattice = getattr(structure, "lattice", None)
    if lattice is not None:
        draft.cell = np.array(lattice.matrix, dtype=float)
        pbc = [bool(flag) for flag in getattr(lattice, "pbc", (True, True, True))]
        draft.pbc = (pbc[0], pbc[1], pbc[2])
    return draft

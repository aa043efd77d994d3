"""Read structures from JSON: as ASE or pymatgen write them, or written by hand.

JSON that is no structure (a list that is too short, text for a number) is refused with its place in
the body. A structure that cannot be used (disorder, atoms that overlap) gets a verdict, as one from
a file does.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.errors import printable, quoted
from bandgap.jobs.service.json_text import Json
from bandgap.jobs.service.limits import Refusal, ServiceLimits
from bandgap.structures.checks import to_record
from bandgap.structures.draft import LARGEST_NUMBER, Draft, Unreadable, refused_draft
from bandgap.structures.elements import ELEMENTS
from bandgap.structures.reading import stream_structures
from bandgap.structures.records import StructureRecord
from bandgap.structures.symmetry import ADVICE, OCCUPANCY_SLACK
from bandgap.structures.unit_cells import cell_vectors

BASELINE: Final = "baseline_eV"
ACCEPTED = (
    'an object with "content" (the text of a file) and "name"; with "positions" (in angstrom) and '
    '"numbers" or "symbols", and "cell" and "pbc" of a crystal, as ASE has them; or with "lattice" '
    'and "sites", as pymatgen writes them'
)
_LONGEST = 200  # characters of a name
Floats = NDArray[np.float64]


def records_of_json(
    entries: Json, *, limits: ServiceLimits
) -> Iterator[tuple[StructureRecord, float | None]]:
    """Yield every structure with its baseline in eV, or None.

    Raises Refusal (422) with the place in the body.
    """
    if not isinstance(entries, list) or not entries:
        raise Refusal(
            422, f'"structures" must be a list of at least one structure, each {ACCEPTED}.'
        )
    if len(entries) > limits.max_structures:
        raise Refusal(
            413,
            f"{len(entries):,} structures in one request; the limit is {limits.max_structures:,}.",
        )
    for number, entry in enumerate(entries, start=1):
        where = f"structure {number}"
        if not isinstance(entry, dict):
            raise Refusal(422, f"{where} is {_kind(entry)}. Accepted: {ACCEPTED}.")
        baseline = (
            None
            if entry.get(BASELINE) is None
            else _number(entry[BASELINE], f"{where}, {BASELINE}")
        )
        name = file_name(
            _text(entry, "name", where) or _text(entry, "file", where),
            default=f"structure-{number}",
        )
        if "content" in entry:
            # "replace", as JSON may contain halves of characters (surrogates)
            content = _text(entry, "content", where).encode(errors="replace")
            for count, record in enumerate(
                stream_structures(content, name, limits=limits.reading_limits)
            ):
                if baseline is not None and count:
                    raise Refusal(
                        422,
                        f"{where} holds several structures and one {BASELINE}. "
                        "Send them one by one.",
                    )
                yield record, baseline
        else:
            id = printable(_text(entry, "id", where)) or name.rpartition("/")[2]
            yield (
                to_record(_draft(entry, where), file=name, id=id, limits=limits.reading_limits),
                baseline,
            )


def file_name(name: str, *, default: str) -> str:
    """Return the name of a sent file; raises Refusal where it is a path out of its folder."""
    if not name:
        return default
    parts = name.replace("\\", "/").split("/")
    if (
        len(name) > _LONGEST
        or not name.isprintable()
        or ".." in parts
        or parts[0] == ""
        or ":" in parts[0]
    ):
        raise Refusal(
            422,
            f"{quoted(name)} is not accepted as a file's name. Send a plain name such as "
            "benzene.cif, no path.",
        )
    return name


def _draft(entry: Mapping[str, Json], where: str) -> Draft:
    try:
        if "sites" in entry:
            draft = _of_pymatgen(entry, where)
        elif "positions" in entry:
            draft = _of_ase(entry, where)
        else:
            keys = ", ".join(quoted(key) for key in list(entry)[:5]) or "no keys"
            raise Refusal(422, f"{where} has {keys}. Accepted: {ACCEPTED}.")
    except Unreadable as error:
        draft = refused_draft(str(error))
    draft.format = draft.format or "JSON"
    draft.info = {**draft.info, **_info(entry, where)}
    return draft


def _of_ase(entry: Mapping[str, Json], where: str) -> Draft:
    positions = _rows(entry["positions"], f"{where}, positions")
    symbols = _symbols(entry, where)
    if len(symbols) != len(positions):
        raise Refusal(422, f"{where} has {len(symbols)} elements and {len(positions)} positions.")
    cell = _cell(entry.get("cell"), f"{where}, cell")
    pbc = _pbc(entry.get("pbc"), f"{where}, pbc", default=cell is not None and bool(np.any(cell)))
    return Draft(symbols=symbols, positions=positions, cell=cell, pbc=pbc)


def _symbols(entry: Mapping[str, Json], where: str) -> list[str]:
    if ("numbers" in entry) == ("symbols" in entry):
        raise Refusal(422, f'{where} must have either "numbers" or "symbols".')
    if "numbers" in entry:
        numbers = _plain(entry["numbers"], f"{where}, numbers")
        if not isinstance(numbers, list) or not all(
            type(z) is int and 1 <= z <= len(ELEMENTS) for z in numbers
        ):
            raise Refusal(
                422, f"{where}: numbers must be a list of atomic numbers from 1 to {len(ELEMENTS)}."
            )
        return [ELEMENTS[z - 1] for z in numbers]
    symbols = entry["symbols"]
    if not isinstance(symbols, list) or not all(
        isinstance(s, str) and 0 < len(s) <= 20 for s in symbols
    ):
        raise Refusal(422, f'{where}: symbols must be a list of elements such as ["C", "H"].')
    return list(symbols)


def _of_pymatgen(entry: Mapping[str, Json], where: str) -> Draft:
    sites = entry["sites"]
    lattice = entry.get("lattice")
    if not isinstance(sites, list):
        raise Refusal(
            422, f"{where}: sites is {_kind(sites)}. Accepted: a list, as pymatgen writes it."
        )
    if lattice is not None and not isinstance(lattice, dict):
        raise Refusal(
            422,
            f"{where}: lattice is {_kind(lattice)}. Accepted: an object, as pymatgen writes it.",
        )
    cell = None if lattice is None else _lattice(lattice, f"{where}, lattice")
    draft = Draft(cell=cell)
    if lattice is not None:
        draft.pbc = _pbc(lattice.get("pbc"), f"{where}, lattice, pbc", default=True)
    positions = []
    for number, site in enumerate(sites, start=1):
        element, name = _element(site, f"{where}, site {number}", number=number)
        draft.symbols.append(element)
        draft.names.append(name)
        positions.append(_point(site, f"{where}, site {number}", cell=cell))
    draft.positions = np.array(positions, dtype=float).reshape(-1, 3)
    return draft


def _element(site: Json, where: str, *, number: int) -> tuple[str, str]:
    """Return the element of a site and its name for the user; raises Unreadable on disorder."""
    species = site.get("species") if isinstance(site, dict) else None
    if (
        not isinstance(species, list)
        or not species
        or not all(isinstance(one, dict) for one in species)
    ):
        raise Refusal(
            422, f'{where}: must be an object with a list "species" of at least one element.'
        )
    element = species[0].get("element")
    if not isinstance(element, str):
        raise Refusal(422, f"{where}: its element is {_kind(element)}. Accepted: text such as C.")
    name = printable(_text(site, "label", where)[:20]) or f"{element[:20]}{number}"
    occupancy = _number(species[0].get("occu", 1), f"{where}, occu")
    if abs(occupancy - 1) > OCCUPANCY_SLACK:
        raise Unreadable(f"atom {name} has occupancy {occupancy:.4g}. {ADVICE}")
    if len(species) > 1:
        raise Unreadable(f"atom {name} is of {len(species)} elements at once. {ADVICE}")
    return element[:20], name


def _point(site: Mapping[str, Json], where: str, *, cell: Floats | None) -> Floats:
    """Return a site's position in angstrom: its "xyz", else its fractional coordinates "abc"."""
    if "xyz" in site or cell is None:
        (point,) = _rows([site.get("xyz")], f"{where}, xyz")
        return np.asarray(point)
    (fractions,) = _rows([site.get("abc")], f"{where}, abc")
    return np.asarray(fractions @ cell)


def _lattice(lattice: Mapping[str, Json], where: str) -> Floats:
    if "matrix" in lattice:
        cell = _rows(lattice["matrix"], f"{where}, matrix")
        if cell.shape != (3, 3):
            raise Refusal(422, f"{where}: matrix must be three vectors of three numbers.")
    else:
        names = ("a", "b", "c", "alpha", "beta", "gamma")
        values = [_number(lattice.get(name), f"{where}, {name}") for name in names]
        cell = cell_vectors(values[:3], values[3:])
    if not abs(np.linalg.det(cell)) > 0:
        raise Unreadable("the lattice has no volume")
    return cell


def _cell(value: Json, where: str) -> Floats | None:
    if isinstance(value, dict) and "array" in value:  # a cell as older versions of ASE write it
        value = value["array"]
    plain = _plain(value, where)
    if plain is None:
        return None
    if (
        isinstance(plain, list)
        and len(plain) == 3
        and not any(isinstance(row, list) for row in plain)
    ):
        return np.diag([_number(length, where) for length in plain])
    if isinstance(plain, list) and len(plain) == 6:
        lengths = [_number(length, where) for length in plain]
        return cell_vectors(lengths[:3], lengths[3:])
    cell = _rows(plain, where)
    if cell.shape != (3, 3):
        raise Refusal(
            422,
            f"{where}: must be three vectors of three numbers, three lengths, "
            "or lengths and angles.",
        )
    return cell


def _pbc(value: Json, where: str, *, default: bool) -> tuple[bool, bool, bool]:
    plain = _plain(value, where)
    flags = [default] * 3 if plain is None else [plain] * 3 if isinstance(plain, bool) else plain
    if (
        not isinstance(flags, list)
        or len(flags) != 3
        or not all(isinstance(flag, bool) for flag in flags)
    ):
        raise Refusal(422, f"{where}: must be true, false, or a list of three of these.")
    return flags[0], flags[1], flags[2]


def _info(entry: Mapping[str, Json], where: str) -> dict[str, float | int | str | bool]:
    info = entry.get("info")
    if info is None:
        return {}
    plain = isinstance(info, dict) and all(
        isinstance(value, (int, float, str, bool)) for value in info.values()
    )
    if not plain:
        raise Refusal(422, f"{where}: info must be an object of numbers, texts and flags.")
    return dict(info)


def _plain(value: Json, where: str) -> Json:
    """Return nested lists for an array as ASE writes it: {"__ndarray__": [shape, type, values]}."""
    if not (isinstance(value, dict) and "__ndarray__" in value):
        return value
    parts: Any = value["__ndarray__"]
    try:
        shape, _, values = parts
        return np.array(values, dtype=object).reshape([int(n) for n in shape]).tolist()
    except (TypeError, ValueError):
        raise Refusal(
            422, f"{where}: __ndarray__ must be [shape, type, values], as ASE writes it."
        ) from None


def _rows(value: Json, where: str) -> Floats:
    """Return lists of three numbers as an array (n, 3)."""
    plain = _plain(value, where)
    if not isinstance(plain, list):
        raise Refusal(
            422, f"{where}: is {_kind(plain)}. Accepted: a list of lists of three numbers."
        )
    for row in plain:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != 3:
            raise Refusal(422, f"{where}: holds {_kind(row)} where three numbers are expected.")
    return np.array([[_number(x, where) for x in row] for row in plain], dtype=float).reshape(-1, 3)


def _number(value: Json, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise Refusal(422, f"{where}: holds {_kind(value)} where a number is expected.")
    if not abs(value) <= LARGEST_NUMBER:
        raise Refusal(422, f"{where}: holds a number that is out of all proportion.")
    return float(value)


def _text(entry: Mapping[str, Json], key: str, where: str) -> str:
    value = entry.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Refusal(422, f"{where}: {key} is {_kind(value)}. Accepted: text.")
    return value


def _kind(value: Json) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return f"the text {quoted(value)}"
    return f"a list of {len(value)}" if isinstance(value, list) else "an object"

"""Known band gaps from a CSV table, matched to structures by id or by file name.

The table needs one column that names the structures and one gap column whose header states its unit, such as gap_eV or
"band gap (Ha)". The unit is never guessed. Loads no ASE, as pages read it.
"""

import contextlib
import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.gaps import LARGEST_GAP_EV, distinct_levels, mixed_levels_warning
from bandgap.datasets.matching import Matched, match_names
from bandgap.datasets.units import TO_EV, UNIT_WORDS, Unit, unit_of_name, words_of_name
from bandgap.foundation.errors import InputError, printable, shown

_GAP_WORDS = {"gap", "bandgap", "eg", "egap"}
_PLAIN_WORDS = _GAP_WORDS | {"band", "e", "energy", "target", "label"}
_ID_HEADERS = ("id", "structureid", "structure", "identifier", "refcode", "materialid", "name", "key", "jid")
_FILE_HEADERS = ("file", "filename", "path", "filepath", "structurefile", "cif", "ciffile")
_LEVEL_HEADERS = ("leveloftheory", "theory", "functional")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_EMPTY = {"", "nan", "na", "n/a", "none", "null", "-", "--", "?"}
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Labels:
    """Gaps by name; `ids` or `files` is empty where the table has no such column."""

    source: str  # name of the table
    ids: tuple[str, ...]
    files: tuple[str, ...]
    gaps_eV: NDArray[np.float64]  # (row,)
    unit: Unit  # of the table; gaps_eV is converted
    column: str  # header of the gap column
    level_of_theory: str
    problems: tuple[str, ...] = ()  # sentences, such as rows without a gap

    def __len__(self) -> int:
        return self.gaps_eV.size


@dataclass(frozen=True)
class _Layout:
    separator: str
    gap: int
    id: int | None
    file: int | None
    level: int | None


def read_labels(
    source: Path | str | bytes,
    *,
    unit: Unit | None = None,
    column: str | None = None,
    level_of_theory: str = "",
    name: str = "labels",
) -> Labels:
    """Read a table of gaps (a path, or its bytes with a `name` for messages), separated by comma, semicolon or tab.

    `unit` is for a gap column whose header states none; `column` chooses among several gap columns. Ids stay text, so
    00011 is not 11. Raises InputError naming rows as a spreadsheet counts them (the header is row 1) where names, units
    or numbers cannot be used. Rows without a gap are left out and named in `problems`.
    """
    where = name if isinstance(source, bytes) else Path(source).name
    text = _decoded(source, where)
    layout, header, rows = _table(text, column=column, where=where)
    found_unit = unit_of_name(header[layout.gap], unit, what=f"{where}: the header")
    kept, problems = _usable_rows(rows, layout, width=len(header), where=where)
    gaps = _numbers([(line, row[layout.gap]) for line, row in kept], found_unit, layout=layout, where=where)
    ids = tuple(row[layout.id] for _, row in kept) if layout.id is not None else ()
    files = tuple(row[layout.file] for _, row in kept) if layout.file is not None else ()
    once = _without_repeats([line for line, _ in kept], ids, files, gaps, where=where)
    stated = [row[layout.level] for _, row in kept] if layout.level is not None else []
    levels = distinct_levels([level_of_theory, *stated])
    warning = mixed_levels_warning(levels)
    return Labels(
        source=where,
        ids=tuple(ids[i] for i in once) if ids else (),
        files=tuple(files[i] for i in once) if files else (),
        gaps_eV=gaps[once],
        unit=found_unit,
        column=header[layout.gap],
        level_of_theory="; ".join(levels),
        problems=(*problems, *([warning] if warning else [])),
    )


def other_gaps(source: bytes, *, chosen: str, name: str) -> dict[str, Labels]:
    """Return the other gaps that a table holds, by header: columns with the word gap and a unit beside the chosen one.

    Such as gap_pbe_eV beside gap_eV, from which a difference may be learned. Columns that cannot be read are left out.
    """
    _, header, _ = _table(_decoded(source, name), column=chosen, where=name)
    found = {}
    for cell in dict.fromkeys(header):
        words = set(words_of_name(cell))
        if cell != chosen and words & _GAP_WORDS and words & set(UNIT_WORDS):
            with contextlib.suppress(InputError):
                found[cell] = read_labels(source, column=cell, name=name)
    return found


def match_labels(ids: Sequence[str], files: Sequence[str], labels: Labels) -> Matched:
    """Give every structure (its id and its file name) its label, as `bandgap.datasets.matching.match_names` does."""
    return match_names(ids, files, label_ids=labels.ids, label_files=labels.files, gaps_eV=labels.gaps_eV)


def _decoded(source: Path | str | bytes, where: str) -> str:
    if isinstance(source, bytes):
        data = source
    else:
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise InputError(f"{source}: the table of labels cannot be read ({error.strerror}).") from error
    for encoding in ("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", "latin-1"):
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    if "\x00" in text or data[:2] == b"PK":
        raise InputError(
            f"{where}: not a text table. Save it as CSV (in a spreadsheet: Save as, CSV UTF-8) and try again."
        )
    return text


def _table(text: str, *, column: str | None, where: str) -> tuple[_Layout, list[str], list[tuple[int, list[str]]]]:
    """Return layout, header and numbered rows; the separator is the one that makes a usable header."""
    readings = []
    for separator in _SEPARATORS:
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
        except csv.Error as error:
            raise InputError(f"{where}: not a readable table ({error}).") from error
        numbered = [(i, [c.strip() for c in row]) for i, row in enumerate(rows, start=1) if any(c.strip() for c in row)]
        if not numbered:
            raise InputError(f"{where}: the table is empty. Accepted: a header and one row for each structure.")
        readings.append((separator, numbered))
    problems = []
    for separator, numbered in sorted(readings, key=lambda reading: -len(reading[1][0][1])):
        header = numbered[0][1]
        layout = _layout(header, separator, column=column, where=where)
        if isinstance(layout, _Layout):
            return layout, header, numbered[1:]
        problems.append(layout)
    raise InputError(problems[0])


def _layout(header: list[str], separator: str, *, column: str | None, where: str) -> _Layout | str:
    """Return where the columns are, or the sentence that says which one is missing."""
    plain = ["".join(words_of_name(cell)) for cell in header]
    by_role = [next((plain.index(h) for h in names if h in plain), None) for names in (_ID_HEADERS, _FILE_HEADERS)]
    shown = ", ".join(repr(cell) for cell in header[:12])
    if by_role == [None, None]:
        return (
            f"{where}: no column names the structures. Found: {shown}. Accepted: a column headed id or file "
            "(comma, semicolon or tab between columns)."
        )
    gap = _gap_column(header, column)
    if isinstance(gap, str):
        return f"{where}: {gap} Found: {shown}."
    level = next((plain.index(h) for h in _LEVEL_HEADERS if h in plain), None)
    return _Layout(separator, gap, by_role[0], by_role[1], level)


def _gap_column(header: list[str], column: str | None) -> int | str:
    if column is not None:
        return header.index(column) if column in header else f"no column {column!r}."
    gaps = [i for i, cell in enumerate(header) if _GAP_WORDS & set(words_of_name(cell))]
    plain = [i for i in gaps if set(words_of_name(header[i])) <= _PLAIN_WORDS | set(UNIT_WORDS)]
    with_unit = [i for i in plain if set(words_of_name(header[i])) & set(UNIT_WORDS)]
    chosen = with_unit or plain or gaps
    if not chosen:
        return "no gap column. Accepted: a header with the word gap and its unit, such as gap_eV or gap (Ha)."
    if len(chosen) > 1:
        several = ", ".join(repr(header[i]) for i in chosen)
        return (
            f"several gap columns ({several}). Keep one, or rename the one to use to gap_eV and the others without gap."
        )
    return chosen[0]


def _usable_rows(
    rows: list[tuple[int, list[str]]], layout: _Layout, *, width: int, where: str
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Return the rows that have a name and a gap, padded to the header, and a sentence on those without a gap."""
    if not rows:
        raise InputError(f"{where}: a header and no rows. Accepted: one row for each structure.")
    long = [f"{line} ({len(row)} cells)" for line, row in rows if any(row[width:])]
    if long:
        raise InputError(
            f"{where}: {_rows(long)}: more cells than the header, which has {width}. If this is a decimal comma, write "
            "a point, or separate the columns by semicolons."
        )
    kept, empty, nameless = [], [], []
    for line, row in rows:
        cells = row + [""] * (width - len(row))
        names = [cells[i] for i in (layout.id, layout.file) if i is not None]
        if cells[layout.gap].casefold() in _EMPTY:
            empty.append(f"{line} ({printable(names[0] or names[-1])})")
        elif not any(names):
            nameless.append(str(line))
        else:
            kept.append((line, cells))
    if nameless:
        raise InputError(
            f"{where}: {_rows(nameless)}: a gap without a name. Fill the id or file column, or remove the row."
        )
    if not kept:
        raise InputError(f"{where}: the gap column is empty in every row.")
    return kept, [f"{where}: {_rows(empty)}: no gap, left out."] if empty else []


def _numbers(cells: list[tuple[int, str]], unit: Unit, *, layout: _Layout, where: str) -> NDArray[np.float64]:
    """Return the gaps in eV; one error names every row that cannot be used."""
    commas = layout.separator != "," and any("," in cell for _, cell in cells)
    mixed = commas and any("." in cell for _, cell in cells)
    values, wrong = [], []
    for line, cell in cells:
        text = cell.replace(",", ".") if commas and not mixed else cell
        value = float(text) if _NUMBER.fullmatch(text) else float("nan")
        value *= TO_EV[unit]
        if not 0.0 <= value <= LARGEST_GAP_EV:
            wrong.append(f"{line} ({shown(cell)})")
        values.append(value)
    if wrong:
        hint = " Decimal points and decimal commas are mixed; write points." if mixed else ""
        raise InputError(
            f"{where}: {_rows(wrong)}: not a band gap. Accepted: plain numbers such as 2.68, "
            f"from 0 to {LARGEST_GAP_EV:g} eV.{hint}"
        )
    return np.array(values)


def _without_repeats(
    lines: list[int], ids: Sequence[str], files: Sequence[str], gaps: NDArray[np.float64], *, where: str
) -> list[int]:
    """Return the positions of rows, each name once; rows that give one name two gaps are an error."""
    seen: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in range(len(lines)):
        seen[(ids[i] if ids else "", files[i] if files else "")].append(i)
    clashes = [rows for rows in seen.values() if len({float(gaps[i]) for i in rows}) > 1]
    if clashes:
        first = clashes[0]
        name = (ids[first[0]] if ids else "") or files[first[0]]
        values = ", ".join(f"row {lines[i]}: {gaps[i]:g} eV" for i in first[:_SHOWN])
        more = f" {len(clashes) - 1} more names have the same problem." if len(clashes) > 1 else ""
        raise InputError(f"{where}: {name!r} has different gaps ({values}). Keep one row for each structure.{more}")
    return [rows[0] for rows in seen.values()]


def _rows(lines: list[str]) -> str:
    more = f" and {len(lines) - _SHOWN} more" if len(lines) > _SHOWN else ""
    return f"row{'s' if len(lines) > 1 else ''} {', '.join(lines[:_SHOWN])}{more}"

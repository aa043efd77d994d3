"""Read band gaps from a CSV table and match them to structures by id or file name.

The table needs a column that names the structures, and a gap column whose header states the unit,
such as gap_eV or "band gap (Ha)". A unit is never guessed. This module does not import ASE, because
the dashboard's pages import it.
"""

import contextlib
import csv
import io
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bandgap.datasets.gaps import distinct_levels, mixed_levels_warning
from bandgap.datasets.matching import Matched, match_names
from bandgap.datasets.units import (
    TO_EV,
    UNIT_WORDS,
    Unit,
    is_changed,
    states_unit,
    unit_of_name,
    words_of_name,
)
from bandgap.foundation.arguments import as_path, check_type
from bandgap.foundation.errors import InputError, listed, printable, quoted
from bandgap.foundation.quantities import LARGEST_GAP_EV
from bandgap.structures.draft import TABLE_NUMBER
from bandgap.structures.ids import ID_KEYS

_GAP_WORDS = {"gap", "bandgap", "eg", "egap"}
_PLAIN_WORDS = _GAP_WORDS | {"band", "e", "energy", "target", "label"}
_FILE_HEADERS = ("file", "filename", "path", "filepath", "structurefile", "cif", "ciffile")
_LEVEL_HEADERS = ("leveloftheory", "theory", "functional")
# Words of columns that say how good a gap is.
_ERROR_WORDS = {
    "error", "err", "std", "stdev", "sd", "sigma", "uncertainty", "unc", "mae", "rmse", "variance",
}  # fmt: skip
# Words of columns that are computed from gaps and are no gaps.
_DERIVED_WORDS = {
    "log", "log10", "ln", "log1p", "sqrt", "inverse", "difference", "diff", "delta", "shift",
    "change", "residual", "scaled", "normalized", "normalised", "standardized", "standardised",
    "zscore", "rank", "percentile", "square", "squared", "cubed", "reciprocal", "correction",
    "scissor", "offset", "deviation", "centred", "centered", "minus", "ratio", "relative",
    "percent",
}  # fmt: skip
# Texts of cells without a value, those of Excel, pandas and Windows among them.
_EMPTY = {
    "", "nan", "-nan", "na", "n/a", "n.a.", "none", "null", "nat", "-", "--", "\u2013", "\u2014",
    "?", "<na>", "#na", "#n/a", "#n/a n/a", "#null!", "#num!", "#div/0!", "#value!", "#ref!",
    "#name?", "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan",
}  # fmt: skip
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_DECIMAL_COMMA = re.compile(r"\d*,\d+")
_SMALL_UNITS = ("meV", "cm-1")  # units in which gaps are thousands
_SMALLEST_USUAL_GAP_EV = 0.02
_EXCEL_SEPARATOR = re.compile(r"sep=[,;]?", re.IGNORECASE)  # a first line that Excel writes
_ON_THE_PAGE = "on the page Data under Known gaps, the field"
_SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab"}
_SHOWN = 5


@dataclass(frozen=True, eq=False)
class Labels:
    """Gaps of a table by name; `ids` or `files` is empty if the table has no such column.

    `other_ids` are further columns with ids, which count if they fit the structures better.
    """

    source: str  # file name of the table
    ids: tuple[str, ...]
    files: tuple[str, ...]
    gaps_eV: NDArray[np.float64]  # (row,)
    unit: Unit  # in the table; gaps_eV are converted
    column: str  # header of the gap column
    level_of_theory: str
    problems: tuple[str, ...] = ()  # messages, such as on rows without a gap
    other_ids: tuple[tuple[str, ...], ...] = ()

    def __len__(self) -> int:
        return self.gaps_eV.size


@dataclass(frozen=True)
class _Layout:
    """Separator of a table, and the indices of its columns."""

    separator: str
    gap: int
    id: int | None
    other_ids: tuple[int, ...]
    file: int | None
    level: int | None


def read_labels(
    source: Path | str | bytes,
    *,
    unit: Unit | None = None,
    column: str | None = None,
    id_column: str | None = None,
    level_of_theory: str = "",
    name: str = "labels",
) -> Labels:
    """Read a table of gaps whose columns are separated by comma, semicolon or tab.

    Parameters
    ----------
    source
        Path of the table, or its bytes.
    unit
        Unit of a gap column whose header states none.
    column
        Header of the gap column, needed if there are several.
    id_column
        Header of the column that names the structures, if it has an unusual one.
    level_of_theory
        Method of the gaps, in addition to a column with it.
    name
        Name of the table in messages if `source` is bytes.

    Returns
    -------
    Labels
        Ids stay text, so that 00011 differs from 11. Rows without a gap are omitted and named in
        `problems`.

    Raises
    ------
    InputError
        If names, units or numbers are not valid. Rows are numbered as in a spreadsheet: the header
        is row 1.
    """
    where = name if isinstance(source, bytes) else as_path(source, name="source").name
    text = _decode(source, where)
    layout, header, rows = _table(text, column=column, id_column=id_column, where=where)
    table_unit = unit_of_name(
        header[layout.gap],
        unit,
        what=f"{where}: the header",
        remedy=f" Or say which it is: `--unit eV` ({_ON_THE_PAGE} Unit of the gap column).",
    )
    usable_rows, problems = _usable_rows(rows, layout, width=len(header), where=where)
    gaps = _numbers(
        [(line, row[layout.gap]) for line, row in usable_rows],
        table_unit,
        layout=layout,
        where=where,
    )
    ids = tuple(row[layout.id] for _, row in usable_rows) if layout.id is not None else ()
    files = tuple(row[layout.file] for _, row in usable_rows) if layout.file is not None else ()
    unique_rows = _without_repeats([line for line, _ in usable_rows], ids, files, gaps, where=where)
    stated_levels = (
        [row[layout.level] for _, row in usable_rows] if layout.level is not None else []
    )
    levels = distinct_levels([level_of_theory, *stated_levels])
    warnings = [
        mixed_levels_warning(levels),
        _small_gaps_warning(gaps, table_unit, column=header[layout.gap]),
    ]
    return Labels(
        source=where,
        ids=tuple(ids[i] for i in unique_rows) if ids else (),
        files=tuple(files[i] for i in unique_rows) if files else (),
        gaps_eV=gaps[unique_rows],
        unit=table_unit,
        column=header[layout.gap],
        level_of_theory="; ".join(levels),
        problems=(*problems, *filter(None, warnings)),
        other_ids=tuple(
            tuple(usable_rows[i][1][column] for i in unique_rows) for column in layout.other_ids
        ),
    )


def other_gaps(
    source: bytes, *, gap_column: str, name: str, id_column: str | None = None
) -> dict[str, Labels]:
    """Return the other gaps of a table by header, such as gap_pbe_eV in addition to gap_eV.

    These are the columns with the word gap and a unit, except `gap_column`. They can be
    baselines of a run. Columns that cannot be read are omitted. `id_column` is the header of the
    column that names the structures, if it has an unusual one.
    """
    text = _decode(source, name)
    _, header, _ = _table(text, column=gap_column, id_column=id_column, where=name)
    labels_by_header = {}
    for cell in dict.fromkeys(header):
        if cell != gap_column and _is_gap(cell) and states_unit(cell):
            with contextlib.suppress(InputError):
                labels_by_header[cell] = read_labels(
                    source, column=cell, id_column=id_column, name=name
                )
    return labels_by_header


def match_labels(ids: Sequence[str], files: Sequence[str], labels: Labels) -> Matched:
    """Match labels to structures by their ids and files (see `match_names`).

    Of several columns with ids, the one that fits most structures counts. Raises InputError for
    labels of another kind than `read_labels` returns.
    """
    check_type(labels, Labels, name="labels")
    matches = [
        match_names(
            ids, files, label_ids=label_ids, label_files=labels.files, gaps_eV=labels.gaps_eV
        )
        for label_ids in (labels.ids, *labels.other_ids)
    ]
    return max(matches, key=lambda match: match.n_matched)


def _decode(source: Path | str | bytes, where: str) -> str:
    if isinstance(source, bytes):
        data = source
    else:
        try:
            data = Path(source).read_bytes()
        except OSError as error:
            raise InputError(
                f"{source}: the table of labels cannot be read ({error.strerror})."
            ) from error
    for encoding in (
        "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig",
        "latin-1",
    ):
        try:
            text = data.decode(encoding)
            break
        except UnicodeDecodeError:
            continue
    if "\x00" in text or data[:2] == b"PK":
        raise InputError(
            f"{where}: not a text table. Save it as CSV (in a spreadsheet: Save as, CSV UTF-8) and"
            " try again."
        )
    return text


def _table(
    text: str, *, column: str | None, id_column: str | None = None, where: str
) -> tuple[_Layout, list[str], list[tuple[int, list[str]]]]:
    """Return layout, header and numbered rows.

    The separator is the one that gives a usable header; those with more columns are tried first.
    """
    readings = []
    for separator in _SEPARATORS:
        try:
            rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
        except csv.Error as error:
            raise InputError(f"{where}: not a readable table ({error}).") from error
        numbered = [
            (i, [c.strip() for c in row])
            for i, row in enumerate(rows, start=1)
            if any(c.strip() for c in row)
        ]
        if numbered and _EXCEL_SEPARATOR.fullmatch("".join(numbered[0][1])):
            numbered = numbered[1:]
        if not numbered:
            raise InputError(
                f"{where}: the table is empty. Accepted: a header and one row for each structure."
            )
        readings.append((separator, numbered))
    problems = []
    for separator, numbered in sorted(readings, key=lambda reading: -len(reading[1][0][1])):
        header = numbered[0][1]
        layout = _layout(header, separator, column=column, id_column=id_column, where=where)
        if isinstance(layout, _Layout):
            return _with_unique_ids(layout, numbered[1:]), header, numbered[1:]
        problems.append(layout)
    raise InputError(problems[0])


def _layout(
    header: list[str], separator: str, *, column: str | None, id_column: str | None, where: str
) -> _Layout | str:
    """Return the layout of the columns, or a message on the one that is missing."""
    plain_headers = ["".join(words_of_name(cell)) for cell in header]
    ids = [plain_headers.index(key) for key in ID_KEYS if key in plain_headers]
    file = next((plain_headers.index(h) for h in _FILE_HEADERS if h in plain_headers), None)
    found_headers = ", ".join(repr(cell) for cell in header[:12])
    if id_column is not None:
        if id_column not in header:
            return f"{where}: no column {id_column!r}. Found: {found_headers}."
        ids = [header.index(id_column)]
    if not ids and file is None:
        if any(TABLE_NUMBER.fullmatch(cell) or (cell and _is_empty(cell)) for cell in header):
            first_line = printable(separator.join(header[:12]))
            return (
                f"{where}: the first line ({first_line}) holds values and no headers. Add a line of"
                " headers above it, such as id,gap_eV."
            )
        return (
            f"{where}: no column names the structures. Found: {found_headers}. Accepted: a column"
            " headed id or file (comma, semicolon or tab between columns), or name it:"
            f" `--id-column HEADER` ({_ON_THE_PAGE} Id column)."
        )
    gap = _gap_column(header, column)
    if isinstance(gap, str):
        return f"{where}: {gap} Found: {found_headers}."
    level = next((plain_headers.index(h) for h in _LEVEL_HEADERS if h in plain_headers), None)
    return _Layout(separator, gap, ids[0] if ids else None, tuple(ids[1:]), file, level)


def _with_unique_ids(layout: _Layout, rows: list[tuple[int, list[str]]]) -> _Layout:
    """Return the layout with the first column of ids that differ in all rows, if there is one."""
    columns = () if layout.id is None else (layout.id, *layout.other_ids)
    for column in columns:
        ids = {row[column] for _, row in rows if column < len(row) and row[column]}
        if len(ids) == len(rows):
            other_ids = tuple(other for other in columns if other != column)
            return replace(layout, id=column, other_ids=other_ids)
    return layout


def _gap_column(header: list[str], column: str | None) -> int | str:
    """Return the index of the gap column, or a message if it is missing or not unique."""
    if column is not None:
        return header.index(column) if column in header else f"no column {column!r}."
    gap_columns = [i for i, cell in enumerate(header) if _is_gap(cell)]
    plain_columns = [
        i for i in gap_columns if set(words_of_name(header[i])) <= _PLAIN_WORDS | set(UNIT_WORDS)
    ]
    columns_with_unit = [
        i for i in plain_columns if set(words_of_name(header[i])) & set(UNIT_WORDS)
    ]
    candidates = columns_with_unit or plain_columns or gap_columns
    if not candidates:
        return (
            "no gap column. Accepted: a header with the word gap and its unit, such as gap_eV or"
            " gap (Ha)."
        )
    if len(candidates) > 1:
        headers = ", ".join(repr(header[i]) for i in candidates)
        return (
            f"several gap columns ({headers}). Say which one: `--column {header[candidates[0]]!r}`"
            f" ({_ON_THE_PAGE} Gap column)."
        )
    return candidates[0]


def _is_gap(header: str) -> bool:
    """Return whether a header is that of gaps, and not of numbers that are computed from gaps."""
    words = set(words_of_name(header))
    is_derived = bool(words & (_ERROR_WORDS | _DERIVED_WORDS)) or is_changed(header)
    return bool(words & _GAP_WORDS) and not is_derived


def _is_empty(cell: str) -> bool:
    return cell.casefold() in _EMPTY


def _usable_rows(
    rows: list[tuple[int, list[str]]], layout: _Layout, *, width: int, where: str
) -> tuple[list[tuple[int, list[str]]], list[str]]:
    """Return the rows with a name and a gap, and messages on rows without a gap.

    The rows are padded to the length of the header.
    """
    if not rows:
        raise InputError(f"{where}: a header and no rows. Accepted: one row for each structure.")
    too_long = [f"{line} ({len(row)} cells)" for line, row in rows if any(row[width:])]
    if too_long:
        raise InputError(
            f"{where}: {_row_list(too_long)}: more cells than the header, which has {width}. If"
            " this is a decimal comma, write a point, or separate the columns by semicolons."
        )
    usable = []
    without_gap = []
    without_name = []
    for line, row in rows:
        cells = row + [""] * (width - len(row))
        names = [cells[i] for i in (layout.id, layout.file) if i is not None]
        if _is_empty(cells[layout.gap]):
            without_gap.append(f"{line} ({printable(names[0] or names[-1])})")
        elif not any(names):
            without_name.append(str(line))
        else:
            usable.append((line, cells))
    if without_name:
        raise InputError(
            f"{where}: {_row_list(without_name)}: a gap without a name. Fill the id or file column,"
            " or remove the row."
        )
    if not usable:
        raise InputError(f"{where}: the gap column is empty in every row.")
    return usable, [f"{where}: {_row_list(without_gap)}: no gap, left out."] if without_gap else []


def _numbers(
    cells: list[tuple[int, str]], unit: Unit, *, layout: _Layout, where: str
) -> NDArray[np.float64]:
    """Return the gaps in eV. Raises one InputError with all rows that are not valid."""
    has_decimal_commas = layout.separator != "," and any("," in cell for _, cell in cells)
    is_mixed = has_decimal_commas and any("." in cell for _, cell in cells)
    texts = [cell for _, cell in cells]
    if has_decimal_commas and unit in _SMALL_UNITS and _are_thousands(texts):
        raise InputError(
            f"{where}: the comma in gaps such as {quoted(texts[0])} {unit} may separate thousands"
            " or decimals. Write plain numbers, such as 1500 or 1500.0."
        )
    values = []
    invalid = []
    for line, cell in cells:
        text = cell.replace(",", ".") if has_decimal_commas and not is_mixed else cell
        value = float(text) if TABLE_NUMBER.fullmatch(text) else float("nan")
        value *= TO_EV[unit]
        if not 0.0 <= value <= LARGEST_GAP_EV:
            invalid.append(f"{line} ({quoted(cell)})")
        values.append(value)
    if invalid:
        hint = " Decimal points and decimal commas are mixed; write points." if is_mixed else ""
        if not has_decimal_commas and any(map(_DECIMAL_COMMA.fullmatch, texts)):
            hint = " Write decimal points, or separate the columns by semicolons."
        if any("metal" in cell.lower() for cell in texts):
            hint = " Write 0 for a metal."
        raise InputError(
            f"{where}: {_row_list(invalid)}: not a band gap. Accepted: plain numbers such as 2.68, "
            f"from 0 to {LARGEST_GAP_EV:g} eV.{hint}{_unit_hint(values, unit)}"
        )
    return np.array(values)


def _are_thousands(texts: Sequence[str]) -> bool:
    """Return whether every comma in the texts may separate thousands."""
    return all(_THOUSANDS.fullmatch(text) for text in texts if "," in text)


def _small_gaps_warning(gaps_eV: NDArray[np.float64], unit: Unit, *, column: str) -> str:
    """Return a question for another unit if all gaps are too small for gaps in this one."""
    largest = float(gaps_eV.max(initial=0.0))
    if unit == "eV" or not 0 < largest < _SMALLEST_USUAL_GAP_EV:
        return ""
    return (
        f"The largest gap of {printable(column)} is {largest:.2g} eV, read as {unit}. Is the unit"
        " in the header right?"
    )


def _unit_hint(values_eV: Sequence[float], unit: Unit) -> str:
    """Return a question for another unit if the values are too large for gaps in this one."""
    numbers = [value for value in values_eV if np.isfinite(value) and value >= 0]
    too_large = [value for value in numbers if value > LARGEST_GAP_EV]
    if not too_large:
        return ""
    first = too_large[0]
    if unit != "eV":
        return f" {first / TO_EV[unit]:g} {unit} is {first:.4g} eV. Is the unit right?"
    if max(too_large) > 1000 * LARGEST_GAP_EV:
        return ""
    if float(np.median(numbers)) > LARGEST_GAP_EV:
        return " Is the unit meV? Write it into the header (gap_meV)."
    return f" Is {first:g} in meV, unlike the other rows? Write all gaps in one unit."


def _without_repeats(
    lines: list[int],
    ids: Sequence[str],
    files: Sequence[str],
    gaps: NDArray[np.float64],
    *,
    where: str,
) -> list[int]:
    """Return the indices of rows with each name once.

    Raises InputError if rows with the same name have different gaps.
    """
    rows_of_name: dict[tuple[str, str], list[int]] = defaultdict(list)
    for i in range(len(lines)):
        rows_of_name[(ids[i] if ids else "", files[i] if files else "")].append(i)
    conflicts = [rows for rows in rows_of_name.values() if len({float(gaps[i]) for i in rows}) > 1]
    if conflicts:
        first = conflicts[0]
        name = (ids[first[0]] if ids else "") or files[first[0]]
        values = ", ".join(f"row {lines[i]}: {gaps[i]:g} eV" for i in first[:_SHOWN])
        further_names = (
            f" {len(conflicts) - 1} more names have the same problem." if len(conflicts) > 1 else ""
        )
        raise InputError(
            f"{where}: {name!r} has different gaps ({values}). Keep one row for each"
            f" structure.{further_names}"
        )
    return [rows[0] for rows in rows_of_name.values()]


def _row_list(lines: list[str]) -> str:
    return f"row{'s' if len(lines) > 1 else ''} {listed(lines, _SHOWN)}"

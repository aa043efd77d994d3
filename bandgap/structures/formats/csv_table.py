"""Read CSV tables with the text of a file in each row, in a column `cif`, `poscar` or `optimade`.

Such tables are written by pandas, for example those of CDVAE and of the Matbench tasks. The columns
are separated by comma, semicolon or tab. The other columns become keys of the structure.
"""

import csv
import io
import re
from collections.abc import Iterator

from bandgap.structures.draft import TABLE_NUMBER, Draft, Format, Unreadable, refused_draft
from bandgap.structures.formats.parquet import draft_of_text
from bandgap.structures.ids import is_id, stated_id
from bandgap.structures.records import InfoValue, Limits

_COLUMNS = ("cif", "poscar", "optimade")
_SEPARATORS = (",", ";", "\t")
_EXCEL_LINE = re.compile(r"\A\"?sep=[,;\t]\"?\r?\n", re.IGNORECASE)  # that Excel writes
_LONGEST = 2_000  # characters of a text that becomes a key


def read_csv(text: str, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every row. Raises Unreadable if the table is damaged."""
    text = _EXCEL_LINE.sub("", text)
    header_line = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=header_line.count)
    ends_in_quotes = _ends_in_quotes(text, separator=separator)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    header = [cell.strip() for cell in next(rows, [])]
    names = [name.lower() for name in header]
    column = next(name for name in _COLUMNS if name in names)
    n_rows = 0
    last_line = text.count("\n") + (not text.endswith("\n"))
    try:
        for row in rows:
            if not any(cell.strip() for cell in row):
                continue
            n_rows += 1
            draft = _draft(row, header, column=column, number=n_rows, limits=limits)
            if ends_in_quotes and rows.line_num >= last_line:
                draft = refused_draft(
                    f"row {n_rows + 1:,} of the table has quotes that are not closed. Is the file"
                    " cut off?",
                    suffix=str(n_rows),
                )
            yield draft
    except csv.Error as error:
        raise Unreadable(
            f"the table cannot be read after row {n_rows + 1:,} ({error}). Write it again, or as"
            " Parquet"
        ) from None


def _ends_in_quotes(text: str, *, separator: str) -> bool:
    """Return whether the last cell of a table is quoted and not closed."""
    if text.count('"') % 2 == 0:
        return False
    try:
        for _ in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True):
            pass
    except csv.Error as error:
        return "unexpected end" in str(error)
    return False


def _draft(row: list[str], header: list[str], *, column: str, number: int, limits: Limits) -> Draft:
    names = [name.lower() for name in header]
    try:
        if len(row) != len(header):
            raise Unreadable(
                f"row {number + 1:,} of the table has {len(row):,} cells, and the header"
                f" {len(header):,}. Quote cells that contain the separator"
            )
        draft = draft_of_text(row[names.index(column)], column, limits=limits)
    except Unreadable as error:
        draft = refused_draft(str(error))
    values = {
        name: _value(name, cell)
        for name, cell in zip(header, row, strict=False)
        if name and name.lower() != column and 0 < len(cell.strip()) <= _LONGEST
    }
    draft.info = {**draft.info, **values}
    draft.id = stated_id(values) or draft.id
    draft.suffix = str(number)
    return draft


def _value(name: str, cell: str) -> InfoValue:
    """Return a cell as a number where it is one; ids stay text."""
    text = cell.strip()
    return float(text) if TABLE_NUMBER.fullmatch(text) and not is_id(name) else text


_CELL = '(?:"?(?:' + "|".join(_COLUMNS) + ')"?)'
FORMAT = Format(
    "CSV",
    label="CSV with a column cif",
    read=read_csv,
    # The header has a cell with such a name, and a quoted cell begins a text of several lines.
    patterns=(
        # The length of the header is limited first, because the time grows with its square.
        re.compile(
            rf"\A(?:\"?sep=[,;\t]\"?\r?\n)?(?=[^\n]{{0,5000}}+\n)"
            rf"(?:[^\n\"#]*[,;\t])?{_CELL}(?:[,;\t][^\n]*)?\r?\n",
            re.IGNORECASE,
        ),
        re.compile(r'"[^"\n]*\n'),
    ),
)

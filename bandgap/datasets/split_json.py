"""Rows of a pandas `orient="split"` JSON file, one at a time, so that a file of 400 MB needs the memory of one chunk.

pandas.read_json holds the text, the parsed lists and the table at once (several GB for df_62k.json). Here the text is
read in chunks and json's C scanner cuts one row after the other out of them.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bandgap.foundation.errors import InputError, reason_of

_CHUNK = 1 << 23  # characters; about 1,000 rows of OE62
_LONGEST = 1 << 26  # characters of one value; the index of OE62 has half a million
_BLANK = " \t\r\n"


def read_split_json(path: Path) -> Iterator[tuple[int | str, dict[str, Any]]]:
    """Yield (index label, {column: value}) of every row of a .json or .json.gz file, in the order of the file.

    Raises InputError on a file that is absent, cut off, or not in that layout.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") if _is_gzip(path) else path.open(encoding="utf-8") as stream:
            yield from _rows(_Scanner(stream), name=path.name)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read ({reason_of(error)}). Was the download complete?") from error


class _Scanner:
    """Cuts JSON values out of a text stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0

    def peek(self) -> str:
        """Return the next character that is not blank, "" at the end."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in _BLANK:
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def skip(self, character: str) -> bool:
        """Step over `character` if it comes next, and say whether it did."""
        if self.peek() != character:
            return False
        self._at += 1
        return True

    def value(self) -> Any:
        """Return the next string, list or object. Raises ValueError at the end of the text."""
        self.peek()
        while True:
            try:
                value, self._at = self._decode(self._text, self._at)
                return value
            except ValueError:
                if len(self._text) - self._at > _LONGEST or not self._more():
                    raise

    def _more(self) -> bool:
        """Read a chunk, at least as much as is there already, so that a long value is not tried often."""
        chunk = self._stream.read(max(_CHUNK, len(self._text) - self._at))
        self._text, self._at = self._text[self._at :] + chunk, 0
        return bool(chunk)


def _rows(scanner: _Scanner, *, name: str) -> Iterator[tuple[int | str, dict[str, Any]]]:
    head: dict[str, list[Any]] = {}
    rows = 0
    layout = f'{name}: not a table in the published layout, {{"columns": [...], "index": [...], "data": [...]}}.'
    if not scanner.skip("{"):
        raise InputError(layout)
    try:
        while (key := scanner.value()) != "data":
            if not scanner.skip(":") or scanner.peek() != "[":
                raise InputError(layout)
            head[key] = scanner.value()
            if not scanner.skip(","):
                raise InputError(layout)
        if not ({"columns", "index"} <= set(head) and scanner.skip(":") and scanner.skip("[")):
            raise InputError(layout)
        if {*map(type, head["columns"])} - {str} or {*map(type, head["index"])} - {int, float, str}:
            raise InputError(layout)
        while not scanner.skip("]"):
            row = scanner.value()
            if rows >= len(head["index"]) or not isinstance(row, list) or len(row) != len(head["columns"]):
                raise InputError(f"{name}, row {rows}: does not fit the {len(head['columns'])} columns and the index.")
            yield head["index"][rows], dict(zip(head["columns"], row, strict=True))
            rows += 1
            scanner.skip(",")
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: the file ends or breaks after {rows:,} rows ({error}). Download it again."
        ) from error
    if rows != len(head["index"]):
        raise InputError(f"{name}: {rows:,} rows but {len(head['index']):,} index labels. Download it again.")


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"

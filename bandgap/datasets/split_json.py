"""Read the rows of a pandas `orient="split"` JSON file one at a time.

pandas.read_json has the text, the parsed lists and the table in memory together, several GB for
df_62k.json. Here the text is read in chunks, and json's C scanner cuts rows out of them, so that a
file of 400 MB needs the memory of one chunk.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from bandgap.foundation.errors import InputError, reason_of

_CHUNK = 1 << 23  # characters; about 1,000 rows of OE62
_LONGEST = 1 << 26  # characters of one value; the index of OE62 has about 500,000
_BLANK = " \t\r\n"


def read_split_json(path: Path) -> Iterator[tuple[int | str, dict[str, Any]]]:
    """Yield (index label, {column: value}) of every row of a .json or .json.gz file, in its order.

    Raises InputError if the file is missing, cut off, or in another layout.
    """
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if _is_gzip(path)
            else path.open(encoding="utf-8")
        ) as stream:
            yield from _rows(_Scanner(stream), name=path.name)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError, RecursionError) as error:
        raise InputError(
            f"{path}: cannot be read ({reason_of(error)}). Was the download complete?"
        ) from error


class _Scanner:
    """Cuts JSON values out of a text stream."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._position = 0

    def peek(self) -> str:
        """Return the next character that is not white space, "" at the end."""
        while True:
            while self._position < len(self._text) and self._text[self._position] in _BLANK:
                self._position += 1
            if self._position < len(self._text):
                return self._text[self._position]
            if not self._read_chunk():
                return ""

    def skip(self, character: str) -> bool:
        """Skip `character` if it is the next one; return whether it was."""
        if self.peek() != character:
            return False
        self._position += 1
        return True

    def value(self) -> Any:
        """Return the next string, list or object. Raises ValueError at the end of the text."""
        self.peek()
        while True:
            try:
                value, self._position = self._decode(self._text, self._position)
                return value
            except ValueError:
                if len(self._text) - self._position > _LONGEST or not self._read_chunk():
                    raise

    def _read_chunk(self) -> bool:
        """Read the next chunk; return whether there was one.

        It is at least as long as the remaining text, so that a long value is parsed only a few
        times.
        """
        chunk = self._stream.read(max(_CHUNK, len(self._text) - self._position))
        self._text = self._text[self._position :] + chunk
        self._position = 0
        return bool(chunk)


def _rows(scanner: _Scanner, *, name: str) -> Iterator[tuple[int | str, dict[str, Any]]]:
    header: dict[str, list[Any]] = {}
    n_rows = 0
    layout_error = (
        f'{name}: not a table in the published layout, {{"columns": [...], "index": [...], "data":'
        " [...]}."
    )
    if not scanner.skip("{"):
        raise InputError(layout_error)
    try:
        while (key := scanner.value()) != "data":
            if not scanner.skip(":") or scanner.peek() != "[":
                raise InputError(layout_error)
            header[key] = scanner.value()
            if not scanner.skip(","):
                raise InputError(layout_error)
        if not ({"columns", "index"} <= set(header) and scanner.skip(":") and scanner.skip("[")):
            raise InputError(layout_error)
        if {*map(type, header["columns"])} - {str} or {*map(type, header["index"])} - {
            int,
            float,
            str,
        }:
            raise InputError(layout_error)
        while not scanner.skip("]"):
            row = scanner.value()
            if (
                n_rows >= len(header["index"])
                or not isinstance(row, list)
                or len(row) != len(header["columns"])
            ):
                raise InputError(
                    f"{name}, row {n_rows}: does not fit the {len(header['columns'])} columns and"
                    " the index."
                )
            yield header["index"][n_rows], dict(zip(header["columns"], row, strict=True))
            n_rows += 1
            scanner.skip(",")
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: the file ends or breaks after {n_rows:,} rows ({error}). Download it again."
        ) from error
    if n_rows != len(header["index"]):
        raise InputError(
            f"{name}: {n_rows:,} rows but {len(header['index']):,} index labels. Download it again."
        )


def _is_gzip(path: Path) -> bool:
    with path.open("rb") as stream:
        return stream.read(2) == b"\x1f\x8b"

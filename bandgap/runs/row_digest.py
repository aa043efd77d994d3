"""A running digest of the inputs of a growing table, before all of them are read."""

import hashlib
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from bandgap.structures.spool import Spool


class RowDigest:
    """SHA-256 of the first records, with their ids, and of columns (n,) with a value for each.

    Calls with increasing numbers of rows read each record once, and wait for records that are being
    read.
    """

    def __init__(self, records: Spool, *columns: NDArray[Any] | None) -> None:
        self._records = records
        self._columns = [column for column in columns if column is not None]
        self._restart()

    def __call__(self, rows: int) -> str:
        """Return the digest of the first `rows` rows, "" where there are fewer records."""
        if rows < self._rows:
            self._restart()
        while self._rows < rows:
            content = next(self._contents, None)
            if content is None:
                return ""
            self._hash.update(content)
            for column in self._columns:
                self._hash.update(column[self._rows : self._rows + 1].tobytes())
            self._rows += 1
        return self._hash.hexdigest()

    def _restart(self) -> None:
        self._rows = 0
        self._hash = hashlib.sha256()
        self._contents: Iterator[bytes] = self._records.contents()

"""What the rows of a growing table are made of, as a running digest: the first rows can be known before all are."""

import hashlib
from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from bandgap.structures.spool import Spool


class RowDigest:
    """SHA-256 of the first records with the ids that they have here, and of columns (n,) that belong to them.

    Asked for more and more rows it looks at each once, and waits for records that are still being read.
    """

    def __init__(self, records: Spool, *columns: NDArray[Any] | None) -> None:
        self._records = records
        self._columns = [column for column in columns if column is not None]
        self._begin()

    def __call__(self, rows: int) -> str:
        """Return the digest (hexadecimal) of what makes so many rows, "" where there are fewer records."""
        if rows < self._rows:
            self._begin()
        while self._rows < rows:
            if (found := next(self._left, None)) is None:
                return ""
            self._hash.update(found)
            for column in self._columns:
                self._hash.update(column[self._rows : self._rows + 1].tobytes())
            self._rows += 1
        return self._hash.hexdigest()

    def _begin(self) -> None:
        self._rows, self._hash = 0, hashlib.sha256()
        self._left: Iterator[bytes] = self._records.contents()

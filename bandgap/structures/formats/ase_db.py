"""Read ASE's SQLite databases: rows of the table `systems` with their key-value pairs.

Nothing in a file is executed:

- The file is opened read-only and as immutable, so that no lock or log next to it is used. Content
  that is not a file on disk becomes a database in memory.
- Only three tables are read, and only if the schema has them as tables without generated columns.
  No view, trigger, expression or function of the file runs.
- Pickles and objects of ASE in other columns are not read.
- The size of SQLite's programs and values and the time of a step are limited, so that a small
  damaged or malicious file has a small cost.
"""

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np

from bandgap.foundation.errors import printable
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.elements import symbol_of
from bandgap.structures.ids import stated_id
from bandgap.structures.records import InfoValue, Limits

MAGIC = b"SQLite format 3\0"
_SCHEMA = re.compile(rb"CREATE\s+TABLE\s+\"?systems\b", re.IGNORECASE)
_SCHEMA_BYTES = 1_000_000  # at the beginning of the file, with the schema
_TABLES = ("systems", "text_key_values", "number_key_values")
# Position of the format's versions in the header; version 2 has a log next to the file.
_VERSIONS = slice(18, 20)
_GENERATED = (2, 3)  # values of `hidden` in PRAGMA table_xinfo: virtual and stored
_MOST_INSTRUCTIONS = 25_000  # of a compiled statement; the ones used here need some dozens
_SMALLEST_VALUE_LIMIT = 1_000_000  # bytes
# Longest time of one step: a constant, and a time for each byte, which may have to be sorted.
_STEP_S = 10.0
_STEP_S_PER_BYTE = 1e-6
_INSTRUCTIONS_BETWEEN_CHECKS = 10_000  # of the time


def is_ase_db(data: bytes) -> bool:
    """Return whether the first bytes are those of a SQLite database with ASE's table."""
    return data.startswith(MAGIC) and _SCHEMA.search(data[:_SCHEMA_BYTES]) is not None


def read_ase_db(content: Content, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every row. Raises Unreadable if the database is damaged or not ASE's."""
    try:
        with closing(_opened(content)) as db:
            restart_deadline = _limit_cost(db, content.size)
            for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
                db.execute(f"PRAGMA {setting}")
            kinds = dict(
                db.execute("SELECT name, type FROM sqlite_master WHERE type IN ('table', 'view')")
            )
            if kinds.get("systems") != "table":
                raise Unreadable("a database without the table systems: not one of ASE")
            present = [name for name in _TABLES if kinds.get(name) == "table"]
            _refuse_generated_columns(db, present)
            db.set_authorizer(_authorize)
            pairs = _Pairs(db, present[1:])
            rows = db.execute("SELECT id, numbers, positions, cell, pbc FROM systems ORDER BY id")
            previous = None
            while True:
                restart_deadline()
                row = next(rows, None)
                if row is None:
                    return
                number, *cells = row
                if not isinstance(number, int) or (previous is not None and number <= previous):
                    raise Unreadable(
                        f"a damaged database (row {number!r} follows row {previous!r})"
                    )
                previous = number
                try:
                    draft = _draft(*cells)
                except Unreadable as error:
                    draft = refused_draft(str(error))
                draft.info = pairs.of(number)
                draft.id = stated_id(draft.info)
                draft.suffix = str(number)
                yield draft
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        if str(error) == "interrupted":
            raise Unreadable(
                "a damaged database: reading it takes longer than its size explains"
            ) from None
        raise Unreadable(f"a damaged database ({error}). Is the file cut off?") from None
    except MemoryError:
        raise Unreadable("a damaged database, which needs more memory than there is") from None


def _limit_cost(db: sqlite3.Connection, n_bytes: int) -> Callable[[], None]:
    """Limit the cost of a file of this size; return a function that restarts the time of a step.

    SQLite raises an error for a statement or value beyond its limit, and interrupts a step that
    takes too long.
    """
    db.setlimit(sqlite3.SQLITE_LIMIT_VDBE_OP, _MOST_INSTRUCTIONS)
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(n_bytes, _SMALLEST_VALUE_LIMIT))
    allowed_s = _STEP_S + _STEP_S_PER_BYTE * n_bytes
    deadline = time.monotonic() + allowed_s

    def restart() -> None:
        nonlocal deadline
        deadline = time.monotonic() + allowed_s

    db.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS_BETWEEN_CHECKS)
    return restart


def _refuse_generated_columns(db: sqlite3.Connection, tables: list[str]) -> None:
    """Raise Unreadable if a column is generated.

    A chain of generated columns that each use the previous one twice takes exponential time.
    """
    for table in tables:
        for _, column, *_, hidden in db.execute(f"PRAGMA table_xinfo({table})"):
            if hidden in _GENERATED:
                raise Unreadable(
                    f"the column {printable(str(column))} of the table {table} is computed by the"
                    " database: not one of ASE. Write the structures with ASE, or export them as"
                    " extXYZ."
                )


def _opened(content: Content) -> sqlite3.Connection:
    """Open a file by its path if its header has valid versions.

    Otherwise open it in memory with corrected versions.
    """
    if content.path is not None and set(content.head(_VERSIONS.stop)[_VERSIONS]) <= {1, 2}:
        return sqlite3.connect(f"{content.path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)
    data = bytearray(content.read_all())
    data[_VERSIONS] = b"\x01\x01"
    db = sqlite3.connect(":memory:")
    db.deserialize(bytes(data))
    return db


def _authorize(
    action: int, table: str | None, column: str | None, base: str | None, cause: str | None
) -> int:
    """Allow only reading of the tables; `cause` is the view or trigger that asks for it."""
    del column, base
    reads = action == sqlite3.SQLITE_READ and table in _TABLES and cause is None
    return sqlite3.SQLITE_OK if reads or action == sqlite3.SQLITE_SELECT else sqlite3.SQLITE_DENY


def _draft(numbers: object, positions: object, cell: object, pbc: object) -> Draft:
    """Return the draft of a row, whose blobs are little-endian int32 and float64."""
    if not isinstance(numbers, bytes) or not isinstance(positions, bytes):
        raise Unreadable("a row without numbers or positions")
    n = len(numbers) // 4
    if (len(numbers), len(positions)) != (4 * n, 24 * n):
        raise Unreadable("a row whose numbers and positions do not fit together")
    draft = Draft(
        list(map(symbol_of, np.frombuffer(numbers, dtype="<i4").tolist())),
        np.frombuffer(positions, dtype="<f8").reshape(n, 3),
    )
    flags = pbc if isinstance(pbc, int) else 0
    draft.pbc = bool(flags & 1), bool(flags & 2), bool(flags & 4)
    if isinstance(cell, bytes) and len(cell) == 72:
        draft.cell = np.frombuffer(cell, dtype="<f8").reshape(3, 3)
    elif any(draft.pbc):
        raise Unreadable("a periodic row without a cell of nine numbers")
    return draft


class _Pairs:
    """Key-value pairs of rows, which are requested in ascending order.

    ASE has no index of the pairs by row. Each table is sorted once, on disk if it is long, and read
    in parallel with the rows. A search for every row would take quadratic time.
    """

    def __init__(self, db: sqlite3.Connection, tables: list[str]) -> None:
        self._remaining = [
            iter(db.execute(f"SELECT id, key, value FROM {table} ORDER BY id")) for table in tables
        ]
        self._next_pair = [next(pairs, None) for pairs in self._remaining]

    def of(self, number: int) -> dict[str, InfoValue]:
        """Return the pairs of a row, whose number is larger than the previous one."""
        info: dict[str, InfoValue] = {}
        for table, pairs in enumerate(self._remaining):
            while (pair := self._next_pair[table]) is not None:
                row, key, value = pair
                if isinstance(row, int) and row > number:
                    break
                if row == number and isinstance(key, str) and isinstance(value, str | int | float):
                    info[key] = value
                self._next_pair[table] = next(pairs, None)
        return info


FORMAT = Format(
    "ASE database",
    label="ASE .db",
    read=None,
    patterns=(),
    suffixes=("db",),
    has_signature=is_ase_db,
    read_content=read_ase_db,
)

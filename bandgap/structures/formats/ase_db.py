"""Read ASE's SQLite databases: rows of the table `systems` with their key-value pairs.

The file is opened read-only and as immutable, so that no lock or log next to it is used. Content
that is not a file on disk becomes a database in memory. Only this one table is read. Pickles and
objects of ASE in other columns are not.
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import numpy as np

from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.elements import symbol_of
from bandgap.structures.formats.json_values import parse_json, short_values
from bandgap.structures.ids import stated_id
from bandgap.structures.records import Limits

_SCHEMA = re.compile(rb"CREATE\s+TABLE\s+\"?systems\b", re.IGNORECASE)
_SCHEMA_BYTES = 1_000_000  # at the beginning of the file, with the schema
# Position of the format's versions in the header; version 2 has a log next to the file.
_VERSIONS = slice(18, 20)
_ROWS = "SELECT id, key_value_pairs, numbers, positions, cell, pbc FROM systems ORDER BY id"


def is_ase_db(data: bytes) -> bool:
    """Return whether the first bytes of a SQLite database have ASE's table."""
    return _SCHEMA.search(data[:_SCHEMA_BYTES]) is not None


def read_ase_db(content: Content, *, limits: Limits) -> Iterator[Draft]:
    """Yield one draft for every row. Raises Unreadable if the database is damaged or not ASE's."""
    try:
        with closing(_opened(content)) as db:
            # Columns that the database computes may need more time and memory than there is.
            db.setlimit(sqlite3.SQLITE_LIMIT_VDBE_OP, 25_000)
            db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, max(content.size, 1_000_000))
            for setting in ("query_only=ON", "trusted_schema=OFF", "cell_size_check=ON"):
                db.execute(f"PRAGMA {setting}")
            kinds = db.execute("SELECT type FROM sqlite_master WHERE name = 'systems'").fetchall()
            if kinds != [("table",)]:
                raise Unreadable("a database without the table systems: not one of ASE")
            previous = None
            for number, pairs, *cells in db.execute(_ROWS):
                if not isinstance(number, int) or (previous is not None and number <= previous):
                    raise Unreadable(
                        f"a damaged database (row {number!r} follows row {previous!r})"
                    )
                previous = number
                values = None
                try:
                    values = parse_json(pairs) if isinstance(pairs, str) else None
                    draft = _draft(*cells)
                except Unreadable as error:
                    draft = refused_draft(str(error))
                draft.info = short_values(values) if isinstance(values, dict) else {}
                draft.id = stated_id(draft.info)
                draft.suffix = str(number)
                yield draft
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        raise Unreadable(f"a damaged database ({error}). Is the file cut off?") from None


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


FORMAT = Format(
    "ASE database",
    label="ASE .db",
    read=read_ase_db,
    takes="content",
    has_signature=is_ase_db,
)

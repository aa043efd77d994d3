"""Descriptor cache on disk: an SQLite file of compressed float32 vectors by content and settings.

Several processes can use it together (write-ahead log). A cache never makes a computation fail: a
damaged file is rebuilt, and a file that is locked, full or read-only is not used. Both are logged
as warnings.
"""

import contextlib
import functools
import logging
import os
import sqlite3
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bandgap.foundation.arguments import as_folder

T = TypeVar("T")

# All of OE62 with the preset oe62-16 takes about 0.3 GB.
DEFAULT_MAX_BYTES = 2_000_000_000
# Keys in one query; SQLite accepts at least 999 variables.
_BATCH = 500
_WAIT_S = 30.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    key TEXT PRIMARY KEY, used_s INTEGER NOT NULL, n_bytes INTEGER NOT NULL, value BLOB NOT NULL
)"""

_log = logging.getLogger(__name__)


class DescriptorCache:
    """Vectors by key in a file in `folder`.

    Above `max_bytes` of vectors, the least recently used ones are removed.
    """

    def __init__(self, folder: Path | str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = as_folder(folder, name="folder of the cache")
        self.max_bytes = max_bytes
        self.path = self.folder / "descriptors.sqlite"

    def get_many(self, keys: Sequence[str], *, width: int) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors (width,) by key; damaged entries are left out."""
        vectors: dict[str, NDArray[np.float32]] = {}
        nothing: list[tuple[str, bytes]] = []
        for start in range(0, len(keys), _BATCH):
            select = functools.partial(_select, keys=keys[start : start + _BATCH])
            for key, value in self._guarded(select, default=nothing):
                row = _unpacked(value, width)
                if row is not None:
                    vectors[key] = row
        return vectors

    def put_many(self, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors by key; existing ones are replaced."""
        if rows:
            packed = [(key, _packed(row)) for key, row in rows.items()]
            self._guarded(lambda db: _insert(db, packed, self.max_bytes), default=None)

    def __len__(self) -> int:
        """Return the number of stored vectors."""
        return self._guarded(
            lambda db: int(db.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]), default=0
        )

    def _guarded(self, action: Callable[[sqlite3.Connection], T], *, default: T) -> T:
        """Return the result of `action` in one transaction, or `default` if the file is unusable.

        A damaged file is removed once, and the action repeated.
        """
        for attempt in (1, 2):
            try:
                with self._connected() as db:
                    return action(db)
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                is_damaged = code in _DAMAGED or isinstance(error, (ValueError, TypeError))
                if is_damaged and attempt == 1:
                    _log.warning(
                        "descriptor cache %s is damaged (%s): it is rebuilt", self.path, error
                    )
                    self._remove()
                    continue
                _log.warning(
                    "descriptor cache %s cannot be used (%s): it is not used", self.path, error
                )
                return default
        return default

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self._create()
        with contextlib.closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as db:
            db.execute("PRAGMA synchronous=NORMAL")
            with db:
                yield db

    def _create(self) -> None:
        """Create the empty file under another name, then give it its own.

        SQLite refuses the change to a write-ahead log at once, without waiting, when another
        process has the file open.
        """
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            new = Path(folder) / self.path.name
            # The structures may be secret. SQLite gives -wal and -shm the mode of this file.
            new.touch(mode=0o600)
            with contextlib.closing(sqlite3.connect(new)) as db:
                db.execute("PRAGMA journal_mode=WAL")
                db.execute(_TABLE)
            with contextlib.suppress(FileExistsError):
                os.link(new, self.path)

    def _remove(self) -> None:
        for suffix in ("-wal", "-shm", ""):
            with contextlib.suppress(OSError):
                self.path.with_name(self.path.name + suffix).unlink(missing_ok=True)


def _select(db: sqlite3.Connection, keys: Sequence[str]) -> list[tuple[str, bytes]]:
    marks = ",".join("?" * len(keys))
    now = int(time.time())
    rows = db.execute(
        f"SELECT key, value, used_s FROM vectors WHERE key IN ({marks})", list(keys)
    ).fetchall()
    # A write per hour, not one per read.
    stale = [(now, key) for key, _, used_s in rows if now - used_s > 3600]
    db.executemany("UPDATE vectors SET used_s = ? WHERE key = ?", stale)
    return [(key, value) for key, value, _ in rows]


def _insert(db: sqlite3.Connection, packed: Sequence[tuple[str, bytes]], max_bytes: int) -> None:
    now = int(time.time())
    db.executemany(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
        [(key, now, len(value), value) for key, value in packed],
    )
    n_pages, n_free, page_bytes = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    stored = (n_pages - n_free) * page_bytes
    if stored > max_bytes:
        _drop_oldest(db, stored - int(0.9 * max_bytes))


def _drop_oldest(db: sqlite3.Connection, n_bytes: int) -> None:
    keys = []
    freed = 0
    for key, size in db.execute("SELECT key, n_bytes FROM vectors ORDER BY used_s, rowid"):
        if freed >= n_bytes:
            break
        keys.append((key,))
        freed += size
    db.executemany("DELETE FROM vectors WHERE key = ?", keys)


def _packed(row: NDArray[np.float32]) -> bytes:
    return zlib.compress(row.astype("<f4").tobytes(), 1)


def _unpacked(value: bytes, width: int) -> NDArray[np.float32] | None:
    try:
        row = np.frombuffer(zlib.decompress(value), dtype="<f4").astype(np.float32)
    except (zlib.error, ValueError):
        return None
    return row if row.shape == (width,) else None

"""Descriptor cache on disk: one SQLite file of compressed float32 vectors, keyed by content and settings.

Safe under several processes (write-ahead log). A cache never costs a computation: a file that is damaged is rebuilt,
and one that is locked, full or read-only is passed over, each with a logged warning.
"""

import contextlib
import functools
import logging
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

DEFAULT_MAX_BYTES = 2_000_000_000  # all of OE62 with the preset oe62-16 takes about 0.3 GB
_BATCH = 500  # keys in one query; SQLite accepts at least 999 variables
_WAIT_S = 30.0
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_TABLE = """
CREATE TABLE IF NOT EXISTS vectors (
    key TEXT PRIMARY KEY, used_s INTEGER NOT NULL, n_bytes INTEGER NOT NULL, value BLOB NOT NULL
)"""

_log = logging.getLogger(__name__)


class DescriptorCache:
    """Vectors by key in `folder`; above `max_bytes` of vectors, those used longest ago are dropped."""

    def __init__(self, folder: Path | str, *, max_bytes: int = DEFAULT_MAX_BYTES) -> None:
        self.folder = Path(folder)
        self.max_bytes = max_bytes
        self.path = self.folder / "descriptors.sqlite"

    def get_many(self, keys: Sequence[str], *, width: int) -> dict[str, NDArray[np.float32]]:
        """Return the stored vectors (width,) among `keys`; a damaged entry counts as not stored."""
        found: dict[str, NDArray[np.float32]] = {}
        nothing: list[tuple[str, bytes]] = []
        for start in range(0, len(keys), _BATCH):
            select = functools.partial(_select, keys=keys[start : start + _BATCH])
            for key, value in self._guarded(select, default=nothing):
                row = _unpacked(value, width)
                if row is not None:
                    found[key] = row
        return found

    def put_many(self, rows: Mapping[str, NDArray[np.float32]]) -> None:
        """Store vectors by key; those already stored are replaced."""
        if rows:
            packed = [
                (key, zlib.compress(row.astype("<f4").tobytes(), 1)) for key, row in rows.items()
            ]
            self._guarded(lambda db: _insert(db, packed, self.max_bytes), default=None)

    def __len__(self) -> int:
        """Return the number of stored vectors."""
        return self._guarded(
            lambda db: int(db.execute("SELECT COUNT(*) FROM vectors").fetchone()[0]), default=0
        )

    def clear(self) -> None:
        """Remove every stored vector."""
        self._guarded(lambda db: db.execute("DELETE FROM vectors"), default=None)

    def _guarded(self, action: Callable[[sqlite3.Connection], T], *, default: T) -> T:
        """Run `action` in one transaction; rebuild a damaged file once, pass over one that cannot be used."""
        for attempt in (1, 2):
            try:
                with self._connected() as db:
                    return action(db)
            except (sqlite3.Error, OSError, ValueError, TypeError) as error:
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                damaged = code in _DAMAGED or isinstance(error, (ValueError, TypeError))
                if damaged and attempt == 1:
                    _log.warning(
                        "descriptor cache %s is damaged (%s): it is rebuilt", self.path, error
                    )
                    self._remove()
                    continue
                _log.warning(
                    "descriptor cache %s cannot be used (%s): going on without it", self.path, error
                )
                return default
        return default

    @contextlib.contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        self.folder.mkdir(parents=True, exist_ok=True)
        if not self.path.exists():
            self.path.touch(
                mode=0o600
            )  # as the structures that it describes may be secret; -wal and -shm follow it
        with contextlib.closing(sqlite3.connect(self.path, timeout=_WAIT_S)) as db:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.execute(_TABLE)
            with db:
                yield db

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
    stale = [
        (now, key) for key, _, used_s in rows if now - used_s > 3600
    ]  # a write per hour, not one per read
    db.executemany("UPDATE vectors SET used_s = ? WHERE key = ?", stale)
    return [(key, value) for key, value, _ in rows]


def _insert(db: sqlite3.Connection, packed: Sequence[tuple[str, bytes]], max_bytes: int) -> None:
    now = int(time.time())
    db.executemany(
        "INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)",
        [(key, now, len(value), value) for key, value in packed],
    )
    pages, free, page_bytes = (
        int(db.execute(f"PRAGMA {name}").fetchone()[0])
        for name in ("page_count", "freelist_count", "page_size")
    )
    stored = (pages - free) * page_bytes
    if stored > max_bytes:
        _drop_oldest(db, stored - int(0.9 * max_bytes))


def _drop_oldest(db: sqlite3.Connection, n_bytes: int) -> None:
    keys, freed = [], 0
    for key, size in db.execute("SELECT key, n_bytes FROM vectors ORDER BY used_s, rowid"):
        if freed >= n_bytes:
            break
        keys.append((key,))
        freed += size
    db.executemany("DELETE FROM vectors WHERE key = ?", keys)


def _unpacked(value: bytes, width: int) -> NDArray[np.float32] | None:
    try:
        row = np.frombuffer(zlib.decompress(value), dtype="<f4").astype(np.float32)
    except (zlib.error, ValueError):
        return None
    return row if row.shape == (width,) else None

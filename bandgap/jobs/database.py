"""The SQLite file of the data directory: schema, connections and transactions.

It is in WAL mode. Every call opens a connection, unless `Database.kept_open` keeps one.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import BandgapError, ConfigError, InputError

SCHEMA_VERSION = 2
BUSY_S = 10.0  # how long a writer waits for another one before it gives up
# What was reported as stored must survive a power cut. Tests turn it off: nobody keeps their files.
SYNCHRONOUS = "FULL"
# Where the file, or that of the memory that processes share, cannot grow: "disk I/O error".
_DISK_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")

# "IF NOT EXISTS", as two processes may make a new file at the same time
SCHEMA = """
CREATE TABLE IF NOT EXISTS workspace (id TEXT PRIMARY KEY, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS opened_workspace (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, opened REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS dataset (
  id TEXT PRIMARY KEY, workspace TEXT NOT NULL, name TEXT NOT NULL, origin TEXT NOT NULL,
  purpose TEXT NOT NULL, level_of_theory TEXT NOT NULL DEFAULT '',
  labels TEXT NOT NULL DEFAULT '{}', created REAL NOT NULL);
CREATE INDEX IF NOT EXISTS dataset_of_workspace ON dataset (workspace, created);
CREATE TABLE IF NOT EXISTS dataset_file (
  dataset TEXT NOT NULL, seq INTEGER NOT NULL, name TEXT NOT NULL, content TEXT NOT NULL,
  n_bytes INTEGER NOT NULL, PRIMARY KEY (dataset, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS structure (
  dataset TEXT NOT NULL, row INTEGER NOT NULL, id TEXT NOT NULL, file TEXT NOT NULL,
  status TEXT NOT NULL, problem TEXT NOT NULL, formula TEXT NOT NULL, n_atoms INTEGER NOT NULL,
  periodic INTEGER NOT NULL, gap_eV REAL, info TEXT NOT NULL DEFAULT '{}',
  PRIMARY KEY (dataset, row)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS structure_to_count ON structure (dataset, status, gap_eV);
CREATE TABLE IF NOT EXISTS run (
  id TEXT PRIMARY KEY, workspace TEXT NOT NULL, job TEXT NOT NULL, dataset TEXT NOT NULL,
  source TEXT NOT NULL, method TEXT NOT NULL, title TEXT NOT NULL, fingerprint TEXT NOT NULL,
  request TEXT NOT NULL, created REAL NOT NULL);
CREATE INDEX IF NOT EXISTS run_of_workspace ON run (workspace, created);
CREATE TABLE IF NOT EXISTS job (
  id TEXT PRIMARY KEY, workspace TEXT NOT NULL, kind TEXT NOT NULL, lane TEXT NOT NULL,
  title TEXT NOT NULL, payload TEXT NOT NULL, subject TEXT NOT NULL, submit_key TEXT NOT NULL,
  state TEXT NOT NULL, created REAL NOT NULL, started REAL, finished REAL, heartbeat REAL,
  worker TEXT, cancel_requested REAL, error TEXT NOT NULL DEFAULT '',
  result TEXT NOT NULL DEFAULT '{}', person TEXT NOT NULL DEFAULT '',
  turn INTEGER NOT NULL DEFAULT 0, estimate_s REAL, UNIQUE (workspace, submit_key));
CREATE INDEX IF NOT EXISTS job_to_claim ON job (state, lane, created);
CREATE INDEX IF NOT EXISTS job_of_workspace ON job (workspace, created);
CREATE INDEX IF NOT EXISTS job_of_subject ON job (subject, created);
CREATE TABLE IF NOT EXISTS event (
  job TEXT NOT NULL, seq INTEGER NOT NULL, time REAL NOT NULL, kind TEXT NOT NULL,
  body TEXT NOT NULL, PRIMARY KEY (job, seq)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS catalogue (
  kind TEXT NOT NULL, id TEXT NOT NULL, rank INTEGER NOT NULL, body TEXT NOT NULL,
  PRIMARY KEY (kind, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS lock (
  name TEXT PRIMARY KEY, holder TEXT NOT NULL, pid INTEGER NOT NULL, host TEXT NOT NULL,
  since REAL NOT NULL, heartbeat REAL NOT NULL) WITHOUT ROWID;
-- Names of deleted data sets, for their runs
CREATE TABLE IF NOT EXISTS deleted_dataset (
  id TEXT PRIMARY KEY, workspace TEXT NOT NULL, name TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS run_note (
  run TEXT PRIMARY KEY, workspace TEXT NOT NULL, note TEXT NOT NULL) WITHOUT ROWID;
-- What is in the bins of workspaces
CREATE TABLE IF NOT EXISTS deletion (
  kind TEXT NOT NULL, id TEXT NOT NULL, workspace TEXT NOT NULL, name TEXT NOT NULL,
  time REAL NOT NULL, jobs TEXT NOT NULL, datasets TEXT NOT NULL, PRIMARY KEY (kind, id))
  WITHOUT ROWID;
-- Who may open a workspace: its owner, and those who used a link to it
CREATE TABLE IF NOT EXISTS workspace_owner (
  workspace TEXT PRIMARY KEY, person TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS workspace_link (
  digest TEXT PRIMARY KEY, workspace TEXT NOT NULL, may_write INTEGER NOT NULL,
  created REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS link_user (
  person TEXT NOT NULL, digest TEXT NOT NULL, PRIMARY KEY (person, digest)) WITHOUT ROWID;
CREATE VIEW IF NOT EXISTS access AS
  SELECT workspace, person, 1 AS may_write FROM workspace_owner UNION ALL
  SELECT workspace, person, may_write FROM workspace_link JOIN link_user USING (digest);
-- Disk space of single people
CREATE TABLE IF NOT EXISTS quota (
  person TEXT PRIMARY KEY, n_bytes INTEGER NOT NULL) WITHOUT ROWID;
"""

_transactions: ContextVar[Mapping[Path, sqlite3.Connection]] = ContextVar(
    "_transactions", default=MappingProxyType({})
)
# Connections that are kept open for SELECT statements.
_kept_connections: ContextVar[Mapping[Path, sqlite3.Connection]] = ContextVar(
    "_kept_connections", default=MappingProxyType({})
)


class StoreError(BandgapError):
    """The store cannot be read or written: locked, damaged, full, or of another version."""


@contextmanager
def row_damage_reported(table: str) -> Iterator[None]:
    """Turn the errors of a damaged row (wrong types, text that is not JSON) into a StoreError."""
    try:
        yield
    except (*DAMAGE, ConfigError) as error:
        raise StoreError(
            f"A row of the table {table} in the store is damaged "
            f"({type(error).__name__}: {error}). The runs next to the store are safe. "
            "Move its file bandgap.sqlite3 away and start again; a new one is made."
        ) from error


class Database:
    """The SQLite file at `path`.

    Every call opens a new connection, as SQLite's connections must not pass between threads. What
    makes many calls in one thread keeps one connection by `kept_open`.
    Raises StoreError where the file cannot be used, is damaged or has another schema.
    """

    read_only = False  # for a visitor to whom a workspace is open for reading

    def __init__(self, path: Path) -> None:
        self.path = path
        # SQLite's -wal and -shm files take the rights of this one; its own error says more
        with suppress(OSError):
            if not path.exists():
                path.touch(mode=0o600)
        with self._errors_translated(), self._connection() as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            if version == 0:  # a new file
                connection.execute("PRAGMA journal_mode = WAL")
                connection.executescript(SCHEMA)
                connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            elif version != SCHEMA_VERSION:
                raise StoreError(
                    f"{path} was written by another version of bandgap (schema {version}; this "
                    f"version reads schema {SCHEMA_VERSION}). Install the version that wrote it, "
                    "set BANDGAP_HOME to another folder, or move this file away: a new one is made."
                )

    def row(self, query: str, *values: object) -> sqlite3.Row | None:
        """Return the first row of a SELECT statement, or None."""
        with self.reading() as connection:
            first_row: sqlite3.Row | None = connection.execute(query, values).fetchone()
        return first_row

    def rows(self, query: str, *values: object) -> list[sqlite3.Row]:
        """Return all rows of a SELECT statement."""
        with self.reading() as connection:
            return connection.execute(query, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Give a connection for one or several SELECT statements."""
        if (outer := _transactions.get().get(self.path)) is not None:
            yield outer
            return
        if (connection := _kept_connections.get().get(self.path)) is not None:
            with self._errors_translated():
                yield connection
            return
        with self._errors_translated(), self._connection() as connection:
            yield connection

    @contextmanager
    def kept_open(self) -> Iterator[None]:
        """Keep one connection for all SELECT statements in this context (`contextvars`).

        Opening a connection takes longer than most statements. Every statement still sees what
        other connections have committed before it. Errors of the context that are not of its
        statements pass as they are.
        """
        with ExitStack() as stack:
            with self._errors_translated():
                connection = stack.enter_context(self._connection())
            token = _kept_connections.set({**_kept_connections.get(), self.path: connection})
            try:
                yield
            finally:
                _kept_connections.reset(token)

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give a connection inside a transaction that has the write lock.

        It commits at the end and rolls back on an error. Other calls in this context
        (`contextvars`) that read or write meanwhile are part of the same transaction.
        """
        self.check_writable()
        if (outer := _transactions.get().get(self.path)) is not None:
            yield outer
            return
        with self._errors_translated(), self._connection() as connection:
            connection.execute("BEGIN IMMEDIATE")
            token = _transactions.set({**_transactions.get(), self.path: connection})
            try:
                yield connection
            except BaseException:
                if connection.in_transaction:  # SQLite itself rolls back on a full disk
                    connection.execute("ROLLBACK")
                raise
            finally:
                _transactions.reset(token)
            connection.execute("COMMIT")

    def check_writable(self) -> None:
        """Raise InputError where this database is open for reading."""
        if self.read_only:
            raise InputError(
                "This workspace is shared with you for reading. Ask its owner for a link for "
                "writing, or start a workspace of your own on Home."
            )

    def write(self, query: str, *values: object) -> int:
        """Execute one statement in a transaction (`writing`); return the number of changed rows."""
        with self.writing() as connection:
            return connection.execute(query, values).rowcount

    @contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute(f"PRAGMA synchronous = {SYNCHRONOUS}")
            yield connection
        finally:
            connection.close()

    @contextmanager
    def _errors_translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.OperationalError as error:
            if "malformed JSON" in str(error):  # SQLite read a damaged row
                raise self._damage(error) from error
            raise StoreError(
                f"The store {self.path} cannot be used now: {_reason(error)}"
            ) from error
        # SQLite's message may quote damaged bytes
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise self._damage(error) from error

    def _damage(self, error: Exception) -> StoreError:
        return StoreError(
            f"The store {self.path} is damaged: {error}. The runs next to it are safe. "
            "Move this file away and start again; a new one is made."
        )


def _reason(error: sqlite3.OperationalError) -> str:
    """Return why the file cannot be used, and what to do."""
    if "locked" in str(error) or "busy" in str(error):
        return f"{error}. Another process has locked it; wait a few seconds and try again."
    if getattr(error, "sqlite_errorname", "") in _DISK_FULL:  # Python's own errors have none
        return "the disk is full. Free some space; nothing that was written before is lost."
    return f"{error}. Check that the folder exists and can be written."

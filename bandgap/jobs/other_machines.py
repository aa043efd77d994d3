"""Refuse a data directory that another machine serves.

Page server and worker share a database in WAL mode, which works on one machine only. Both write a
row with a heartbeat into the table of locks. A row of another machine counts if its heartbeat
changes between two reads. So clocks are not compared, and the row of a machine that has stopped
does not count. Containers of one machine are the same machine. A page server without `bandgap app`
writes no row.
"""

import functools
import logging
import os
import socket
import sqlite3
import time
import uuid
from collections.abc import Callable
from pathlib import Path

from bandgap.foundation.errors import BandgapError
from bandgap.jobs.database import Database, StoreError
from bandgap.jobs.heartbeats import STALE_S
from bandgap.jobs.home import Home

log = logging.getLogger(__name__)

BEAT_S = 4.0  # of the page server
POLL_S = 0.3
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ServedElsewhere(BandgapError):
    """Another machine serves this data directory."""


def this_machine() -> str:
    """Return the name of this machine in rows: its host name, which may change, and its id."""
    return f"{socket.gethostname()} {_machine_id()}"


def is_this_machine(host: str) -> bool:
    """Return whether the name in a row is one of this machine."""
    return host.partition(" ")[2] == _machine_id()


class OtherMachines:
    """Reads the rows of other machines repeatedly."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._last_beats: dict[str, tuple[str, float]] = {}

    def read(self) -> tuple[list[sqlite3.Row], list[sqlite3.Row]]:
        """Return the rows that are not stale, and those of them that beat since the last call."""
        fresh = self._database.rows(
            "SELECT * FROM lock WHERE heartbeat >= ?", time.time() - STALE_S
        )
        rows = [row for row in fresh if not is_this_machine(row["host"])]
        beats = {row["name"]: (row["holder"], row["heartbeat"]) for row in rows}
        beating = [
            row for row in rows if _beats(self._last_beats.get(row["name"]), beats[row["name"]])
        ]
        self._last_beats = beats
        return rows, beating


def wait_for_other_machines(home: Home, database: Database, *, stopped: Callable[[], bool]) -> None:
    """Return when no row of another machine can be of a living process.

    That is after STALE_S at the latest. Raises ServedElsewhere as soon as the heartbeat of such a
    row changes.
    """
    other_machines = OtherMachines(database)
    deadline = time.monotonic() + STALE_S
    while time.monotonic() < deadline and not stopped():
        rows, beating = other_machines.read()
        if beating:
            raise _refusal(home, beating[0])
        if not rows:
            return
        time.sleep(POLL_S)


class PagesRow:
    """The row of the page server on this machine."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._holder = str(uuid.uuid4())
        self._since = time.time()
        self._next_beat = 0.0  # monotonic time
        self._other_machines: OtherMachines | None = None

    def beat(self) -> None:
        """Renew the row, at most every BEAT_S; an error of the database is logged.

        Raises ServedElsewhere where a page server or worker of another machine has an older row.
        """
        if time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEAT_S
        try:
            database = Database(self._home.database)
            self._other_machines = self._other_machines or OtherMachines(database)
            with database.writing() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        f"pages {_machine_id()}",
                        self._holder,
                        os.getpid(),
                        this_machine(),
                        self._since,
                        time.time(),
                    ),
                )
            _, beating = self._other_machines.read()
        except StoreError as error:
            log.warning("the pages' heartbeat could not be written: %s", error)
            return
        for row in beating:
            if row["since"] <= self._since:
                raise _refusal(self._home, row)

    def end(self) -> None:
        """Remove the row."""
        try:
            with Database(self._home.database).writing() as connection:
                connection.execute("DELETE FROM lock WHERE holder = ?", (self._holder,))
        except StoreError as error:
            log.warning("the pages' heartbeat could not be removed: %s", error)


def _refusal(home: Home, row: sqlite3.Row) -> ServedElsewhere:
    what = row["name"].split()[0]
    host = row["host"].split()[0]
    serves = "serve" if what == "pages" else "serves"
    return ServedElsewhere(
        f"The {what} of another machine, {host}, {serves} {home.folder}. Its database works on one "
        f"machine only. Start pages and worker on {host}; let its worker send work here by "
        "BANDGAP_ENGINE and BANDGAP_SCHEDULER; or set BANDGAP_HOME to another folder."
    )


def _beats(last: tuple[str, float] | None, beat: tuple[str, float]) -> bool:
    """Return whether the holder is the same and its heartbeat has changed."""
    return last is not None and last[0] == beat[0] and last[1] != beat[1]


@functools.cache
def _machine_id() -> str:
    """Return an id that all containers of a machine share: of its boot, or of its network card."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        address = uuid.getnode()
        is_random = address >> 40 & 1  # uuid.getnode sets this bit where it finds no card
        return socket.gethostname() if is_random else f"{address:012x}"

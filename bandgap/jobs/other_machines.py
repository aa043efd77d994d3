"""One machine serves a data directory: pages and worker share a database in WAL mode, which holds on one machine alone.

Worker and pages write a row with a heartbeat into the table of locks. A row of another machine counts where its
heartbeat moves while one looks: what a machine that is gone left behind never does, and clocks are not compared.
Containers of one machine are that machine, under whatever names. Pages without `bandgap app` leave no row.
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

BEAT_S = 4.0  # of pages
LOOK_S = 0.3
_BOOT = Path("/proc/sys/kernel/random/boot_id")


class ServedElsewhere(BandgapError):
    """Another machine serves this data directory."""


def here() -> str:
    """Return how rows name this machine: its host name, which may change, and what tells it from others."""
    return f"{socket.gethostname()} {_machine()}"


def is_here(host: str) -> bool:
    """Return whether a row is of this machine; earlier versions wrote the host name alone."""
    name, _, machine = host.partition(" ")
    return machine == _machine() if machine else name == socket.gethostname()


class OtherMachines:
    """Looks again and again at the rows of other machines."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._seen: dict[str, tuple[str, float]] = {}

    def look(self) -> tuple[list[sqlite3.Row], list[sqlite3.Row]]:
        """Return the rows of other machines that are not stale, and those of them that beat since an earlier look."""
        fresh = self._database.rows(
            "SELECT * FROM lock WHERE heartbeat >= ?", time.time() - STALE_S
        )
        others = [row for row in fresh if not is_here(row["host"])]
        now = {row["name"]: (row["holder"], row["heartbeat"]) for row in others}
        beating = [row for row in others if _beats(self._seen.get(row["name"]), now[row["name"]])]
        self._seen = now
        return others, beating


def wait_for_other_machines(home: Home, database: Database, *, stopped: Callable[[], bool]) -> None:
    """Return as soon as no row of another machine is left that may be of a living process.

    Raises ServedElsewhere where one is: at its next beat, or after STALE_S at the latest.
    """
    others, end = OtherMachines(database), time.monotonic() + STALE_S
    while time.monotonic() < end and not stopped():
        rows, beating = others.look()
        if beating:
            raise _refusal(home, beating[0])
        if not rows:
            return
        time.sleep(LOOK_S)


class PagesRow:
    """The row of pages on this machine, and their look at other machines."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._holder, self._since, self._next = str(uuid.uuid4()), time.time(), 0.0
        self._others: OtherMachines | None = None

    def beat(self) -> None:
        """Renew the row, at most every BEAT_S; what is wrong with the database is left for pages to say.

        Raises ServedElsewhere where pages or a worker of another machine were here before these pages.
        """
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + BEAT_S
        try:
            database = Database(self._home.database)
            self._others = self._others or OtherMachines(database)
            with database.writing() as connection:
                connection.execute(
                    "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)",
                    (
                        f"pages {_machine()}",
                        self._holder,
                        os.getpid(),
                        here(),
                        self._since,
                        time.time(),
                    ),
                )
            _, beating = self._others.look()
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
    what, host = row["name"].split()[0], row["host"].split()[0]
    serves = "serve" if what == "pages" else "serves"
    return ServedElsewhere(
        f"The {what} of another machine, {host}, {serves} {home.folder}. Its database holds on one machine alone. "
        f"Start pages and worker on {host}; let its worker send work here by BANDGAP_ENGINE and BANDGAP_SCHEDULER; "
        "or set BANDGAP_HOME to another folder."
    )


def _beats(before: tuple[str, float] | None, now: tuple[str, float]) -> bool:
    return before is not None and before[0] == now[0] and before[1] != now[1]


@functools.cache
def _machine() -> str:
    """Return what is one for all containers of a machine and is another on every other: its boot, else its hardware."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        address = uuid.getnode()
        made_up = address >> 40 & 1
        return socket.gethostname() if made_up else f"{address:012x}"

"""The worker's lock, so that only one serves a data directory, and its heartbeat.

Page server and worker share a database in WAL mode, which works on one machine only. So a worker
does not start where that of another machine does, and `bandgap app` ends with it. Containers of
one machine are the same machine.
"""

import functools
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bandgap.foundation.errors import BandgapError
from bandgap.jobs.database import Database
from bandgap.jobs.heartbeats import STALE_S, is_stale
from bandgap.jobs.home import Home

NAME = "worker"
REFUSED = 3  # exit code of a worker that may not serve the data directory, now or later
POLL_S = 0.3
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True)
class WorkerStatus:
    """Whether a worker serves the data directory, and the age of its heartbeat (None: none)."""

    alive: bool
    age_s: float | None


def this_machine() -> str:
    """Return the name of this machine in rows: its host name, which may change, and its id."""
    return f"{socket.gethostname()} {_machine_id()}"


def wait_for_other_machine(home: Home, database: Database, *, stopped: Callable[[], bool]) -> None:
    """Return when the lock cannot be that of a living worker of another machine.

    That is after STALE_S at the latest. Raises BandgapError as soon as its heartbeat changes.
    """
    deadline = time.monotonic() + STALE_S
    last_holder = ""
    last_beat = 0.0
    while time.monotonic() < deadline and not stopped():
        row = database.row("SELECT * FROM lock WHERE name = ?", NAME)
        if row is None or row["heartbeat"] < time.time() - STALE_S:
            return
        host, _, machine = row["host"].partition(" ")
        if machine == _machine_id():
            return
        if row["holder"] == last_holder and row["heartbeat"] != last_beat:
            raise BandgapError(
                f"The worker of another machine, {host}, serves {home.folder}. Its database works"
                f" on one machine only. Start pages and worker on {host}; let its worker send work"
                " here by BANDGAP_ENGINE and BANDGAP_SCHEDULER; or set BANDGAP_HOME to another"
                " folder."
            )
        last_holder = row["holder"]
        last_beat = row["heartbeat"]
        time.sleep(POLL_S)


def acquire(database: Database, holder: str) -> bool:
    """Take the worker's lock for `holder`; False while another living worker has it."""
    now = time.time()
    with database.writing() as connection:
        row = connection.execute("SELECT * FROM lock WHERE name = ?", (NAME,)).fetchone()
        is_foreign = row is not None and row["holder"] != holder
        if is_foreign and not _is_dead(row["heartbeat"], pid=row["pid"], host=row["host"]):
            return False
        connection.execute(
            "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)",
            (NAME, holder, os.getpid(), this_machine(), now, now),
        )
    return True


def release(database: Database, holder: str) -> None:
    """Release the lock; nothing happens when `holder` does not have it."""
    database.write("DELETE FROM lock WHERE name = ? AND holder = ?", NAME, holder)


def holds(database: Database, holder: str) -> bool:
    """Return whether `holder` still has the lock."""
    row = database.row("SELECT holder FROM lock WHERE name = ?", NAME)
    return row is not None and row["holder"] == holder


def worker_status(database: Database) -> WorkerStatus:
    """Return the state of the worker by its heartbeat."""
    row = database.row("SELECT heartbeat FROM lock WHERE name = ?", NAME)
    if row is None:
        return WorkerStatus(alive=False, age_s=None)
    age = max(0.0, time.time() - row["heartbeat"])
    return WorkerStatus(alive=not is_stale(row["heartbeat"]), age_s=age)


def _is_dead(heartbeat: float, *, pid: int, host: str) -> bool:
    if is_stale(heartbeat):
        return True
    if host != this_machine() or os.name != "posix":
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@functools.cache
def _machine_id() -> str:
    """Return an id that all containers of a machine share: of its boot, or of its network card."""
    try:
        return _BOOT.read_text(encoding="ascii").strip()
    except OSError:
        address = uuid.getnode()
        is_random = address >> 40 & 1  # uuid.getnode sets this bit where it finds no card
        return socket.gethostname() if is_random else f"{address:012x}"

"""The lock row that lets only one worker serve a data directory, and the worker's heartbeat that pages show."""

import os
import socket
import time
from dataclasses import dataclass

from bandgap.jobs.database import Database
from bandgap.jobs.heartbeats import is_stale
from bandgap.jobs.other_machines import here

NAME = "worker"


@dataclass(frozen=True)
class WorkerStatus:
    """Whether a worker serves the data directory, and how old its heartbeat is in seconds (None: never seen)."""

    alive: bool
    age_s: float | None


def acquire(database: Database, holder: str) -> bool:
    """Take the worker's lock for `holder`; False while another living worker has it."""
    now = time.time()
    with database.writing() as connection:
        row = connection.execute("SELECT * FROM lock WHERE name = ?", (NAME,)).fetchone()
        if (
            row
            and row["holder"] != holder
            and not _dead(row["heartbeat"], pid=row["pid"], host=row["host"])
        ):
            return False
        connection.execute(
            "INSERT OR REPLACE INTO lock VALUES (?, ?, ?, ?, ?, ?)",
            (NAME, holder, os.getpid(), here(), now, now),
        )
    return True


def release(database: Database, holder: str) -> None:
    """Give the lock back; nothing happens when `holder` does not have it."""
    with database.writing() as connection:
        connection.execute("DELETE FROM lock WHERE name = ? AND holder = ?", (NAME, holder))


def holds(database: Database, holder: str) -> bool:
    """Return whether `holder` still has the lock."""
    row = database.row("SELECT holder FROM lock WHERE name = ?", NAME)
    return row is not None and row["holder"] == holder


def worker_status(database: Database) -> WorkerStatus:
    """Return the worker's state as its heartbeat tells it."""
    row = database.row("SELECT heartbeat FROM lock WHERE name = ?", NAME)
    if row is None:
        return WorkerStatus(alive=False, age_s=None)
    age = max(0.0, time.time() - row["heartbeat"])
    return WorkerStatus(alive=not is_stale(row["heartbeat"]), age_s=age)


def _dead(heartbeat: float, *, pid: int, host: str) -> bool:
    if is_stale(heartbeat):
        return True
    if (
        host not in (here(), socket.gethostname()) or os.name != "posix"
    ):  # earlier versions wrote the name alone
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False

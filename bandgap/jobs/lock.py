"""The worker's lock, so that only one serves a data directory, and its heartbeat."""

import os
import time
from dataclasses import dataclass

from bandgap.jobs.database import Database
from bandgap.jobs.heartbeats import is_stale
from bandgap.jobs.other_machines import this_machine

NAME = "worker"
REFUSED = 3  # exit code of a worker that may not serve the data directory, now or later


@dataclass(frozen=True)
class WorkerStatus:
    """Whether a worker serves the data directory, and the age of its heartbeat (None: none)."""

    alive: bool
    age_s: float | None


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
    with database.writing() as connection:
        connection.execute("DELETE FROM lock WHERE name = ? AND holder = ?", (NAME, holder))


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

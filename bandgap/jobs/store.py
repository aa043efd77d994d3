"""The table of jobs: submit, claim, heartbeat, events, cancel.

The dashboard inserts jobs and requests their end. Only the worker and the processes of its jobs
change their state. A claim is one UPDATE ... RETURNING, so that two workers never take the same
job.

People take turns: in each turn of a lane, everyone has one job, and a short one is before a long
one. A new job is in the turn of the last claim, or in the turn after its person's last job. So it
waits for two jobs of another person at most, and for one more with each own job before it. In a
turn, jobs are ordered by row, as the clock may be set between two of them.
"""

import json
import sqlite3
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import InputError
from bandgap.foundation.progress import Update
from bandgap.jobs.database import Database, row_damage_reported
from bandgap.jobs.heartbeats import is_stale
from bandgap.jobs.home import Home
from bandgap.jobs.kinds import KINDS, Lane
from bandgap.jobs.people import person_of

State = Literal["queued", "running", "cancelling", "cancelled", "failed", "finished", "interrupted"]
Ending = Literal["cancelled", "failed", "finished", "interrupted"]

ACTIVE: tuple[State, ...] = ("queued", "running", "cancelling")
MAX_QUEUED = 20  # jobs of one person in a lane
SHORT_S = 60.0  # a job of a shorter estimate is before the others of its turn
_ORDER = f"turn, coalesce(estimate_s, 1e999) >= {SHORT_S}, rowid"


@dataclass(frozen=True)
class Job:
    """One row of the job table; with a stale heartbeat, `state` is "interrupted"."""

    id: str
    workspace: str
    person: str
    kind: str
    title: str
    subject: str  # the data set, run or prediction that the job is about
    state: State
    payload: Mapping[str, Any]
    created: float
    started: float | None
    finished: float | None
    cancel_requested: bool
    error: str
    result: Mapping[str, Any]
    estimate_s: float | None  # infinite where unknown, None before the worker has estimated it

    @property
    def active(self) -> bool:
        return self.state in ACTIVE

    @property
    def is_current(self) -> bool:
        """Whether it is active or finished, so that the same job need not be started."""
        return self.active or self.state == "finished"


_COLUMNS = tuple(field.name for field in fields(Job))


@dataclass(frozen=True)
class Event:
    """One report of a running job: an update of its progress, or a line of its log."""

    time: float
    kind: Literal["progress", "log"]
    update: Update
    since: float  # time at which the count of `update.done` began, for the remaining time
    since_done: int  # value at which it began


class JobStore:
    """Jobs and their events in the data directory's SQLite file."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.database = Database(home.database)

    # -- for the dashboard

    def start(
        self,
        workspace: str,
        kind: str,
        *,
        title: str,
        payload: Mapping[str, Any],
        subject: str,
        again: bool = False,
    ) -> Job:
        """Queue a job about a subject, or return the newest one of its kind if it is current.

        With `again` a finished one is repeated. Two calls make one job.
        """
        with self.database.writing():
            earlier = self.latest(workspace, subject, kind)
            if earlier is not None and (earlier.active or (earlier.is_current and not again)):
                return earlier
            return self.submit(workspace, kind, title=title, payload=payload, subject=subject)

    def submit(
        self,
        workspace: str,
        kind: str,
        *,
        title: str,
        payload: Mapping[str, Any],
        subject: str,
        submit_key: str = "",
    ) -> Job:
        """Queue a job, or return the job of this workspace that has the same `submit_key`.

        Raises InputError where MAX_QUEUED jobs of the workspace's person wait in its lane already.
        """
        job_id = str(uuid.uuid4())
        now = time.time()
        key = submit_key or job_id
        lane = KINDS[kind].lane
        with self.database.writing() as connection:
            connection.execute("INSERT OR IGNORE INTO workspace VALUES (?, ?)", (workspace, now))
            person = person_of(self.database, workspace)
            connection.execute(
                "INSERT OR IGNORE INTO job (id, workspace, person, kind, lane, title, payload,"
                " subject, submit_key, created, state, turn)"
                " SELECT :id, :workspace, :person, :kind, :lane, :title, :payload, :subject, :key,"
                " :now, 'queued', coalesce(max(turn + (person = :person)), 0) FROM job"
                " WHERE lane = :lane AND (started OR (state = 'queued' AND person = :person))",
                {
                    "id": job_id,
                    "workspace": workspace,
                    "person": person,
                    "kind": kind,
                    "lane": lane,
                    "title": title,
                    "payload": json.dumps(payload),
                    "subject": subject,
                    "key": key,
                    "now": now,
                },
            )
            row = connection.execute(
                "SELECT * FROM job WHERE workspace = ? AND submit_key = ?", (workspace, key)
            ).fetchone()
            (n_queued,) = connection.execute(
                "SELECT count(*) FROM job WHERE state = 'queued' AND person = ? AND lane = ?",
                (person, lane),
            ).fetchone()
            if n_queued > MAX_QUEUED:
                raise InputError(
                    f"{MAX_QUEUED} of your jobs wait already, the most for one person. Wait until "
                    "one of them begins, or cancel one; then start this one."
                )
            return _job(row)

    def request_cancel(self, workspace: str, job_id: str) -> None:
        """Request the end of a job: a queued one ends here, the worker stops a running one."""
        with self.database.writing() as connection:
            connection.execute(
                "UPDATE job SET cancel_requested = :now,"
                " finished = CASE state WHEN 'queued' THEN :now END,"
                " state = CASE state WHEN 'queued' THEN 'cancelled' ELSE 'cancelling' END"
                " WHERE id = :id AND workspace = :workspace AND state IN ('queued', 'running')",
                {"now": time.time(), "id": job_id, "workspace": workspace},
            )

    def job(self, workspace: str, job_id: str) -> Job | None:
        """Return a job of this workspace, or None."""
        row = self.database.row(
            "SELECT * FROM job WHERE id = ? AND workspace = ?", job_id, workspace
        )
        return _job(row) if row else None

    def latest(self, workspace: str, subject: str, *kinds: str) -> Job | None:
        """Return the newest job about a subject, of these kinds if any are given, or None."""
        newest = self.jobs(workspace, kinds=kinds or tuple(KINDS), subject=subject, limit=1)
        return newest[0] if newest else None

    def jobs(
        self,
        workspace: str,
        *,
        kinds: Sequence[str] = tuple(KINDS),
        subject: str | None = None,
        limit: int = 200,
    ) -> list[Job]:
        """Return the newest jobs of a workspace, or those about one `subject`, newest first."""
        marks = ", ".join("?" * len(kinds))
        about, values = ("", ()) if subject is None else (" AND subject = ?", (subject,))
        query = (
            f"SELECT * FROM job WHERE workspace = ? AND kind IN ({marks}){about}"
            " ORDER BY rowid DESC LIMIT ?"
        )
        rows = self.database.rows(query, workspace, *kinds, *values, limit)
        return [_job(row) for row in rows]

    def jobs_before(self, job: Job) -> list[Job]:
        """Return the jobs of all workspaces in the same lane that run or wait before this one.

        The running ones are first, then the others in the order of their start.
        """
        rows = self.database.rows(
            "SELECT * FROM job WHERE lane = ? AND id != ? AND (state IN ('running', 'cancelling')"
            f" OR (state = 'queued' AND ({_ORDER}) < (SELECT {_ORDER} FROM job WHERE id = ?)))"
            f" ORDER BY state = 'queued', {_ORDER}",
            KINDS[job.kind].lane,
            job.id,
            job.id,
        )
        return [_job(row) for row in rows]

    def active_jobs(self) -> list[Job]:
        """Return the jobs of all workspaces that run or wait, by lane in the order of the start."""
        rows = self.database.rows(
            "SELECT * FROM job WHERE state IN ('queued', 'running', 'cancelling')"
            f" ORDER BY lane, state = 'queued', {_ORDER}"
        )
        return [_job(row) for row in rows]

    def events(self, job_id: str, *, last: int = 20) -> list[Event]:
        """Return the last events of a job, oldest first."""
        rows = self.database.rows(
            "SELECT * FROM event WHERE job = ? ORDER BY seq DESC LIMIT ?", job_id, last
        )
        return [_event(row) for row in reversed(rows)]

    # -- for the worker and the processes of its jobs

    def claim(self, worker: str, *, lanes: Sequence[Lane] = ("short", "long")) -> Job | None:
        """Take the next queued job of these lanes for `worker`, or None."""
        marks = ", ".join("?" * len(lanes))
        now = time.time()
        with self.database.writing() as connection:
            row = connection.execute(
                "UPDATE job SET state = 'running', worker = ?, started = ?, heartbeat = ? WHERE "
                f"id = (SELECT id FROM job WHERE state = 'queued' AND lane IN ({marks}) ORDER BY "
                f"{_ORDER} LIMIT 1) RETURNING *",
                (worker, now, now, *lanes),
            ).fetchone()
        return _job(row) if row else None

    def unestimated(self) -> list[Job]:
        """Return the queued jobs that have no estimate yet."""
        rows = self.database.rows(
            "SELECT * FROM job WHERE state = 'queued' AND estimate_s IS NULL ORDER BY rowid"
        )
        return [_job(row) for row in rows]

    def set_estimate(self, job_id: str, seconds: float) -> None:
        """Store the seconds that a job will probably take."""
        self.database.write("UPDATE job SET estimate_s = ? WHERE id = ?", seconds, job_id)

    def claimed(self, job_id: str) -> Job | None:
        """Return a job by its id alone, or None; the process of a job knows no workspace."""
        row = self.database.row("SELECT * FROM job WHERE id = ?", job_id)
        return _job(row) if row else None

    def beat(self, worker: str, job_ids: Sequence[str], *, clock_step: float = 0.0) -> None:
        """Renew the heartbeat of the worker's lock and of the jobs that it runs.

        The times of these jobs move by `clock_step`, the seconds by which the clock was set. So the
        running time of a job does not change.
        """
        now = time.time()
        with self.database.writing() as connection:
            connection.execute("UPDATE lock SET heartbeat = ? WHERE holder = ?", (now, worker))
            connection.executemany(
                "UPDATE job SET heartbeat = ? WHERE id = ?", [(now, job_id) for job_id in job_ids]
            )
            for job_id in job_ids if clock_step else ():
                _move_times(connection, job_id, clock_step)

    def has_ended(self, job_id: str) -> bool:
        """Return whether a job has its final state, or was removed."""
        row = self.database.row("SELECT state FROM job WHERE id = ?", job_id)
        return row is None or row["state"] not in ACTIVE

    def cancel_requested(self, job_id: str) -> bool:
        """Return whether the end of this job was requested."""
        row = self.database.row("SELECT cancel_requested FROM job WHERE id = ?", job_id)
        return row is None or row[0] is not None

    def add_event(
        self,
        job_id: str,
        kind: Literal["progress", "log"],
        update: Update,
        *,
        since: float,
        since_done: int = 0,
    ) -> None:
        """Append an event to a job; its count was at `since_done` at the time `since`."""
        body = {
            **vars(update),
            "values": dict(update.values),
            "since": since,
            "since_done": since_done,
        }
        with self.database.writing() as connection:
            connection.execute(
                "INSERT INTO event SELECT :job, coalesce(max(seq), 0) + 1, :time, :kind, :body"
                " FROM event WHERE job = :job",
                {"job": job_id, "time": time.time(), "kind": kind, "body": json.dumps(body)},
            )

    def end(
        self,
        job_id: str,
        state: Ending,
        *,
        error: str = "",
        result: Mapping[str, Any] | None = None,
    ) -> bool:
        """Give an active job its final state; return whether it was still active."""
        n_changed = self.database.write(
            "UPDATE job SET state = ?, finished = ?, error = ?, result = ?"
            " WHERE id = ? AND state IN ('queued', 'running', 'cancelling')",
            state,
            time.time(),
            error,
            json.dumps(dict(result or {})),
            job_id,
        )
        return n_changed == 1

    def forget(self, workspace: str, jobs: Sequence[Job]) -> None:
        """Remove jobs of this workspace and their events."""
        ids = "SELECT id FROM job WHERE workspace = ? AND id IN (SELECT value FROM json_each(?))"
        values = (workspace, json.dumps([job.id for job in jobs]))
        with self.database.writing() as connection:
            connection.execute(f"DELETE FROM event WHERE job IN ({ids})", values)
            connection.execute(f"DELETE FROM job WHERE id IN ({ids})", values)

    def end_orphans(self, worker: str) -> int:
        """Set the state of the jobs that a dead worker left running.

        It is cancelled where that was requested, else interrupted. Return the number of jobs.
        """
        return self.database.write(
            "UPDATE job SET finished = ?,"
            " state = CASE state WHEN 'cancelling' THEN 'cancelled' ELSE 'interrupted' END,"
            " error = 'The worker process ended while this job was running.'"
            " WHERE state IN ('running', 'cancelling') AND worker != ?",
            time.time(),
            worker,
        )


def _move_times(connection: sqlite3.Connection, job_id: str, seconds: float) -> None:
    """Move the start of a job and the times of its events."""
    values = {"job": job_id, "seconds": seconds}
    connection.execute("UPDATE job SET started = started + :seconds WHERE id = :job", values)
    connection.execute(
        "UPDATE event SET time = time + :seconds,"
        " body = json_set(body, '$.since', json_extract(body, '$.since') + :seconds)"
        " WHERE job = :job",
        values,
    )


def _job(row: sqlite3.Row) -> Job:
    with row_damage_reported("job"):
        state: State = row["state"]
        if state in ("running", "cancelling") and is_stale(row["heartbeat"]):
            state = "interrupted"
        values = {name: row[name] for name in _COLUMNS}
        values |= {name: dict(parse_json(row[name], what=name)) for name in ("payload", "result")}
        return Job(
            **{**values, "state": state, "cancel_requested": row["cancel_requested"] is not None}
        )


def _event(row: sqlite3.Row) -> Event:
    with row_damage_reported("event"):
        body = parse_json(row["body"], what="body")
        since = body.pop("since")
        since_done = body.pop("since_done")
        return Event(row["time"], row["kind"], Update(**body), since, since_done)

"""Processes of `bandgap app` that tests kill, and a visitor who restarts interrupted jobs."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bandgap.jobs import resuming
from bandgap.jobs.dashboard import healthy
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.resuming import STOPPED
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest

# Text in the command of a process, by its role. A child is a job or the catalogue.
MARKS = {
    "child": b"spawn_main",
    "worker": b"bandgap.jobs.worker",
    "page": b"server.py",
    "supervisor": b"run_dashboard(",
}
SEED = int(os.environ.get("BANDGAP_PROOF_SEED", "18"))
PAUSES_S = (0.1, 0.4)  # before the supervisor restarts a process, instead of 1 s and 30 s
KILLED = "The computing process ended unexpectedly (exit code -9)."
STRUCTURES = 24
PATIENCE_S = 600.0  # a busy machine needs minutes for starts; what is stuck remains stuck
BRIEF = {"sampler": {"chains": 2, "warmup": 60, "draws": 100, "keep": 8, "max_steps": 2}}
_WATER = "3\nProperties=species:S:1:pos:R:3\nO 0 0 0.119\nH 0 {x:.6f} -0.477\nH 0 -{x:.6f} -0.477\n"
_SEEN = """
CREATE TABLE seen (job TEXT, before TEXT, after TEXT);
CREATE TRIGGER note_state AFTER UPDATE OF state ON job BEGIN
  INSERT INTO seen VALUES (old.id, old.state, new.state);
END;
"""


def wait_for(condition: Callable[[], object], *, what: str, within_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        time.sleep(0.2)


class Server:
    """The processes of `bandgap app` on one data directory; `log` has their terminal output."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.log = folder.with_suffix(".log")
        self._supervisor: subprocess.Popen[str] | None = None
        self._address = ""

    def start(self) -> None:
        """Start the supervisor unless it is running."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            return
        self._close()
        code = (
            f"from bandgap.jobs import dashboard; dashboard.RESTART_S = {PAUSES_S}; "
            "dashboard.run_dashboard(port=0, workers=2)"
        )
        environment = {**os.environ, "BANDGAP_HOME": str(self.home.folder)}
        with self.log.open("a") as log:
            self._supervisor = subprocess.Popen(
                [sys.executable, "-c", code],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._address = ""

    def up(self) -> bool:
        """Return whether the supervisor runs and the dashboard answers."""
        if self._supervisor is None or self._supervisor.poll() is not None:
            return False
        if not self._address and self._supervisor.stdout is not None:
            self._address = (
                self._supervisor.stdout.readline().removeprefix("bandgap is at ").split(" ")[0]
            )
        return healthy(self._address)

    def living(self) -> dict[str, list[int]]:
        """Return the running processes of this data directory by their role."""
        processes: dict[str, list[int]] = {role: [] for role in (*MARKS, "other")}
        home = f"BANDGAP_HOME={self.home.folder}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if command and home in (folder / "environ").read_bytes().split(b"\0"):
                    role = next((role for role, mark in MARKS.items() if mark in command), "other")
                    processes[role].append(int(folder.name))
        return processes

    def report(self) -> str:
        """Return running processes, unfinished jobs and the last lines of the terminal."""
        with JobStore(self.home).database.reading() as connection:
            jobs = connection.execute(
                "SELECT * FROM job WHERE state NOT IN ('finished', 'cancelled')"
            ).fetchall()
        unfinished = [
            {name: row[name] for name in ("id", "kind", "state", "error")} for row in jobs
        ]
        return "\n".join(
            [
                str(self.living()),
                *map(str, unfinished),
                *self.log.read_text().splitlines()[-40:],
                "",
            ]
        )

    def cut_power(self) -> None:
        """Kill all processes."""
        while living := [pid for pids in self.living().values() for pid in pids]:
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._close()

    def stop(self) -> None:
        """Stop the supervisor as Ctrl-C does and check that no process remains."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            self._supervisor.send_signal(signal.SIGINT)
        wait_for(
            lambda: not any(self.living().values()), within_s=40, what="the end of all processes"
        )
        self._close()

    def _close(self) -> None:
        if self._supervisor is not None:
            self._supervisor.wait()
            if self._supervisor.stdout is not None:
                self._supervisor.stdout.close()
            self._supervisor = None


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a new data directory; leave no process behind, and print a report on a failure."""
    folder.mkdir()
    server = Server(folder)
    try:
        yield server
        server.stop()
    except AssertionError:
        sys.stdout.write(server.report())
        raise
    finally:
        server.cut_power()


@dataclass
class WorkItem:
    """Work that a visitor requested on a subject, and its jobs in the order of queueing."""

    workspace: str
    kind: str
    subject: str
    jobs: list[str] = field(default_factory=list)


class Visitor:
    """Requests work as the dashboard does, and restarts jobs that were interrupted."""

    def __init__(self, home: Home) -> None:
        self.store, self.library = JobStore(home), Library(home)
        self.work: list[WorkItem] = []
        self.refused: list[tuple[WorkItem, str]] = []  # work that failed by itself, and its error
        self._uploads: list[bytes] = []
        self._random = random.Random(0)

    def note_states(self) -> None:
        """Let the database record every change of the state of a job."""
        with self.store.database.reading() as connection:
            connection.executescript(_SEEN)

    def check(self, workspace: str) -> str:
        """Upload structures of which no other data set has any, to be checked.

        Return the data set's id.
        """
        # The H-H distances of a data set differ by 0.01 A or more, so that none is a near-copy.
        xs = [0.65 + 0.01 * i + self._random.uniform(0.0, 0.005) for i in range(STRUCTURES)]
        text = "".join(_WATER.format(x=x) for x in xs)
        self._uploads.append(text.encode())
        item = WorkItem(workspace, "check", "")

        def ask(dataset: Any) -> None:
            item.subject = dataset.id
            item.jobs.append(
                self._submit(workspace, "check", dataset.id, {"dataset": dataset.id}).id
            )

        self.library.add_dataset(
            workspace, "waters", files=[("waters.extxyz", self._uploads[-1])], then=ask
        )
        self.work.append(item)
        return item.subject

    def transfer(self, workspace: str, dataset: str, method: str, settings: dict[str, Any]) -> str:
        """Start a transfer to a data set that is checked and return the run's id."""
        gaps = np.linspace(5.0, 8.0, STRUCTURES)
        self.library.save_gaps(dataset, gaps, labels={"source": "made"}, level_of_theory="PBE")
        run = str(uuid.uuid4())
        request = TransferRequest(
            method=method, n=16, n_test=4, seed=1, device="cpu", settings=settings
        )
        payload = {"source": "demo", "dataset": dataset, "run": run, "request": request.to_values()}
        with self.store.database.writing():
            job = self._submit(workspace, "transfer", run, payload)
            names = {"dataset": dataset, "source": "demo", "title": method}
            self.library.add_run(workspace, job=job.id, run_id=run, **names, request=request)
        self.work.append(WorkItem(workspace, "transfer", run, [job.id]))
        return run

    def predict(self, workspace: str, run: str, dataset: str) -> None:
        job = self._submit(
            workspace, "predict", dataset, {"run": run, "dataset": dataset, "name": "waters"}
        )
        self.work.append(WorkItem(workspace, "predict", dataset, [job.id]))

    def tend(self) -> list[Job]:
        """Restart interrupted jobs, as the dashboard does on a click.

        Returns the present jobs in the order of the requests. Jobs that failed by themselves move
        to `refused`.
        """
        jobs: dict[str, Job] = {}
        for workspace in {item.workspace for item in self.work}:
            jobs |= {job.id: job for job in self.store.jobs(workspace, limit=100_000)}
        present = []
        for item in list(self.work):
            assert item.jobs[-1] in jobs, f"a {item.kind} is lost"
            job = jobs[item.jobs[-1]]
            if job.state == "failed" and not job.error.startswith(KILLED):
                self.work.remove(item)
                self.refused.append((item, job.error))
                continue
            if job.state in STOPPED:
                job = self._again(item, job)
                item.jobs.append(job.id)
            present.append(job)
        return present

    def all_finished(self) -> bool:
        return all(job.state == "finished" for job in self.tend())

    def upload_again(self) -> None:
        """Upload all files once more, and request again what was refused."""
        for data in self._uploads:
            self.library.home.save_upload(data)
        for item, _ in self.refused:
            job = self.store.job(item.workspace, item.jobs[-1])
            assert job is not None
            item.jobs.append(self._again(item, job).id)
            self.work.append(item)
        self.refused.clear()

    def forget_lost(self) -> None:
        """Drop requests that a store which lost its last entries does not contain."""
        self.work = [a for a in self.work if self.store.job(a.workspace, a.jobs[-1]) is not None]

    def cancel_one(self) -> None:
        """Request the cancellation of a running job."""
        for item in self.work:
            job = self.store.job(item.workspace, item.jobs[-1])
            if job is not None and job.state == "running":
                self.store.request_cancel(item.workspace, job.id)
                return

    def _again(self, item: WorkItem, job: Job) -> Job:
        if item.kind == "transfer":
            run = self.library.run(item.workspace, item.subject)
            assert run is not None, "the run of a transfer is lost"
            return resuming.restart_run(self.store, self.library, run)
        return self._submit(
            item.workspace, job.kind, job.subject, job.payload, submit_key=f"again-{job.id}"
        )

    def _submit(
        self, workspace: str, kind: str, subject: str, payload: Any, *, submit_key: str = ""
    ) -> Job:
        return self.store.submit(
            workspace, kind, title=kind, payload=payload, subject=subject, submit_key=submit_key
        )

"""`bandgap app` in real processes that are killed, and a visitor who starts again what was interrupted."""

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
from bandgap.jobs.lock import worker_status
from bandgap.jobs.resuming import STOPPED
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest

MARKS = {  # of a process of this data directory, in its command; a child is a job or the catalogue
    "child": b"spawn_main",
    "worker": b"bandgap.jobs.worker",
    "page": b"server.py",
    "supervisor": b"run_dashboard(",
}
SEED = int(os.environ.get("BANDGAP_PROOF_SEED", "18"))
PAUSES_S = (0.1, 0.4)  # before the supervisor starts again what ended; its own are 1 s and 30 s
KILLED = "The computing process ended unexpectedly (exit code -9)."
STRUCTURES = 24
BRIEF = {"sampler": {"chains": 2, "warmup": 60, "draws": 100, "keep": 8, "max_steps": 2}}
_WATER = "3\nProperties=species:S:1:pos:R:3\nO 0 0 0.119\nH 0 {x:.4f} -0.477\nH 0 -{x:.4f} -0.477\n"
_SEEN = """
CREATE TABLE seen (job TEXT, before TEXT, after TEXT);
CREATE TRIGGER note_state AFTER UPDATE OF state ON job BEGIN
  INSERT INTO seen VALUES (old.id, old.state, new.state);
END;
"""


def wait_for(condition: Callable[[], object], *, within_s: float, what: str) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"waited {within_s:.0f} s for {what}"
        time.sleep(0.2)


class Server:
    """The processes of `bandgap app` on one data directory; what they write to the terminal is in `log`."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.log = folder.with_suffix(".log")
        self._supervisor: subprocess.Popen[str] | None = None
        self._address = ""

    def start(self) -> None:
        """Start the supervisor where none lives."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            return
        self._close()
        code = (
            f"from bandgap.jobs import dashboard; dashboard.RESTART_S = {PAUSES_S}; "
            "dashboard.run_dashboard(port=0)"
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
        """Return whether the worker lives and the page answers."""
        if self._supervisor is None or self._supervisor.poll() is not None:
            return False
        if not self._address and self._supervisor.stdout is not None:
            self._address = (
                self._supervisor.stdout.readline().removeprefix("bandgap is at ").split(" ")[0]
            )
        return healthy(self._address)

    def living(self) -> dict[str, list[int]]:
        """Return the processes of this data directory by what they are."""
        found: dict[str, list[int]] = {role: [] for role in (*MARKS, "other")}
        home = f"BANDGAP_HOME={self.home.folder}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes()
                if command and home in (folder / "environ").read_bytes().split(b"\0"):
                    role = next((role for role, mark in MARKS.items() if mark in command), "other")
                    found[role].append(int(folder.name))
        return found

    def report(self) -> str:
        """Return the processes that live, the jobs that are not finished, and the last lines of the terminal."""
        with JobStore(self.home).database.reading() as connection:
            jobs = connection.execute(
                "SELECT * FROM job WHERE state NOT IN ('finished', 'cancelled')"
            ).fetchall()
        left = [{name: row[name] for name in ("id", "kind", "state", "error")} for row in jobs]
        return "\n".join(
            [str(self.living()), *map(str, left), *self.log.read_text().splitlines()[-40:], ""]
        )

    def cut_power(self) -> None:
        """End all processes at once."""
        while living := [pid for pids in self.living().values() for pid in pids]:
            for pid in living:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self._close()

    def stop(self) -> None:
        """End the supervisor as Ctrl-C does, and see that nothing outlives it."""
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
    """Serve a new data directory and leave no process behind, whatever happens; what fails tells how things stood."""
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
class Asked:
    """What a visitor wants done: the kind of work on a subject, and the jobs that were queued for it, in turn."""

    workspace: str
    kind: str
    subject: str
    jobs: list[str] = field(default_factory=list)


class Visitor:
    """Asks for work as the pages do, and starts again what ended before its end."""

    def __init__(self, home: Home) -> None:
        self.store, self.library = JobStore(home), Library(home)
        self.asked: list[Asked] = []
        self.refused: list[tuple[Asked, str]] = []  # what failed by an error of its own, with that
        self._uploads: list[bytes] = []
        self._random = random.Random(0)

    def note_states(self) -> None:
        """Let the database itself write down every change of the state of a job."""
        with self.store.database.reading() as connection:
            connection.executescript(_SEEN)

    def check(self, workspace: str) -> str:
        """Upload structures of which no other data set has any, to be checked; return the data set's id."""
        text = "".join(_WATER.format(x=self._random.uniform(0.65, 0.9)) for _ in range(STRUCTURES))
        self._uploads.append(text.encode())
        asked = Asked(workspace, "check", "")

        def ask(dataset: Any) -> None:
            asked.subject = dataset.id
            asked.jobs.append(
                self._submit(workspace, "check", dataset.id, {"dataset": dataset.id}).id
            )

        self.library.add_dataset(
            workspace, "waters", files=[("waters.extxyz", self._uploads[-1])], then=ask
        )
        self.asked.append(asked)
        return asked.subject

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
        self.asked.append(Asked(workspace, "transfer", run, [job.id]))
        return run

    def predict(self, workspace: str, run: str, dataset: str) -> None:
        job = self._submit(
            workspace, "predict", dataset, {"run": run, "dataset": dataset, "name": "waters"}
        )
        self.asked.append(Asked(workspace, "predict", dataset, [job.id]))

    def tend(self) -> list[Job]:
        """Start again what was interrupted, as the page does on a click; return the present jobs, in the order asked.

        What failed by itself is refused from then on.
        """
        known: dict[str, Job] = {}
        for workspace in {asked.workspace for asked in self.asked}:
            known |= {job.id: job for job in self.store.jobs(workspace, limit=100_000)}
        present = []
        for asked in list(self.asked):
            assert asked.jobs[-1] in known, f"a {asked.kind} is lost"
            job = known[asked.jobs[-1]]
            if job.state == "failed" and not job.error.startswith(KILLED):
                self.asked.remove(asked)
                self.refused.append((asked, job.error))
                continue
            if job.state in STOPPED:
                job = self._again(asked, job)
                asked.jobs.append(job.id)
            present.append(job)
        return present

    def all_finished(self) -> bool:
        return all(job.state == "finished" for job in self.tend())

    def upload_again(self) -> None:
        """Upload all files once more, and ask again for what was refused."""
        for data in self._uploads:
            self.library.home.save_upload(data)
        for asked, _ in self.refused:
            job = self.store.job(asked.workspace, asked.jobs[-1])
            assert job is not None
            asked.jobs.append(self._again(asked, job).id)
            self.asked.append(asked)
        self.refused.clear()

    def forget_lost(self) -> None:
        """Ask no longer for what a store does not know that has lost its last entries."""
        self.asked = [a for a in self.asked if self.store.job(a.workspace, a.jobs[-1]) is not None]

    def cancel_one(self) -> None:
        """Ask for the end of a job that runs."""
        for asked in self.asked:
            job = self.store.job(asked.workspace, asked.jobs[-1])
            if job is not None and job.state == "running":
                self.store.request_cancel(asked.workspace, job.id)
                return

    def worker_lives(self) -> bool:
        return worker_status(self.store.database).alive

    def _again(self, asked: Asked, job: Job) -> Job:
        if asked.kind == "transfer":
            run = self.library.run(asked.workspace, asked.subject)
            assert run is not None, "the run of a transfer is lost"
            return resuming.restart_run(self.store, self.library, run)
        return self._submit(
            asked.workspace, job.kind, job.subject, job.payload, submit_key=f"again-{job.id}"
        )

    def _submit(
        self, workspace: str, kind: str, subject: str, payload: Any, *, submit_key: str = ""
    ) -> Job:
        return self.store.submit(
            workspace, kind, title=kind, payload=payload, subject=subject, submit_key=submit_key
        )

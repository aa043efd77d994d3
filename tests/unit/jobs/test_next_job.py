"""The next job of a lane starts within two seconds of the end of any job."""

import contextlib
import functools
import io
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from ase.io import write

from bandgap.foundation.machine import cores
from bandgap.jobs.added_runs import RUNS
from bandgap.jobs.added_sources import add_folder
from bandgap.jobs.home import Home, open_home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset
from bandgap.jobs.server_files import DATA_VARIABLE
from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import Job, JobStore
from bandgap.jobs.tasks import TASKS
from bandgap.jobs.worker import work_all
from bandgap.runs.requests import TransferRequest
from bandgap.storage.run_archives import run_archive
from tests.unit.calculations.vasprun_text import vasprun
from tests.unit.conftest import gaps_of, make_records
from tests.unit.jobs.changed_start import staying_start_up
from tests.unit.jobs.payloads import source_payload

pytestmark = pytest.mark.skipif(os.name != "posix", reason="looks at processes as POSIX has them")

WS = str(uuid.uuid4())
MOST_S = 2.0  # between the end of a job and the start of the next
WATER = b"3\nwater\nO 0 0 0.119\nH 0 0.763 -0.477\nH 0 -0.763 -0.477\n"
REQUEST = TransferRequest(method="btl_pcp_pe", n=16, n_test=4, seed=1, device="cpu")


@contextlib.contextmanager
def serving(home: Home, **environment: str) -> Iterator["subprocess.Popen[bytes]"]:
    """The worker as `bandgap worker` runs it."""
    words = [sys.executable, "-m", "bandgap.jobs.worker"]
    process = subprocess.Popen(
        words, env={**os.environ, "BANDGAP_HOME": str(home.folder), **environment}
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60.0)


class Jobs:
    """Jobs of a workspace: submitted, waited for, and the time between two of them."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.store = JobStore(home)
        self.library = Library(home)
        self.worker: subprocess.Popen[bytes] | None = None  # asked for its stacks after a time-out

    def submit(self, kind: str, **payload: object) -> Job:
        subject = str(payload["source" if kind == "train_source" else "dataset"])
        return self.store.submit(WS, kind, title=kind, payload=payload, subject=subject)

    def now(self, job: Job) -> Job:
        stored_job = self.store.job(WS, job.id)
        assert stored_job is not None
        return stored_job

    def outcomes(self, *jobs: Job) -> list[tuple[str, str]]:
        return [(job.state, job.error) for job in map(self.now, jobs)]

    def wait(self, job: Job, until: Callable[[Job], bool], *, within_s: float = 600.0) -> Job:
        deadline = time.monotonic() + within_s
        while not until(current := self.now(job)):
            if time.monotonic() > deadline:
                self._write_stacks()
                pytest.fail(f"{current.kind} is {current.state}")
            time.sleep(0.05)
        return current

    def _write_stacks(self) -> None:
        """Let the processes of jobs write the stacks of their threads to stderr."""
        if self.worker is None:
            return
        for pid, command in descendants(self.worker.pid):
            if "spawn_main" in command:
                os.kill(pid, signal.SIGUSR1)
        time.sleep(1.0)

    def ended(self, job: Job) -> Job:
        return self.wait(job, lambda current: not current.active)

    def start_after(self, job: Job, following: Job) -> float:
        """Seconds from the end of a job to the start of the next one of its lane."""
        end = self.ended(job).finished
        start = self.wait(following, lambda current: current.started is not None).started
        assert end is not None and start is not None
        return start - end


def descendants(pid: int) -> list[tuple[int, str]]:
    """Ids and command lines of the processes that a process has started, and of their children."""
    processes = []
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            processes.append((process.pid, " ".join(process.cmdline())))
    return processes


def has_pool(worker: "subprocess.Popen[bytes]") -> bool:
    return any("loky" in words for _, words in descendants(worker.pid))


def labelled_set(jobs: Jobs) -> Dataset:
    """54 molecules with gaps, checked: as many as a source model needs."""
    records = make_records(54, seed=3, prefix="m")
    text = io.StringIO()
    write(text, [record.atoms for record in records], format="extxyz")
    dataset = jobs.library.add_dataset(WS, "set", files=[("set.extxyz", text.getvalue().encode())])
    jobs.submit("check", dataset=dataset.id)
    assert work_all(jobs.home) == 1
    jobs.library.save_gaps(dataset.id, gaps_of(records, seed=4), labels={}, level_of_theory="PBE")
    return dataset


@pytest.mark.slow  # 43 s on two cores
def test_next_job_starts_within_two_seconds_of_every_kind_of_job(tmp_path: Path) -> None:
    jobs = Jobs(open_home(tmp_path / "home"))
    dataset = labelled_set(jobs)
    source = str(uuid.uuid4())
    (tmp_path / "offered").mkdir()
    (tmp_path / "offered" / "water.xyz").write_bytes(WATER)
    begin = functools.partial(
        start_transfer, jobs.store, jobs.library, dataset, source=source, title="t"
    )
    waits: dict[str, float] = {}
    with serving(jobs.home, **{DATA_VARIABLE: str(tmp_path / "offered")}) as worker:
        jobs.worker = worker
        network = {"hidden": (6, 4), "max_epochs": 3, "device": "cpu"}
        trained = jobs.submit(
            "train_source", **source_payload(source=source, dataset=dataset.id, **network)
        )
        run = begin(
            request=REQUEST
        )  # the default method with its own settings: its chains run in a pool
        endless = begin(request=REQUEST.changed(settings={"sampler": {"draws": 1_000_000}}))
        failing = jobs.submit("transfer", dataset="gone")
        curve = jobs.submit("learning_curve", dataset="gone", run="gone")
        proposing = jobs.submit("propose", dataset="gone", run="gone")
        last = jobs.submit("transfer", dataset="gone")
        waits["train_source"] = jobs.start_after(trained, run.job)
        jobs.wait(run.job, lambda job: not job.active or has_pool(worker) or cores() == 1)
        waits["transfer"] = jobs.start_after(run.job, endless.job)
        jobs.wait(endless.job, lambda job: not job.active or has_pool(worker) or cores() == 1)
        assert (
            jobs.outcomes(trained, run.job) == [("finished", "")] * 2
            and jobs.now(endless.job).state == "running"
        )
        jobs.store.request_cancel(WS, endless.job.id)
        waits["a cancelled transfer"] = jobs.start_after(endless.job, failing)
        waits["a failed transfer"] = jobs.start_after(failing, curve)
        waits["learning_curve"] = jobs.start_after(curve, proposing)
        waits["propose"] = jobs.start_after(proposing, last)
        assert [state for state, _ in jobs.outcomes(endless.job, failing)] == [
            "cancelled",
            "failed",
        ]

        folder = tmp_path / "elsewhere"
        shutil.copytree(jobs.home.source_folder(source), folder)
        new = jobs.library.add_dataset(WS, "new", purpose="prediction", files=[("w.xyz", WATER)])
        demo = jobs.library.add_dataset(WS, "demo", origin="demo")
        offered = jobs.library.add_dataset(WS, "offered", origin="folder")
        archive = run_archive(jobs.home.run_folder(run.run), name="run")
        outputs = jobs.library.add_dataset(
            WS, "outputs", purpose="calculations", files=[("vasprun.xml", vasprun().encode())]
        )
        text = WATER.replace(b"water", b"Properties=species:S:1:pos:R:3 gap_eV=7.1")
        labelled = jobs.library.add_dataset(WS, "labelled", files=[("l.extxyz", text)])
        short = [
            prediction := jobs.submit("predict", dataset=new.id, run=run.run, name="p"),
            jobs.submit(
                "explain", dataset=new.id, run=run.run, prediction=prediction.id, n=1, row=None
            ),
            jobs.submit("read_calculations", dataset=outputs.id),
            jobs.submit("label_calculations", dataset=labelled.id, level_of_theory="PBE"),
            RUNS.add_archive(jobs.store, jobs.library, WS, archive, name="run"),
            jobs.submit("check", dataset=dataset.id),
            add_folder(jobs.store, jobs.library, WS, folder),
            jobs.submit("import_folder", dataset=offered.id, entry="water.xyz"),
            jobs.submit("import_demo", dataset=demo.id),
            jobs.submit("shapes", dataset=new.id),
            jobs.submit("shapes", dataset=new.id),
        ]
        for job, following in itertools.pairwise(short):
            waits[job.kind] = jobs.start_after(job, following)
            assert (job.kind, jobs.outcomes(job)) == (job.kind, [("finished", "")])
    # shown with `pytest -rP`
    print({name: f"{wait:.2f} s" for name, wait in waits.items()})  # noqa: T201
    assert set(TASKS) <= set(waits)
    assert {name: wait for name, wait in waits.items() if wait > MOST_S} == {}


def test_next_job_starts_while_the_process_of_the_one_before_does_not_exit(tmp_path: Path) -> None:
    jobs = Jobs(open_home(tmp_path / "home"))
    dataset = jobs.library.add_dataset(WS, "set", files=[("w.xyz", WATER)])
    first, second = (jobs.submit("check", dataset=dataset.id) for _ in range(2))
    path = os.pathsep.join([staying_start_up(tmp_path / "start"), os.environ.get("PYTHONPATH", "")])
    with serving(jobs.home, PYTHONPATH=path):
        assert jobs.start_after(first, second) <= MOST_S
        assert jobs.ended(first).state == jobs.ended(second).state == "finished"

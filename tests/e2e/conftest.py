"""Fixtures of the browser tests: a running `bandgap app`, a browser, and filled workspaces."""

import json
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from bandgap.datasets.demo import data_folder
from bandgap.foundation.progress import no_progress
from bandgap.jobs.dashboard import free_port
from bandgap.jobs.home import Home, shapes_path
from bandgap.jobs.housekeeping import set_level_of_theory
from bandgap.jobs.library import Library
from bandgap.jobs.store import JobStore
from bandgap.jobs.worker import work_all
from benchmarks.sample_workspace import (
    CHECKED,
    SHORT_CHAINS,
    SampleWorkspace,
    build_workspace,
)
from tests.e2e.browsing import address_of

PATIENCE_MS = 120_000  # two cores that also train a network
# These settings take minutes.
AGREED = {
    "warmup": 150,
    "draws": 250,
    "keep": 250,
    "chains": 2,
    "coordinates": "partially centred",
}
FLAGS = (
    "--no-sandbox --disable-dev-shm-usage --disable-gpu --disable-quic --no-first-run "
    "--disable-background-networking --disable-component-update --disable-sync"
)


@dataclass(frozen=True)
class Server:
    """Address and data directory of the running application, and a data set of crystals in it."""

    address: str
    folder: Path
    crystals: tuple[str, str]  # workspace and data set

    @property
    def library(self) -> Library:
        return Library(Home(self.folder))

    def at(self, page: str = "", **choices: str) -> str:
        """Return the address of a page with these choices."""
        return address_of(self.address, page, **choices)

    def new_workspace(self, *, name: str) -> tuple[str, str]:
        """Return a new workspace and its data set: the crystals, checked and with their gaps."""
        library = self.library
        workspace = str(uuid.uuid4())
        (owner, original) = self.crystals
        copy = library.add_dataset(workspace, name, stored=library.files(original))
        level = library.dataset(owner, original).level_of_theory
        library.save_verdicts(copy.id, library.verdicts(original))
        set_level_of_theory(library, workspace, copy.id, level)
        target = shapes_path(library.home, copy.id)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(shapes_path(library.home, original), target)
        return workspace, copy.id


@dataclass(frozen=True)
class Dashboard(Server):
    """A server with a finished workspace: data, four runs, and a prediction of new crystals."""

    sample: SampleWorkspace
    prediction: str

    @property
    def choices(self) -> dict[str, str]:
        """What the address of this workspace carries."""
        sample = self.sample
        choices = {"data": self.crystals[1], "run": sample.runs[0], "prediction": self.prediction}
        return {"ws": sample.id, **choices, "runs": sample.runs[0]}


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    """Chromium of the system, quiet on the network."""
    return {"executable_path": shutil.which("chromium"), "args": FLAGS.split()}


@pytest.fixture(autouse=True)
def _patience() -> None:
    expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[BrowserContext]:
    """One browser context per file, so that the scripts of the pages are compiled once."""
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE_MS)
        yield context


@pytest.fixture
def page(visitor: BrowserContext) -> Iterator[Page]:
    """A new tab, closed after the test so that it asks for nothing more."""
    with visitor.new_page() as tab:
        yield tab


@pytest.fixture(scope="session")
def sample_home(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SampleWorkspace, str]:
    """Fill a workspace with the code of the worker, once for all processes of the tests.

    Returns its data directory, which is only copied, the workspace and a prediction of new
    crystals.
    """
    fcntl = pytest.importorskip("fcntl", reason="processes share the workspace by a lock of POSIX")
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "sample"
    ids = shared / "sample.json"
    with (shared / "sample.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not ids.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            folder.mkdir()
            sampler = AGREED if os.environ.get("BANDGAP_TOUR") else SHORT_CHAINS
            sample = build_workspace(
                Home(folder), structures=CHECKED, runs=4, sampler=sampler, progress=no_progress
            )
            prediction = predict_new_crystals(Home(folder), sample)
            forget_speed_of_machine(Home(folder))
            ids.write_text(json.dumps([asdict(sample), prediction]), encoding="utf-8")
    stored, prediction = json.loads(ids.read_text(encoding="utf-8"))
    return folder, SampleWorkspace(**{**stored, "runs": tuple(stored["runs"])}), prediction


@pytest.fixture(scope="session")
def shared_dashboard(
    sample_home: tuple[Path, SampleWorkspace, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Dashboard]:
    """Serve a copy of the filled workspace to all tests of this process."""
    with copied_dashboard(sample_home, tmp_path_factory.mktemp("home")) as dashboard:
        yield dashboard


@pytest.fixture
def dashboard(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Dashboard]:
    """Return the dashboard of all tests, or for a repeated test one of its own.

    A test adds its own workspaces and changes nothing of the filled one that others read. What it
    has changed is in the way of its second try. The jobs that it has left are cancelled, because
    the next test would wait for them.
    """
    with ExitStack() as stack:
        if getattr(request.node, "execution_count", 1) == 1:
            dashboard = request.getfixturevalue("shared_dashboard")
        else:
            sample_home = request.getfixturevalue("sample_home")
            dashboard = stack.enter_context(copied_dashboard(sample_home, tmp_path / "home"))
        yield dashboard
        cancel_jobs(dashboard)


@pytest.fixture
def server(dashboard: Dashboard) -> Server:
    """Return the same server, for tests that use no finished run."""
    return dashboard


def cancel_jobs(server: Server) -> None:
    """Ask all jobs of a server to end."""
    jobs = JobStore(Home(server.folder))
    for job in jobs.active_jobs():
        jobs.request_cancel(job.workspace, job.id)


def predict_new_crystals(home: Home, sample: SampleWorkspace) -> str:
    """Predict the demo's crystals without gaps with the first run and return the job's id."""
    files = [
        (path.name, path.read_bytes())
        for path in sorted((data_folder() / "new_crystals").glob("*.cif"))
    ]
    dataset = Library(home).add_dataset(
        sample.id, "new crystals", purpose="prediction", files=files
    )
    payload = {"run": sample.runs[0], "dataset": dataset.id, "name": dataset.name}
    job = JobStore(home).submit(
        sample.id, "predict", title="Predicting", payload=payload, subject=dataset.id
    )
    work_all(home)
    return job.id


def forget_speed_of_machine(home: Home) -> None:
    """Let every job have taken 5 s, so that pages with estimated times look alike everywhere."""
    with JobStore(home).database.writing() as connection:
        connection.execute("UPDATE job SET finished = started + 5")


@contextmanager
def copied_dashboard(
    sample_home: tuple[Path, SampleWorkspace, str], folder: Path, *, workers: int = 1
) -> Iterator[Dashboard]:
    """Serve a copy of the filled workspace in a new data directory as `bandgap app` does."""
    original, sample, prediction = sample_home
    shutil.copytree(original, folder, dirs_exist_ok=True)
    crystals = Library(Home(folder)).datasets(sample.id)[-1].id
    with serving(folder, workers=workers) as address:
        yield Dashboard(address, folder, (sample.id, crystals), sample, prediction)


@contextmanager
def serving(folder: Path, *, workers: int = 1) -> Iterator[str]:
    """Serve a data directory as `bandgap app` does, and yield the address.

    It has one core, but all with several workers.
    Tests that run at the same time, in workers gw0 and gw1, have their servers on different cores.
    """
    cores = sorted(os.sched_getaffinity(0))
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    core = cores[int(worker.removeprefix("gw")) % len(cores)]
    used = {core} if workers == 1 else set(cores)
    alone = f"import os; os.sched_setaffinity(0, {used})"
    port = free_port("127.0.0.1", 0)
    call = f"run_dashboard(port={port}, workers={workers})"
    start = f"from bandgap.jobs.dashboard import run_dashboard; {call}"
    command = [sys.executable, "-c", f"{alone}; {start}"]
    environment = {**os.environ, "BANDGAP_HOME": str(folder)}
    with printed_address(command, env=environment, cwd=folder) as address:
        yield address


@contextmanager
def printed_address(command: Sequence[str], **options: Any) -> Iterator[str]:
    """Run a server until the end of the context, and yield the address that it prints first."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as process:
        assert process.stdout is not None
        try:
            match = re.search(r"http://[0-9.:]+", line := process.stdout.readline())
            assert match, line
            yield match.group()
        finally:
            process.terminate()  # an interrupt is ignored where the tests run in the background
            process.wait(60)

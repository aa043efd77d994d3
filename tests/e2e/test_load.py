"""Many sessions, alone and beside trainings: no errors, and no growth of the page process.

`pytest -m slow tests/e2e/test_load.py` runs ten sessions for seconds, and thirty for ten minutes
(also marked `soak`). The times are written to load.txt and sessions.txt.
"""

import os
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bandgap.jobs.starting import start_transfer
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from benchmarks.sample_workspace import SampleWorkspace
from tests.e2e.browsing import PAGES, folder
from tests.e2e.conftest import Dashboard, copied_dashboard
from tests.e2e.sessions import Visit, connected

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEED = 20261124
SESSIONS = 10
# A run of hours, which is cancelled at the end.
LONG = {"sampler": {"warmup": 300, "draws": 100_000, "keep": 400, "chains": 2}}
MOST_S = 1.5  # 95th percentile beside two trainings, where BANDGAP_QUIET_CORES is set
READING_S = (5.0, 15.0)  # of a person between two pages, while trainings run
GROWTH_MB = 40.0  # between the halves of a run; caches of figures may still grow


def page_process_mb(address: str) -> Callable[[], float]:
    """Return a function for the resident memory (MB) of the process that serves an address."""
    port = address.rsplit(":", 1)[-1].strip("/")
    pids = [
        process
        for process in Path("/proc").glob("[0-9]*")
        if (command := _command(process)).endswith("}\0")
        and "server.py" in command
        and f'"port": {port},' in command
    ]
    assert len(pids) == 1, pids

    def measure() -> float:
        rows = (pids[0] / "status").read_text(encoding="ascii").splitlines()
        return int(next(row for row in rows if row.startswith("VmRSS:")).split()[1]) / 1000

    return measure


def _command(process: Path) -> str:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace")
    except OSError:  # it has ended
        return ""


def visits_of(
    address: str, choices: dict[str, str], *, number: int, until: float
) -> list[tuple[str, Visit]]:
    """Visit pages in a random order over one connection, and read each for `READING_S`."""
    generator = random.Random(f"{SEED} {number}")
    visits = []
    with connected(address) as session:
        while time.monotonic() < until:
            title = generator.choice(list(PAGES))
            visits.append((title, session.visit(PAGES[title], **choices)))
            time.sleep(generator.uniform(*READING_S))
    return visits


def sessions_beside_trainings(dashboard: Dashboard, *, sessions: int, seconds: float) -> str:
    """Visit pages in so many sessions while two transfers sample; return the measured times."""
    library = dashboard.library
    store = JobStore(dashboard.library.home)
    dataset = library.dataset(dashboard.sample.id, dashboard.crystals[1])
    request = TransferRequest(method="btl_pcp_pe", n=60, n_test=20, settings=LONG)
    jobs = [
        start_transfer(
            store, library, dataset, source="demo", request=request.changed(seed=seed), title="long"
        ).job
        for seed in (1, 2)
    ]
    memory = page_process_mb(dashboard.address)
    until = time.monotonic() + seconds
    sizes = []
    try:
        with ThreadPoolExecutor(sessions) as pool:
            visitors = [
                pool.submit(visits_of, dashboard.address, dashboard.choices, number=k, until=until)
                for k in range(sessions)
            ]
            while time.monotonic() < until:
                sizes.append(memory())
                time.sleep(seconds / 60)
            visits = [visit for visitor in visitors for visit in visitor.result()]
        assert {store.job(dashboard.sample.id, job.id).state for job in jobs} == {"running"}
    finally:
        for job in jobs:
            store.request_cancel(dashboard.sample.id, job.id)
    for title, visit in visits:
        assert (visit.ended, visit.titles, visit.errors) == ("FINISHED_SUCCESSFULLY", [title], [])
    half = len(sizes) // 2
    before = statistics.median(sizes[half // 2 : half])
    after = statistics.median(sizes[half + half // 2 :])
    assert after - before < GROWTH_MB, sizes
    sorted_seconds = sorted(visit.seconds for _, visit in visits)
    p95 = statistics.quantiles(sorted_seconds, n=20)[-1]
    assert p95 < MOST_S or not os.environ.get("BANDGAP_QUIET_CORES")
    return (
        f"{sessions} sessions for {seconds:.0f} s beside two trainings, {len(visits)} pages: "
        f"median {statistics.median(sorted_seconds):.2f} s, p95 {p95:.2f} s; "
        f"page process {before:.0f} MB in the second quarter, {after:.0f} MB in the last"
    )


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="reads /proc of Linux")
@pytest.mark.parametrize(
    ("sessions", "seconds"),
    [(10, 20.0), pytest.param(30, 600.0, marks=pytest.mark.soak)],
    ids=["brief", "whole"],
)
def test_sessions_beside_two_trainings_see_no_error(
    sample_home: tuple[Path, SampleWorkspace, str], tmp_path: Path, sessions: int, seconds: float
) -> None:
    with copied_dashboard(sample_home, tmp_path / "home", workers=2) as dashboard:
        line = sessions_beside_trainings(dashboard, sessions=sessions, seconds=seconds)
    (folder() / "sessions.txt").write_text(f"{line}\n", encoding="utf-8")


def test_ten_sessions_at_once_get_every_page_without_an_error(dashboard: Dashboard) -> None:
    def visitor(number: int) -> list[tuple[str, Visit]]:
        titles = list(PAGES)
        with connected(dashboard.address) as session:
            order = titles[number % len(titles) :] + titles[: number % len(titles)]
            return [(title, session.visit(PAGES[title], **dashboard.choices)) for title in order]

    with ThreadPoolExecutor(SESSIONS) as pool:
        visits = [
            visit
            for session_visits in pool.map(visitor, range(SESSIONS))
            for visit in session_visits
        ]
    assert len(visits) == SESSIONS * len(PAGES)
    for title, visit in visits:
        assert (visit.ended, visit.titles, visit.errors) == ("FINISHED_SUCCESSFULLY", [title], [])
    seconds = sorted(visit.seconds for _, visit in visits)
    p95 = statistics.quantiles(seconds, n=20)[-1]
    line = (
        f"{SESSIONS} sessions at once, {len(visits)} pages: median "
        f"{statistics.median(seconds):.2f} s, p95 {p95:.2f} s"
    )
    (folder() / "load.txt").write_text(f"{line} until all of a page was sent\n", encoding="utf-8")

"""Many sessions, alone and next to a training: no error on any page, and the page process does not grow.

`pytest -m slow tests/e2e/test_load.py` runs ten sessions for seconds and thirty for ten minutes (also marked `soak`).
The times are kept in load.txt and sessions.txt.
"""

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
from tests.e2e.browsing import PAGES, folder
from tests.e2e.conftest import Dashboard
from tests.e2e.sessions import Visit, connected

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SEED = 20261124
SESSIONS = 10
LONG = {
    "sampler": {"warmup": 300, "draws": 100_000, "keep": 400, "chains": 2}
}  # hours: it is cancelled at the end
GROWTH_MB = 40.0  # of the last half over the first: caches of figures of this size may still fill


def page_process_mb(address: str) -> Callable[[], float]:
    """Return what tells the resident memory (MB) of the process that serves the pages of an address."""
    port = address.rsplit(":", 1)[-1].strip("/")
    found = [
        process
        for process in Path("/proc").glob("[0-9]*")
        if (command := _command(process)).endswith("}\0")
        and "server.py" in command
        and f'"port": {port},' in command
    ]
    assert len(found) == 1, found

    def measure() -> float:
        rows = (found[0] / "status").read_text(encoding="ascii").splitlines()
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
    """One visitor: pages in an order of its own, with a pause after each, over one connection."""
    own = random.Random(f"{SEED} {number}")
    found = []
    with connected(address) as session:
        while time.monotonic() < until:
            title = own.choice(list(PAGES))
            found.append((title, session.visit(PAGES[title], **choices)))
            time.sleep(own.uniform(0.5, 3.0))
    return found


def sessions_beside_a_training(dashboard: Dashboard, *, sessions: int, seconds: float) -> str:
    """Visit pages in so many sessions while a transfer samples; return what was measured, as one line."""
    library, store = dashboard.library, JobStore(dashboard.library.home)
    dataset = library.dataset(dashboard.made.id, dashboard.crystals[1])
    request = TransferRequest(method="btl_pcp_pe", n=60, n_test=20, seed=sessions, settings=LONG)
    job = start_transfer(store, library, dataset, source="demo", request=request, title="long").job
    memory = page_process_mb(dashboard.address)
    until, sizes = time.monotonic() + seconds, []
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
        assert store.job(dashboard.made.id, job.id).state == "running"
    finally:
        store.request_cancel(dashboard.made.id, job.id)
    for title, visit in visits:
        assert (visit.ended, visit.titles, visit.errors) == ("FINISHED_SUCCESSFULLY", [title], [])
    half = len(sizes) // 2
    before, after = (
        statistics.median(sizes[half // 2 : half]),
        statistics.median(sizes[half + half // 2 :]),
    )
    assert after - before < GROWTH_MB, sizes
    taken = sorted(visit.seconds for _, visit in visits)
    return (
        f"{sessions} sessions for {seconds:.0f} s beside a training, {len(visits)} pages: median "
        f"{statistics.median(taken):.2f} s, p95 {statistics.quantiles(taken, n=20)[-1]:.2f} s; "
        f"page process {before:.0f} MB in the second quarter, {after:.0f} MB in the last"
    )


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="memory is read where Linux tells it")
@pytest.mark.parametrize(
    ("sessions", "seconds"),
    [(10, 20.0), pytest.param(30, 600.0, marks=pytest.mark.soak)],
    ids=["brief", "whole"],
)
def test_sessions_beside_a_training_see_no_error(
    dashboard: Dashboard, sessions: int, seconds: float
) -> None:
    line = sessions_beside_a_training(dashboard, sessions=sessions, seconds=seconds)
    (folder() / "sessions.txt").write_text(f"{line}\n", encoding="utf-8")


def test_ten_sessions_at_once_get_every_page_without_an_error(dashboard: Dashboard) -> None:
    def visitor(number: int) -> list[tuple[str, Visit]]:
        titles = list(PAGES)
        with connected(dashboard.address) as session:
            order = titles[number % len(titles) :] + titles[: number % len(titles)]
            return [(title, session.visit(PAGES[title], **dashboard.choices)) for title in order]

    with ThreadPoolExecutor(SESSIONS) as pool:
        visits = [visit for found in pool.map(visitor, range(SESSIONS)) for visit in found]
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

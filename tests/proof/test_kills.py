"""Dashboard, worker, its children and the supervisor are killed at random.

No job is lost, run twice or stuck.
"""

import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from bandgap.jobs.catalogue import register_sources
from bandgap.jobs.resuming import STOPPED
from bandgap.jobs.store import Job
from bandgap.runs.stored import load_run
from tests.proof.storm import BRIEF, SEED, STRUCTURES, Server, Visitor, serving, wait_for

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]

UNFINISHED = 3  # least number of unfinished jobs at any time
WORKSPACES = [str(uuid.UUID(int=n, version=4)) for n in (1, 2)]
# Roles that take long to start are rarer.
VICTIMS = ("child",) * 4 + ("worker",) * 3 + ("page",) * 2 + ("supervisor",)
CALM_EVERY = 5  # kills for each job that must have finished
CANCELLED_SHARE = 0.1  # share of the kills after which a running job is cancelled too
METHODS = (("last_layer_ridge", {}), ("bnn", BRIEF))


@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=pytest.mark.soak)])
def test_killed_processes_lose_no_job_run_none_twice_and_leave_none_stuck(
    kills: int, tmp_path: Path
) -> None:
    sys.stdout.write(
        f"seed {SEED}; set BANDGAP_PROOF_SEED for another choice of victims and times\n"
    )
    draw = random.Random(SEED)
    with serving(tmp_path / "home") as server:
        visitor = Visitor(server.home)
        visitor.note_states()
        register_sources(visitor.library)
        started = time.monotonic()
        killed: Counter[str] = Counter()
        while (done := sum(killed.values())) < kills:
            # Without this bound on finished jobs the test would only be a series of starts.
            least_finished = 1 + done // CALM_EVERY
            wait_for(
                partial(at_work, server, visitor, draw, least_finished),
                what="a running job",
            )
            time.sleep(draw.uniform(0.0, 1.0))
            killed.update(killed_one(server, draw))
            if draw.random() < CANCELLED_SHARE:
                visitor.cancel_one()
        wait_for(partial(through, server, visitor), what="the end of all jobs")
        sys.stdout.write(
            f"{dict(killed)} killed, {len(visitor.work)} work items, "
            f"{time.monotonic() - started:.0f} s\n"
        )
    assert not visitor.refused
    nothing_is_lost_or_stuck(visitor)
    nothing_ran_twice(visitor)
    results_are_whole(visitor)


def killed_one(server: Server, draw: random.Random) -> list[str]:
    """Kill a random process of a random role; return the role, or nothing if none runs."""
    role = draw.choice(VICTIMS)
    try:
        os.kill(draw.choice(sorted(server.living()[role])), signal.SIGKILL)
    except (IndexError, ProcessLookupError):
        return []
    return [role]


def at_work(server: Server, visitor: Visitor, draw: random.Random, least_finished: int) -> bool:
    """Let server and visitor continue; return whether some jobs are finished and another runs."""
    server.start()
    present = visitor.tend()
    states = Counter(job.state for job in present)
    for _ in range(UNFINISHED - (len(present) - states["finished"])):
        ask_for_more(visitor, [job for job in present if job.state == "finished"], draw)
    return states["finished"] >= least_finished and bool(
        states["running"] and server.living()["child"]
    )


def through(server: Server, visitor: Visitor) -> bool:
    """Let server and visitor continue; return whether all jobs are finished."""
    server.start()
    return visitor.all_finished()


def ask_for_more(visitor: Visitor, finished: list[Job], draw: random.Random) -> None:
    """Request a transfer to a checked data set, a prediction by a finished run, or a new check."""
    workspace = draw.choice(WORKSPACES)
    choice = draw.random()
    checked, runs = (
        [job.subject for job in finished if (job.workspace, job.kind) == (workspace, kind)]
        for kind in ("check", "transfer")
    )
    if choice < 0.25 and checked:
        visitor.transfer(workspace, draw.choice(checked), *draw.choice(METHODS))
    elif choice < 0.5 and runs:
        visitor.predict(workspace, draw.choice(runs), draw.choice(checked))
    else:
        visitor.check(workspace)


def nothing_is_lost_or_stuck(visitor: Visitor) -> None:
    with visitor.store.database.reading() as connection:
        stored = {
            row["id"]: row["state"] for row in connection.execute("SELECT id, state FROM job")
        }
    assert set(stored) == {job for item in visitor.work for job in item.jobs}
    for item in visitor.work:
        *before, last = [stored[job] for job in item.jobs]
        assert last == "finished" and set(before) <= set(STOPPED)


def nothing_ran_twice(visitor: Visitor) -> None:
    with visitor.store.database.reading() as connection:
        changes = [tuple(row) for row in connection.execute("SELECT job, after FROM seen")]
        texts = [tuple(row) for row in connection.execute("SELECT job, body FROM event")]
    claims = Counter(job for job, state in changes if state == "running")
    ends = Counter(job for job, state in changes if state in (*STOPPED, "finished"))
    assert set(claims.values()) | set(ends.values()) == {1}
    n_starts = Counter(
        job for job, body in texts if '"phase": "reading structures", "done": 0,' in body
    )
    assert set(n_starts.values()) == {1}, "the first report of every job"


def results_are_whole(visitor: Visitor) -> None:
    for item, job in zip(visitor.work, visitor.tend(), strict=True):
        if item.kind == "check":
            assert [v.status for v in visitor.library.verdicts(item.subject)] == [
                "ready"
            ] * STRUCTURES
        elif item.kind == "transfer":
            assert load_run(visitor.library.home.run_folder(item.subject)).manifest["n"] == 16
        else:
            assert (job.result["n"], job.result["refused"]) == (STRUCTURES, 0)

"""Page, worker, its children and the supervisor are killed at random: no job is lost, run twice or stuck."""

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

UNFINISHED = 3  # jobs that there are at any time, at least
WORKSPACES = [str(uuid.UUID(int=n, version=4)) for n in (1, 2)]
VICTIMS = (
    ("child",) * 4 + ("worker",) * 3 + ("page",) * 2 + ("supervisor",)
)  # those that take long to start are rarer
CALM_EVERY = 5  # kills
CANCELLED_SHARE = 0.1  # of the kills, after which a job that runs is cancelled as well
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
            some = (
                1 + done // CALM_EVERY
            )  # jobs that are finished by now, else a storm is only a series of starts
            wait_for(
                partial(at_work, server, visitor, draw, some), within_s=120, what="a job that runs"
            )
            time.sleep(draw.uniform(0.0, 1.0))
            killed.update(killed_one(server, draw))
            if draw.random() < CANCELLED_SHARE:
                visitor.cancel_one()
        wait_for(partial(through, server, visitor), within_s=180, what="the end of all jobs")
        sys.stdout.write(
            f"{dict(killed)} killed, {len(visitor.asked)} asked, {time.monotonic() - started:.0f} s\n"
        )
    assert not visitor.refused
    nothing_is_lost_or_stuck(visitor)
    nothing_ran_twice(visitor)
    results_are_whole(visitor)


def killed_one(server: Server, draw: random.Random) -> list[str]:
    """Kill a process of a kind drawn at random and return what it was; nothing where none of that kind lives."""
    role = draw.choice(VICTIMS)
    try:
        os.kill(draw.choice(sorted(server.living()[role])), signal.SIGKILL)
    except (IndexError, ProcessLookupError):
        return []
    return [role]


def at_work(server: Server, visitor: Visitor, draw: random.Random, some: int) -> bool:
    """Let server and visitor go on; return whether some jobs are finished and another one runs."""
    server.start()
    present = visitor.tend()
    states = Counter(job.state for job in present)
    for _ in range(UNFINISHED - (len(present) - states["finished"])):
        ask_for_more(visitor, [job for job in present if job.state == "finished"], draw)
    return states["finished"] >= some and bool(states["running"] and server.living()["child"])


def through(server: Server, visitor: Visitor) -> bool:
    """Let server and visitor go on, as a supervisor that was killed is not gone at once; return whether all is done."""
    server.start()
    return visitor.all_finished()


def ask_for_more(visitor: Visitor, finished: list[Job], draw: random.Random) -> None:
    """Ask for a transfer to data that are checked, a prediction by a run that is finished, or the check of new data."""
    workspace, wanted = draw.choice(WORKSPACES), draw.random()
    checked, runs = (
        [job.subject for job in finished if (job.workspace, job.kind) == (workspace, kind)]
        for kind in ("check", "transfer")
    )
    if wanted < 0.25 and checked:
        visitor.transfer(workspace, draw.choice(checked), *draw.choice(METHODS))
    elif wanted < 0.5 and runs:
        visitor.predict(workspace, draw.choice(runs), draw.choice(checked))
    else:
        visitor.check(workspace)


def nothing_is_lost_or_stuck(visitor: Visitor) -> None:
    with visitor.store.database.reading() as connection:
        stored = {
            row["id"]: row["state"] for row in connection.execute("SELECT id, state FROM job")
        }
    assert set(stored) == {job for asked in visitor.asked for job in asked.jobs}
    for asked in visitor.asked:
        *before, last = [stored[job] for job in asked.jobs]
        assert last == "finished" and set(before) <= set(STOPPED)


def nothing_ran_twice(visitor: Visitor) -> None:
    with visitor.store.database.reading() as connection:
        seen = [tuple(row) for row in connection.execute("SELECT job, after FROM seen")]
        texts = [tuple(row) for row in connection.execute("SELECT job, body FROM event")]
    claims = Counter(job for job, state in seen if state == "running")
    ends = Counter(job for job, state in seen if state in (*STOPPED, "finished"))
    assert set(claims.values()) | set(ends.values()) == {1}
    begun = Counter(
        job for job, body in texts if '"phase": "reading structures", "done": 0,' in body
    )
    assert set(begun.values()) == {1}, "the first report of every job"


def results_are_whole(visitor: Visitor) -> None:
    for asked, job in zip(visitor.asked, visitor.tend(), strict=True):
        if asked.kind == "check":
            assert [v.status for v in visitor.library.verdicts(asked.subject)] == [
                "ready"
            ] * STRUCTURES
        elif asked.kind == "transfer":
            assert load_run(visitor.library.home.run_folder(asked.subject)).manifest["n"] == 16
        else:
            assert job.result == {"n": STRUCTURES, "refused": 0}

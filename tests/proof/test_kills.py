"""Dashboard, worker, its children and the supervisor are killed at random.

No job is lost, run twice or stuck.
"""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from bandgap.jobs.catalogue import register_sources
from bandgap.jobs.people import claim
from bandgap.jobs.resuming import STOPPED
from bandgap.jobs.store import Job
from bandgap.runs.stored import load_run
from tests.proof.storm import BRIEF, SEED, STRUCTURES, Server, Visitor, serving, wait_for

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]

UNFINISHED = 6  # least number of unfinished jobs at any time
PEOPLE = [f"person-{n}@x.org" for n in range(5)]
WORKSPACES = [str(uuid.UUID(int=n, version=4)) for n in range(10)]
DISK = "300m"  # where a file system can be mounted; it is full once
FULL_S = 5.0
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
    with small_disk(tmp_path) as disk:
        with serving(disk / "home") as server:
            visitor = Visitor(server.home)
            visitor.note_states()
            for workspace, person in zip(WORKSPACES, PEOPLE * 2, strict=True):
                claim(visitor.store.database, workspace, person)
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
                if done == kills // 2 and disk != tmp_path:
                    fill_for_a_while(disk)
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


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, or `folder` itself where none can be mounted."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "none", str(disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        yield folder
        return
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def fill_for_a_while(disk: Path) -> None:
    """Let the disk be full for `FULL_S` seconds."""
    filling = disk / "filling"
    with contextlib.suppress(OSError), filling.open("wb") as file:
        while True:
            file.write(bytes(1_000_000))
    time.sleep(FULL_S)
    filling.unlink()


def through(server: Server, visitor: Visitor) -> bool:
    """Let server and visitor continue; return whether all jobs are finished.

    What failed on the full disk is requested again.
    """
    server.start()
    is_over = visitor.all_finished() and not visitor.refused
    if visitor.refused:
        visitor.upload_again()
    return is_over


def ask_for_more(visitor: Visitor, finished: list[Job], draw: random.Random) -> None:
    """Request a transfer to a checked data set, a prediction by a finished run, or a new check."""
    choice = draw.random()
    checked, runs = (
        [(job.workspace, job.subject) for job in finished if job.kind == kind]
        for kind in ("check", "transfer")
    )
    if choice < 0.25 and checked:
        visitor.transfer(*draw.choice(checked), *draw.choice(METHODS))
    elif choice < 0.5 and runs:
        workspace, run = draw.choice(runs)
        datasets = [dataset for owner, dataset in checked if owner == workspace]
        visitor.predict(workspace, run, draw.choice(datasets))
    else:
        visitor.check(draw.choice(WORKSPACES))


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

"""The power is cut while jobs run, and the last written file of a kind is truncated."""

import random
import re
import sys
import time
import uuid
from functools import partial
from pathlib import Path

import pytest

from bandgap.foundation.errors import ArtifactError
from bandgap.jobs.catalogue import register_sources
from bandgap.jobs.database import StoreError
from bandgap.jobs.home import Home
from bandgap.runs.stored import load_run
from tests.proof.storm import BRIEF, SEED, Server, Visitor, serving, wait_for

pytestmark = [
    pytest.mark.proof,
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes in /proc"),
]

WORKSPACE, OTHER = (str(uuid.UUID(int=n, version=4)) for n in (3, 4))
# What a cut may damage: files in the data directory, and the work by which they are written.
KINDS = {
    "upload": ("uploads/*", "check"),
    "shapes": ("datasets/*/*", "check"),
    "cache": ("cache/*", "transfer"),
    "checkpoint": ("checkpoints/*/*.safetensors", "transfer"),
    "run": ("runs/*/*.*", "transfer"),
    "store": ("bandgap.sqlite3*", "check"),
}
NAMED = re.compile(r"damaged|cannot be read|not readable|has no manifest\.json|no such folder")


@pytest.mark.parametrize(
    "kinds",
    [["upload", "checkpoint", "store"], pytest.param(5 * list(KINDS), marks=pytest.mark.soak)],
    ids=["3 cuts", "30 cuts"],
)
def test_power_cut_damages_one_named_file_and_other_work_continues(
    kinds: list[str], tmp_path: Path
) -> None:
    sys.stdout.write(f"seed {SEED}; set BANDGAP_PROOF_SEED for other times and lengths\n")
    draw = random.Random(SEED)
    with serving(tmp_path / "home") as server:
        visitor = first_visit(server.home)
        for kind in kinds:
            while not (files := files_at_a_cut(server, visitor, kind, draw)):
                pass  # the job finished before the cut and deleted its checkpoint: try again
            cut(draw.choice(files[-3:]), draw)
            server.start()
            wait_for(server.up, what="the page")
            if kind == "store" and is_damaged(server, visitor):
                for part in server.home.folder.glob("bandgap.sqlite3*"):
                    part.rename(part.with_name(f"old-{part.name}"))
                visitor = first_visit(server.home)
            goes_on(visitor)


def files_at_a_cut(server: Server, visitor: Visitor, kind: str, draw: random.Random) -> list[Path]:
    """Have a file of a kind written, cut the power soon after; return the files of the kind."""
    pattern, work = KINDS[kind]
    server.start()
    dataset = visitor.check(WORKSPACE)
    if work == "transfer":
        wait_for(visitor.all_finished, what="a data set that is checked")
        visitor.transfer(WORKSPACE, dataset, "bnn", BRIEF)
    wait_for(partial(written, server.home, pattern), what=f"a file of the kind {kind}")
    time.sleep(draw.uniform(0.0, 1.0))
    server.cut_power()
    return written(server.home, pattern)


def first_visit(home: Home) -> Visitor:
    visitor = Visitor(home)
    register_sources(visitor.library)
    return visitor


def written(home: Home, pattern: str) -> list[Path]:
    """Return the files of a kind, the newest one last."""
    return sorted(
        (p for p in home.folder.glob(pattern) if p.suffix != ".part"),
        key=lambda p: p.stat().st_mtime_ns,
    )


def cut(path: Path, draw: random.Random) -> None:
    size = path.stat().st_size
    new_size = draw.randrange(size + 1)
    with path.open("r+b") as file:
        file.truncate(new_size)
    sys.stdout.write(f"{path.parent.name}/{path.name} keeps {new_size:,} of {size:,} bytes\n")


def is_damaged(server: Server, visitor: Visitor) -> bool:
    """Return whether the store reports damage, to visitors or in the worker's log."""
    old_size = server.log.stat().st_size

    def is_reported() -> bool:
        text = server.log.read_text()[old_size:]
        return (
            re.search(r"The store .* is damaged: .* Move this file away and start again", text)
            is not None
        )

    try:
        visitor.forget_lost()
        visitor.check(OTHER)
        wait_for(
            lambda: is_reported() or visitor.all_finished(),
            what="a store that works, or says why not",
        )
    except StoreError as error:
        assert "is damaged" in str(error)
        return True
    return is_reported() or any("The store" in error for _, error in visitor.refused)


def goes_on(visitor: Visitor) -> None:
    """Check that all jobs finish, or name their damage and finish after a new upload."""
    visitor.check(OTHER)
    wait_for(visitor.all_finished, what="the end of all jobs")
    for _, error in visitor.refused:
        assert NAMED.search(error), error
    visitor.upload_again()
    wait_for(visitor.all_finished, what="the end of what was uploaded again")
    assert not visitor.refused
    for item in visitor.work:
        if item.kind == "transfer":
            try:
                load_run(visitor.library.home.run_folder(item.subject))
            except ArtifactError as error:
                assert NAMED.search(str(error)), error
    visitor.work.clear()

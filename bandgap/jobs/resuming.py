"""Going on with a run that was interrupted: what its checkpoints hold, and the job that starts from them.

Read without torch: the metadata of a checkpoint say how many iterations are done (`bandgap.inference.checkpoints`).
"""

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job, JobStore

STOPPED = ("interrupted", "failed", "cancelled")


@dataclass(frozen=True)
class Kept:
    """What an unfinished run left: the iterations that every chain has done at least, and those that were asked for."""

    iterations: int
    wanted: int | None


def work_of(payload: Mapping[str, Any]) -> str:
    """Return the name of the work that a transfer's job does, the same for every job that does it."""
    return fingerprint({key: value for key, value in payload.items() if key != "run"})


def checkpoints_of(home: Home, payload: Mapping[str, Any]) -> Path:
    """Return the folder of the checkpoints of a transfer; it need not exist."""
    return home.checkpoint_folder(work_of(payload))


def kept(home: Home, payload: Mapping[str, Any]) -> Kept | None:
    """Return what a job that has ended too early left to go on from; None where there is nothing that can be read."""
    done = [_iteration(path) for path in checkpoints_of(home, payload).glob("*.safetensors")]
    known = [iteration for iteration in done if iteration]
    if not known:
        return None
    sampler = payload.get("settings", {}).get("sampler", {})
    wanted = sampler["warmup"] + sampler["draws"] if {"warmup", "draws"} <= set(sampler) else None
    return Kept(min(known), wanted)


def start_again(jobs: JobStore, library: Library, run: RunRow) -> Job:
    """Queue the work of a run that did not finish once more, under the same run; it goes on from its checkpoints.

    Raised twice, it makes one job. Raises InputError when the run is at work or finished, or its job is gone.
    """
    last = jobs.job(run.workspace, run.job)
    if last is None:
        raise InputError(f"{run.title}: the job of this run is no longer known. Start a new run with its settings.")
    if last.state not in STOPPED:
        raise InputError(f"{run.title} is {last.state}. Only a run that was interrupted, cancelled or failed goes on.")
    key = f"again-{last.id}"
    with jobs.database.writing():
        job = jobs.submit(
            run.workspace, "transfer", title=last.title, payload=last.payload, subject=run.id, submit_key=key
        )
        library.set_job(run.workspace, run.id, job=job.id)
    return job


def drop(home: Home, payload: Mapping[str, Any]) -> None:
    """Remove the checkpoints of a transfer."""
    shutil.rmtree(checkpoints_of(home, payload), ignore_errors=True)


def _iteration(path: Path) -> int | None:
    """Return the iteration that a checkpoint was written after, None where the file is damaged."""
    try:
        with safe_open(str(path), framework="numpy") as stored:
            return int(json.loads(stored.metadata()["facts"])["iteration"])
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None

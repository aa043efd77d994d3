"""Going on with a run or a prediction that was interrupted: what is kept of it, and the job that starts from there.

Read without torch: the metadata of a checkpoint say how many iterations are done (`bandgap.inference.checkpoints`).
"""

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import safe_open

from bandgap.foundation.config import fingerprint
from bandgap.foundation.damage import DAMAGE, parse_json
from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job, JobStore
from bandgap.predictions.growing import rows_in
from bandgap.predictions.store import PREDICTIONS_CSV

STOPPED = ("interrupted", "failed", "cancelled")
CONTINUES = "continues"  # in the payload of a prediction: the id of that which it goes on with


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
    sampler = payload["request"]["settings"].get("sampler", {})
    wanted = sampler["warmup"] + sampler["draws"] if {"warmup", "draws"} <= set(sampler) else None
    return Kept(min(known), wanted)


def start_again(jobs: JobStore, library: Library, run: RunRow) -> Job:
    """Queue the work of a run that did not finish once more, under the same run; it goes on from its checkpoints.

    Raised twice, it makes one job. Raises InputError when the run is at work or finished, or its job is gone.
    """
    last = jobs.job(run.workspace, run.job)
    if last is None:
        raise InputError(
            f"{run.title}: the job of this run is no longer known. Start a new run with its settings."
        )
    if last.state not in STOPPED:
        raise InputError(
            f"{run.title} is {last.state}. Only a run that was interrupted, cancelled or failed goes on."
        )
    key = f"again-{last.id}"
    with jobs.database.writing():
        job = jobs.submit(
            run.workspace,
            "transfer",
            title=last.title,
            payload=last.payload,
            subject=run.id,
            submit_key=key,
        )
        library.set_job(run.workspace, run.id, job=job.id)
    return job


def drop(home: Home, payload: Mapping[str, Any]) -> None:
    """Remove the checkpoints of a transfer."""
    shutil.rmtree(checkpoints_of(home, payload), ignore_errors=True)


def parts_of(home: Home, payload: Mapping[str, Any]) -> Path:
    """Return the folder of what an unfinished prediction has written, the same for every job that does the same."""
    work = {key: value for key, value in payload.items() if key != CONTINUES}
    return home.checkpoint_folder(fingerprint({"prediction": work}))


def kept_rows(home: Home, payload: Mapping[str, Any]) -> int:
    """Return how many structures are predicted already of a prediction that did not finish."""
    return rows_in(parts_of(home, payload) / PREDICTIONS_CSV)


def go_on(jobs: JobStore, prediction: Job) -> Job:
    """Queue the work of a prediction that did not finish once more; it goes on after its last finished chunk.

    Raised twice, it makes one job. Raises InputError where the prediction is at work or finished.
    """
    if prediction.state not in STOPPED:
        raise InputError(
            f"{prediction.title} is {prediction.state}. Only a prediction that was stopped goes on."
        )
    return jobs.submit(
        prediction.workspace,
        "predict",
        title=prediction.title,
        payload={**prediction.payload, CONTINUES: prediction.id},
        subject=prediction.subject,
        submit_key=f"again-{prediction.id}",
    )


def without_continued(predictions: Iterable[Job]) -> list[Job]:
    """Return the jobs without those that another one went on with."""
    found = list(predictions)
    continued = {job.payload.get(CONTINUES) for job in found}
    return [job for job in found if job.id not in continued]


def _iteration(path: Path) -> int | None:
    """Return the iteration that a checkpoint was written after, None where the file is damaged."""
    try:
        with safe_open(str(path), framework="numpy") as stored:
            return int(parse_json(stored.metadata()["facts"], what=str(path))["iteration"])
    except DAMAGE:
        return None

"""Resume a run or a prediction that was interrupted, from its checkpoints or its finished chunks.

Needs no torch: the metadata of a checkpoint contain the number of its iterations
(`bandgap.inference.checkpoints`).
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
PARENT = "parent"  # in the payload of a refit: the id of the run that it repeats with all labels
CONTINUES = "continues"  # in the payload of a prediction: the id of the job that it resumes


@dataclass(frozen=True)
class CheckpointProgress:
    """The iterations that every chain of an unfinished run has finished, and their total number."""

    iterations: int
    total: int | None


def work_of(payload: Mapping[str, Any]) -> str:
    """Return the fingerprint of what a transfer's job computes, the same for all such jobs."""
    return fingerprint({key: value for key, value in payload.items() if key != "run"})


def checkpoint_folder(home: Home, payload: Mapping[str, Any]) -> Path:
    """Return the folder of the checkpoints of a transfer; it need not exist."""
    return home.checkpoint_folder(work_of(payload))


def checkpoint_progress(home: Home, payload: Mapping[str, Any]) -> CheckpointProgress | None:
    """Return how far the checkpoints of an unfinished transfer are; None where none can be read."""
    paths = checkpoint_folder(home, payload).glob("*.safetensors")
    iterations = [iteration for iteration in map(_iteration, paths) if iteration]
    if not iterations:
        return None
    return CheckpointProgress(min(iterations), chain_iterations(payload["request"]["settings"]))


def chain_iterations(settings: Mapping[str, Any]) -> int | None:
    """Return the iterations of each chain by the settings of a request, None where they are usual.

    >>> chain_iterations({"sampler": {"warmup": 100, "draws": 400}})
    500
    """
    sampler = settings.get("sampler", {})
    return sampler["warmup"] + sampler["draws"] if {"warmup", "draws"} <= set(sampler) else None


def restart_run(jobs: JobStore, library: Library, run: RunRow) -> Job:
    """Queue the work of an unfinished run once more; it resumes from its checkpoints, if any.

    Two calls make one job. Raises InputError when the run is queued, running or finished, or when
    its job is not in the store.
    """
    last = jobs.job(run.workspace, run.job)
    if last is None:
        raise InputError(
            f"{run.title}: the job of this run is no longer in the store. "
            "Start a new run with its settings."
        )
    if last.state not in STOPPED:
        raise InputError(
            f"{run.title} is {last.state}. "
            "Only a run that was interrupted, cancelled or failed can be resumed."
        )
    with jobs.database.writing():
        job = jobs.submit(
            run.workspace,
            "transfer",
            title=last.title,
            payload=last.payload,
            subject=run.id,
            submit_key=f"again-{last.id}",
        )
        library.set_job(run.workspace, run.id, job=job.id)
    return job


def drop_checkpoints(home: Home, payload: Mapping[str, Any]) -> None:
    """Remove the checkpoints of a transfer."""
    shutil.rmtree(checkpoint_folder(home, payload), ignore_errors=True)


def unfinished_prediction_folder(home: Home, payload: Mapping[str, Any]) -> Path:
    """Return the folder of an unfinished prediction, the same for all jobs that do the same."""
    work = {key: value for key, value in payload.items() if key != CONTINUES}
    return home.checkpoint_folder(fingerprint({"prediction": work}))


def n_predicted_rows(home: Home, payload: Mapping[str, Any]) -> int:
    """Return how many structures of an unfinished prediction are predicted."""
    return rows_in(unfinished_prediction_folder(home, payload) / PREDICTIONS_CSV)


def resume_prediction(jobs: JobStore, prediction: Job) -> Job:
    """Queue the work of an unfinished prediction once more; it resumes after its finished chunks.

    Two calls make one job. Raises InputError when the prediction is queued, running or finished.
    """
    if prediction.state not in STOPPED:
        raise InputError(
            f"{prediction.title} is {prediction.state}. "
            "Only a prediction that was stopped can be resumed."
        )
    return jobs.submit(
        prediction.workspace,
        "predict",
        title=prediction.title,
        payload={**prediction.payload, CONTINUES: prediction.id},
        subject=prediction.subject,
        submit_key=f"again-{prediction.id}",
    )


def without_resumed(predictions: Iterable[Job]) -> list[Job]:
    """Return the jobs without those that another one resumed."""
    jobs = list(predictions)
    resumed = {job.payload.get(CONTINUES) for job in jobs}
    return [job for job in jobs if job.id not in resumed]


def _iteration(path: Path) -> int | None:
    """Return the iteration after which a checkpoint was written, None where it is damaged."""
    try:
        with safe_open(str(path), framework="numpy") as stored:
            return int(parse_json(stored.metadata()["facts"], what=str(path))["iteration"])
    except DAMAGE:
        return None

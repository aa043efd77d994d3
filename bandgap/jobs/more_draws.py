"""Add draws to a finished run of the network sampler: a new run that continues from its end.

The worker keeps the last checkpoint of a finished run for three days (`home.FINISHED_KEPT_S`).
Without it the same draws are sampled again from the start.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bandgap.foundation.config import from_dict, to_dict
from bandgap.inference.network.sampler_config import SamplerConfig
from bandgap.jobs import resuming
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.starting import EXTENDS
from bandgap.jobs.store import Job
from bandgap.runs.requests import TransferRequest


def extended_request(
    request: TransferRequest, sampler: Mapping[str, Any], *, coordinates: str, more: int
) -> TransferRequest:
    """Return the request of a run with more draws of each chain.

    Parameters
    ----------
    request
        Request of the finished run.
    sampler
        Settings of its sampler, from its manifest.
    coordinates
        The coordinates that its sampler used, which decide its usual lengths.
    more
        Number of draws of each chain to add.
    """
    config = from_dict(SamplerConfig, {**sampler, "coordinates": coordinates})
    longer = config.extended(more)
    changed = {
        name: value
        for name, value in to_dict(longer).items()
        if name in ("warmup", "draws", "keep", "extended_from")
    }
    settings = {**request.settings.get("sampler", {}), **changed}
    return request.changed(settings={**request.settings, "sampler": settings})


def can_continue(home: Home, run: RunRow) -> bool:
    """Return whether the last checkpoint of a finished run is still stored."""
    return any(home.last_checkpoint(run.id).glob("*.safetensors"))


def keep_last_checkpoint(home: Home, job: Job, checkpoints: Path) -> None:
    """Move the checkpoints of a job that has finished to the folder of its run."""
    target = home.last_checkpoint(job.payload["run"])
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(checkpoints, target)


def copy_checkpoints(library: Library, job: Job) -> None:
    """Copy the last checkpoint of the run that a job extends to the job's folder.

    Nothing happens where the job has checkpoints already, or that run or its checkpoint is gone.
    """
    target = resuming.checkpoint_folder(library.home, job.payload)
    run = library.run(job.workspace, str(job.payload[EXTENDS]))
    if target.exists() or run is None or not can_continue(library.home, run):
        return
    shutil.copytree(library.home.last_checkpoint(run.id), target)

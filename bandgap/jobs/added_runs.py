"""Add a run that was made elsewhere to a workspace: from a zip archive of its folder.

The archive is stored in the data directory. A job unpacks it, loads the run, recomputes the
predictions of its reference structures and writes its report; then the run is in the list. Where
one of these fails, the folder is removed. Nothing is unpickled (`bandgap.storage.run_archives`).
"""

import hashlib
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.deletions import make_room
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import owner_only
from bandgap.jobs.housekeeping import checked_name
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.storage.manifests import read_manifest
from bandgap.storage.run_archives import RUN_ARCHIVES

ADD_RUN: Final = "add_run"  # the kind of the job
ARCHIVE: Final = "upload.zip"  # in the folder of the run until the worker unpacks it
UNNAMED_DATA: Final = "the data of an added run"


def add_run_archive(
    jobs: JobStore, library: Library, workspace: str, data: bytes, *, name: str
) -> Job:
    """Store the zip archive of a run and queue its check; the same archive gives the same job.

    Parameters
    ----------
    jobs, library
        The store.
    workspace
        Id of the workspace that gets the run.
    data
        The archive.
    name
        Name of the run in the workspace.

    Raises
    ------
    InputError
        For an archive without a run, over the limits or over the quota of the workspace, and for a
        name that is empty or too long.
    """
    title = checked_name(name)
    n_bytes = RUN_ARCHIVES.unpacked_bytes(data, name=name)
    run_id = str(uuid.uuid5(uuid.UUID(workspace), hashlib.sha256(data).hexdigest()))
    # of this kind alone, as proposals are about the run too
    checks = jobs.jobs(workspace, kinds=[ADD_RUN], subject=run_id, limit=1)
    earlier = checks[0] if checks else None
    if earlier is not None and (earlier.active or earlier.state == "finished"):
        return earlier
    check_quota(library, workspace, adding=n_bytes)
    make_room(jobs, library, "run", run_id)
    folder = library.home.run_folder(run_id)
    shutil.rmtree(folder, ignore_errors=True)  # of a check that was cancelled while it waited
    with owner_only():
        folder.mkdir(parents=True)
        (folder / ARCHIVE).write_bytes(data)
    return jobs.submit(
        workspace,
        ADD_RUN,
        title=f"Checking the run {title}",
        payload={"run": run_id, "name": title},
        subject=run_id,
        submit_key=f"{ADD_RUN}-{run_id}-{earlier.id if earlier else 'first'}",
    )


def unpack(folder: Path) -> None:
    """Unpack the archive in the folder of an added run, and remove the archive."""
    archive = folder / ARCHIVE
    RUN_ARCHIVES.unpack(archive, folder, name="The upload")
    archive.unlink()


def check_run(folder: Path) -> dict[str, Any]:
    """Load a run, recompute its reference predictions, and write its report; return its manifest.

    Raises ArtifactError where it is damaged or predicts something else than when it was stored,
    ConfigError where an extra that it needs is not installed, and InputError where its manifest
    lacks what the pages show.
    """
    from bandgap.runs.html_report import ReportText, report_html
    from bandgap.runs.stored import load_run

    load_run(folder)
    manifest = read_manifest(folder, kind="run")
    try:
        TransferRequest.of(manifest["request"])
        fingerprint_of_data(manifest)
        report_html(folder, text=ReportText(title=folder.name))
    except BandgapError:
        raise
    except DAMAGE as error:
        raise InputError(
            f"The manifest.json of the run lacks what the pages show ({type(error).__name__}: "
            f"{error}). Download the run again, or train it again."
        ) from error
    return manifest


def list_run(library: Library, job: Job, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Add a checked run to its workspace; return the id and the name of its data set.

    The data set is not in the workspace. Runs from the same data get the same id of it.
    """
    namespace = uuid.UUID(job.workspace)
    dataset = str(uuid.uuid5(namespace, f"data {fingerprint_of_data(manifest)}"))
    library.add_run(
        job.workspace,
        job=job.id,
        run_id=str(job.payload["run"]),
        dataset=dataset,
        source="",
        request=TransferRequest.of(manifest["request"]),
        title=str(job.payload["name"]),
    )
    name = (manifest.get("inputs") or {}).get("data_set")
    return {"dataset": dataset, "data_set": name if isinstance(name, str) else UNNAMED_DATA}


def fingerprint_of_data(manifest: Mapping[str, Any]) -> str:
    """Return the fingerprint of the labelled structures that a run was made from."""
    return str(manifest["data"]["fingerprint"])


def data_names(jobs: list[Job]) -> dict[str, str]:
    """Return the names of the data sets of added runs by id, from the jobs that added them."""
    return {
        str(job.result["dataset"]): f"{job.result['data_set']} (elsewhere)"
        for job in jobs
        if job.kind == ADD_RUN and "dataset" in job.result
    }

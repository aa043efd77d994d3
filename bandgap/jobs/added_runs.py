"""Runs that were made elsewhere: their check, and their rows in the list of runs."""

import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.jobs.additions import Additions
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job
from bandgap.runs.requests import TransferRequest
from bandgap.storage.manifests import read_manifest
from bandgap.storage.run_archives import RUN_ARCHIVES

UNNAMED_DATA: Final = "the data of an added run"
RUNS: Final = Additions("run", "run", RUN_ARCHIVES, Home.run_folder)


def check_run(folder: Path) -> dict[str, Any]:
    """Load a run, recompute its reference predictions, and write its report; return its manifest.

    Raises ArtifactError where it is damaged or predicts something else than when it was stored,
    ConfigError where an extra that it needs is not installed, and InputError where its manifest
    lacks what the pages show.
    """
    from bandgap.runs.html_report import ReportContext, report_html
    from bandgap.runs.stored import load_run

    load_run(folder)
    manifest = read_manifest(folder, kind="run")
    try:
        TransferRequest(**manifest["request"])
        fingerprint_of_data(manifest)
        report_html(folder, ReportContext(title=folder.name))
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
        request=TransferRequest(**manifest["request"]),
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
        if job.kind == RUNS.kind and "dataset" in job.result
    }

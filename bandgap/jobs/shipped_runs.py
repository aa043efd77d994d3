"""The shipped model as a run of every workspace, which is stored there with its first prediction.

The folder of such a run has links to the files of the model.
"""

import shutil
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from bandgap.datasets.shipped_models import MODEL, ModelFolder, about_model, shipped_folder
from bandgap.jobs.added_runs import RUNS, fingerprint_of_data, list_run
from bandgap.jobs.deletions import make_room
from bandgap.jobs.home import owner_only
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import JobStore
from bandgap.runs.requests import TransferRequest
from bandgap.storage.manifests import read_manifest


def shipped_run(library: Library, workspace: str) -> RunRow:
    """Return the run of the shipped model in a workspace, which may not be stored yet."""
    model, manifest = _model()
    namespace = uuid.UUID(workspace)
    run_id = str(uuid.uuid5(namespace, f"model {model.path.name}"))
    return library.run(workspace, run_id) or RunRow(
        id=run_id,
        workspace=workspace,
        job="",
        dataset=str(uuid.uuid5(namespace, f"data {fingerprint_of_data(manifest)}")),
        source="",
        method=str(manifest["method"]),
        title=str(about_model(manifest)["title"]),
        fingerprint="",
        request=TransferRequest(**manifest["request"]),
        created=0.0,
    )


def missing_potential_note() -> str:
    """Return why the shipped model is not the most accurate one, "" if it is."""
    return _model()[0].note


def store_shipped_run(jobs: JobStore, library: Library, run: RunRow) -> None:
    """Store the run of the shipped model in its workspace; nothing happens for another run."""
    if run.id != shipped_run(library, run.workspace).id:
        return
    model, manifest = _model()
    make_room(jobs, library, "run", run.id)
    _link_files(model.path, library.home.run_folder(run.id))
    with jobs.database.writing():
        job = jobs.submit(
            run.workspace,
            RUNS.kind,
            title=f"Adding {run.title}",
            payload={"run": run.id, "name": run.title},
            subject=run.id,
            submit_key=f"model-{run.id}",
        )
        jobs.end(job.id, "finished", result=list_run(library, job, manifest))


@cache
def _model() -> tuple[ModelFolder, dict[str, Any]]:
    model = shipped_folder(MODEL)
    return model, read_manifest(model.path, kind="run")


def _link_files(model: Path, folder: Path) -> None:
    """Link the files of a model into the folder of a run, or copy them where links fail."""
    with owner_only():
        folder.mkdir(parents=True, exist_ok=True)
        for path in model.iterdir():
            link = folder / path.name
            link.unlink(missing_ok=True)  # of an installation that was moved
            try:
                link.symlink_to(path)
            except OSError:
                shutil.copyfile(path, link)

"""Rename and delete runs: what a deletion takes away is known before, and nothing that is at work is deleted."""

import json
import shutil
from dataclasses import dataclass

from bandgap.foundation.errors import InputError
from bandgap.jobs import resuming
from bandgap.jobs.disk import folder_bytes
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.store import Job, JobStore

TITLE_LENGTH = 120


@dataclass(frozen=True)
class Losses:
    """What goes with a run: its predictions by name, and bytes of its folder and its checkpoints."""

    predictions: tuple[str, ...]
    n_bytes: int


def rename_run(library: Library, run: RunRow, title: str) -> None:
    """Give a run another name; raises InputError for one that is empty or too long."""
    text = " ".join(title.split())
    if not 0 < len(text) <= TITLE_LENGTH:
        raise InputError(f"The name has {len(text)} characters. Accepted: 1 to {TITLE_LENGTH}.")
    with library.database.writing() as connection:
        connection.execute("UPDATE run SET title = ? WHERE id = ? AND workspace = ?", (text, run.id, run.workspace))


def losses(jobs: JobStore, library: Library, run: RunRow) -> Losses:
    """Return what a deletion of the run would take away."""
    named = tuple(str(job.payload.get("name", "a prediction")) for job in _predictions(jobs, run))
    taken = folder_bytes(library.home.run_folder(run.id))
    if (job := jobs.job(run.workspace, run.job)) is not None:
        taken += folder_bytes(resuming.checkpoints_of(library.home, job.payload))
    return Losses(named, taken)


def delete_run(jobs: JobStore, library: Library, run: RunRow) -> None:
    """Remove a run, its predictions with the structures uploaded for them, its folder and its checkpoints.

    The data set and the source model stay. Raises InputError while a job of the run is at work.
    """
    if library.run(run.workspace, run.id) is None:  # deleted before, or of another workspace
        return
    predictions, others = _predictions(jobs, run), _predictions(jobs, run, others=True)
    own = [job for job in jobs.jobs(run.workspace, kinds=["transfer"], limit=10_000) if job.subject == run.id]
    for job in (*own, *predictions):
        if job.active:
            raise InputError(f"{run.title}: {job.title} is {job.state}. Cancel it first, then delete the run.")
    for job in own:
        resuming.drop(library.home, job.payload)
    shutil.rmtree(library.home.run_folder(run.id), ignore_errors=True)
    ids = json.dumps([job.id for job in (*own, *predictions)])
    used = {str(job.payload["dataset"]) for job in others}
    structures = json.dumps([s for job in predictions if (s := str(job.payload["dataset"])) not in used])
    mine = "(SELECT value FROM json_each(?))"
    sets = f"(SELECT id FROM dataset WHERE id IN {mine} AND workspace = ? AND purpose = 'prediction')"
    with library.database.writing() as connection:
        connection.execute("DELETE FROM run WHERE id = ? AND workspace = ?", (run.id, run.workspace))
        connection.execute(f"DELETE FROM event WHERE job IN {mine}", (ids,))
        connection.execute(f"DELETE FROM job WHERE id IN {mine} AND workspace = ?", (ids, run.workspace))
        for table in ("structure", "dataset_file"):
            connection.execute(f"DELETE FROM {table} WHERE dataset IN {sets}", (structures, run.workspace))
        connection.execute(f"DELETE FROM dataset WHERE id IN {sets}", (structures, run.workspace))


def _predictions(jobs: JobStore, run: RunRow, *, others: bool = False) -> list[Job]:
    """Return the predictions made with this run, or those made with others."""
    found = jobs.jobs(run.workspace, kinds=["predict"], limit=10_000)
    return [job for job in found if (job.payload.get("run") == run.id) != others]

"""Rename and delete data sets and runs.

Nothing that a job uses is deleted.
"""

import json
import shutil
from dataclasses import dataclass

from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import recover_all
from bandgap.jobs import resuming
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import Dataset, RunRow
from bandgap.jobs.store import ACTIVE, Job, JobStore

MAX_NAME = 120
# Files that were uploaded again in this time stay, as a new data set may be about to use them.
SHARED_S = 600.0


def rename_dataset(library: Library, workspace: str, dataset_id: str, name: str) -> None:
    """Give a data set of this workspace another name.

    Raises InputError for a name that is empty or too long and for a data set that is not of this
    workspace.
    """
    library.dataset(workspace, dataset_id)
    accepted_name = checked_name(name)
    library.database.write("UPDATE dataset SET name = ? WHERE id = ?", accepted_name, dataset_id)


def set_level_of_theory(library: Library, workspace: str, dataset_id: str, level: str) -> None:
    """Store how the gaps of a data set were computed, such as PBE; "" is not stated.

    Runs that are finished keep their level. Raises InputError for a text that
    is too long and for a data set that is not of this workspace.
    """
    library.dataset(workspace, dataset_id)
    text = " ".join(level.split())
    if len(text) > MAX_NAME:
        raise InputError(
            f"The level of theory has {len(text)} characters. Accepted: at most {MAX_NAME}."
        )
    library.database.write("UPDATE dataset SET level_of_theory = ? WHERE id = ?", text, dataset_id)


def delete_dataset(library: Library, workspace: str, dataset_id: str) -> None:
    """Remove a data set with its files, verdicts and gaps; its name stays, for its runs.

    Runs that learned from it stay, with their predictions. Raises InputError while a job uses the
    data set, and for a data set that is not of this workspace.
    """
    dataset = library.dataset(workspace, dataset_id)
    with library.database.writing() as connection:
        check_dataset_unused(library, dataset)
        unused = connection.execute(
            "SELECT content FROM dataset_file WHERE dataset = ? EXCEPT"
            " SELECT content FROM dataset_file WHERE dataset != ?",
            (dataset_id, dataset_id),
        ).fetchall()
        for table in ("structure", "dataset_file"):
            connection.execute(f"DELETE FROM {table} WHERE dataset = ?", (dataset_id,))
        connection.execute(
            "INSERT OR IGNORE INTO deleted_dataset VALUES (?, ?, ?)",
            (dataset_id, workspace, dataset.name),
        )
        connection.execute("DELETE FROM dataset WHERE id = ?", (dataset_id,))
    library.home.drop_uploads([row["content"] for row in unused], older_than_s=SHARED_S)
    shutil.rmtree(library.home.dataset_folder(dataset_id), ignore_errors=True)


def check_dataset_unused(library: Library, dataset: Dataset) -> None:
    """Raise InputError while a job uses a data set."""
    marks = ", ".join("?" * len(ACTIVE))
    job = library.database.row(
        f"SELECT title FROM job WHERE workspace = ? AND state IN ({marks})"
        " AND json_extract(payload, '$.dataset') = ?",
        dataset.workspace,
        *ACTIVE,
        dataset.id,
    )
    if job is not None:
        raise InputError(
            f"{dataset.name} is in use by a job ({job['title']}). "
            "Cancel it or wait for its end, then delete."
        )


def drop_unused_uploads(library: Library) -> None:
    """Remove stored files that no data set uses, and the folders of data sets that do not exist.

    The worker calls this when it starts. Where the database is new, as after a damaged one was
    moved away, all files stay, so that the old one can be repaired.
    """
    with library.database.reading() as connection:
        if connection.execute("SELECT 1 FROM workspace").fetchone() is None:
            return
        contents = connection.execute("SELECT DISTINCT content FROM dataset_file")
        used_uploads = {row["content"] for row in contents}
        dataset_ids = {row["id"] for row in connection.execute("SELECT id FROM dataset")}
    for folder in (library.home.folder / "datasets").glob("*"):
        if folder.name not in dataset_ids:
            shutil.rmtree(folder, ignore_errors=True)
    stored_uploads = [path.name for path in (library.home.folder / "uploads").glob("*")]
    unused_uploads = [name for name in stored_uploads if name not in used_uploads]
    library.home.drop_uploads(unused_uploads, older_than_s=SHARED_S)


def drop_unfinished_results(library: Library) -> None:
    """Remove the folders of source models and added runs whose training or check did not finish.

    The worker calls this when it starts, and after the process of a job has ended. A job that ends
    by itself leaves no such folder; one that was killed, or cancelled while it waited, does.
    """
    rows = library.database.rows(
        "SELECT subject FROM job WHERE kind IN ('train_source', 'add_source', 'add_run')"
        " GROUP BY subject"
        " HAVING sum(state IN ('finished', 'queued', 'running', 'cancelling')) = 0"
    )
    for row in rows:
        for folder_of in (library.home.source_folder, library.home.run_folder):
            shutil.rmtree(folder_of(row["subject"]), ignore_errors=True)


def drop_unfinished_writes(home: Home) -> None:
    """Remove temporary files of interrupted writes of runs, source models and predictions.

    The worker calls this when it starts.
    """
    for parent in ("runs", "sources"):
        recover_all(home.folder / parent)
    for name in ("predictions", "proposals"):
        for folder in (home.folder / "runs").glob(f"*/{name}"):
            recover_all(folder)


def rename_run(library: Library, run: RunRow, title: str) -> None:
    """Give a run another name; raises InputError for one that is empty or too long."""
    text = checked_name(title)
    library.database.write(
        "UPDATE run SET title = ? WHERE id = ? AND workspace = ?", text, run.id, run.workspace
    )


def delete_run(jobs: JobStore, library: Library, run: RunRow) -> None:
    """Remove a run, its predictions with their uploaded structures, its folder and checkpoints.

    Its lists of proposed molecules are in its folder.

    The data set, the source model and finished refits stay. Raises InputError while a job of the
    run, or its refit, is queued or running.
    """
    parts = parts_of_run(jobs, run)
    for job in parts.jobs:
        if job.kind == "transfer":
            resuming.drop_checkpoints(library.home, job.payload)
        elif job.kind == "predict":
            folder = resuming.unfinished_prediction_folder(library.home, job.payload)
            shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(library.home.run_folder(run.id), ignore_errors=True)
    dataset_values = (json.dumps(parts.datasets), run.workspace)
    sets = (
        "(SELECT id FROM dataset WHERE id IN (SELECT value FROM json_each(?))"
        " AND workspace = ? AND purpose = 'prediction')"
    )
    with library.database.writing() as connection:
        connection.execute(
            "DELETE FROM run WHERE id = ? AND workspace = ?", (run.id, run.workspace)
        )
        connection.execute("DELETE FROM run_note WHERE run = ?", (run.id,))
        jobs.forget(run.workspace, parts.jobs)
        for table in ("structure", "dataset_file"):
            connection.execute(f"DELETE FROM {table} WHERE dataset IN {sets}", dataset_values)
        connection.execute(f"DELETE FROM dataset WHERE id IN {sets}", dataset_values)


@dataclass(frozen=True)
class RunParts:
    """What belongs to a run alone: its jobs, and the ids of structures uploaded to be predicted."""

    jobs: tuple[Job, ...]
    datasets: tuple[str, ...]


def parts_of_run(jobs: JobStore, run: RunRow) -> RunParts:
    """Return what is deleted with a run.

    Raises InputError while a job of the run, or its refit, is queued or running.
    """
    all_jobs = jobs.jobs(run.workspace, limit=-1)
    run_jobs = [job for job in all_jobs if run.id in (job.subject, job.payload.get("run"))]
    refits = [job for job in all_jobs if job.payload.get(resuming.PARENT) == run.id]
    for job in (*run_jobs, *refits):
        if job.active:
            raise InputError(
                f"{run.title}: {job.title} is {job.state}. Cancel it first, then delete the run."
            )
    datasets = {job.payload["dataset"] for job in run_jobs if job.kind == "predict"}
    datasets -= {
        job.payload["dataset"]
        for job in all_jobs
        if job.kind == "predict" and job.payload["run"] != run.id
    }
    rows = jobs.database.rows(
        "SELECT id FROM dataset WHERE id IN (SELECT value FROM json_each(?))"
        " AND workspace = ? AND purpose = 'prediction' ORDER BY id",
        json.dumps(sorted(datasets)),
        run.workspace,
    )
    return RunParts(tuple(run_jobs), tuple(row["id"] for row in rows))


def checked_name(name: str) -> str:
    """Return a name with single spaces; raises InputError for one that is empty or too long."""
    text = " ".join(name.split())
    if not 0 < len(text) <= MAX_NAME:
        raise InputError(f"The name has {len(text)} characters. Accepted: 1 to {MAX_NAME}.")
    return text

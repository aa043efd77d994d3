"""Rename and delete data sets and runs: what a deletion takes away is known before, and nothing at work is deleted."""

import json
import shutil
from dataclasses import dataclass

from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import recover_all
from bandgap.jobs import resuming
from bandgap.jobs.disk import folder_bytes
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow
from bandgap.jobs.sources import OWN
from bandgap.jobs.store import ACTIVE, Job, JobStore

MAX_NAME = 120
SHARED_S = 600.0  # files that somebody uploaded again in this time stay, as a data set may be about to name them


@dataclass(frozen=True)
class Losses:
    """What goes with a data set, and the runs that learned from it, which stay."""

    files: int
    n_bytes: int
    structures: int
    gaps: int
    runs: tuple[str, ...]  # titles


def rename_dataset(library: Library, workspace: str, dataset_id: str, name: str) -> None:
    """Give a data set of this workspace another name.

    Raises InputError for an empty or endless name and for a data set that is not of this workspace.
    """
    library.dataset(workspace, dataset_id)
    clean = checked_name(name)
    with library.database.writing() as connection:
        connection.execute("UPDATE dataset SET name = ? WHERE id = ?", (clean, dataset_id))


def losses(library: Library, workspace: str, dataset_id: str) -> Losses:
    """Return what the deletion of a data set of this workspace would lose."""
    library.dataset(workspace, dataset_id)
    files, counts = library.files(dataset_id), library.counts(dataset_id)
    return Losses(
        files=len(files),
        n_bytes=sum(file.n_bytes for file in files)
        + folder_bytes(library.home.dataset_folder(dataset_id)),
        structures=counts["all"],
        gaps=counts["labelled"],
        runs=tuple(
            run.title
            for run in library.runs(workspace, limit=1_000_000)
            if run.dataset == dataset_id
        ),
    )


def delete_dataset(library: Library, workspace: str, dataset_id: str) -> None:
    """Remove a data set with its files, verdicts and gaps; runs that learned from it stay, with their predictions.

    Raises InputError while a job works on it, and for a data set that is not of this workspace.
    """
    dataset = library.dataset(workspace, dataset_id)
    with library.database.writing() as connection:
        marks = ", ".join("?" * len(ACTIVE))
        job = connection.execute(
            f"SELECT title FROM job WHERE workspace = ? AND state IN ({marks})"
            " AND json_extract(payload, '$.dataset') = ?",
            (workspace, *ACTIVE, dataset_id),
        ).fetchone()
        if job is not None:
            raise InputError(
                f"{dataset.name} is in use by a job ({job['title']}). Cancel it or wait for its end, then delete."
            )
        unused = connection.execute(
            "SELECT content FROM dataset_file WHERE dataset = ? EXCEPT"
            " SELECT content FROM dataset_file WHERE dataset != ?",
            (dataset_id, dataset_id),
        ).fetchall()
        for table in ("structure", "dataset_file"):
            connection.execute(f"DELETE FROM {table} WHERE dataset = ?", (dataset_id,))
        connection.execute("DELETE FROM dataset WHERE id = ?", (dataset_id,))
    library.home.drop_uploads([row["content"] for row in unused], older_than_s=SHARED_S)
    shutil.rmtree(library.home.dataset_folder(dataset_id), ignore_errors=True)


def drop_unused_uploads(library: Library) -> None:
    """Remove stored files that no data set names any more, and what was computed for data sets that are gone.

    The worker does so when it starts. Where the store is a new one, as after one that was damaged, all of it stays for
    whoever repairs the old one.
    """
    with library.database.reading() as connection:
        if connection.execute("SELECT 1 FROM workspace").fetchone() is None:
            return
        named = {
            row["content"]
            for row in connection.execute("SELECT DISTINCT content FROM dataset_file")
        }
        known = {row["id"] for row in connection.execute("SELECT id FROM dataset")}
    for folder in (library.home.folder / "datasets").glob("*"):
        if folder.name not in known:
            shutil.rmtree(folder, ignore_errors=True)
    present = [path.name for path in (library.home.folder / "uploads").glob("*")]
    library.home.drop_uploads(
        [name for name in present if name not in named], older_than_s=SHARED_S
    )


def drop_left_sources(library: Library) -> None:
    """Remove folders of source models whose training or check ended without one, as when it waited or was killed.

    The worker does so when it starts; a job that ends by itself leaves none.
    """
    lasting = ("finished", *ACTIVE)
    kinds, marks = ", ".join("?" * len(OWN)), ", ".join("?" * len(lasting))
    left = library.database.rows(
        f"SELECT subject FROM job WHERE kind IN ({kinds}) GROUP BY subject HAVING sum(state IN ({marks})) = 0",
        *OWN,
        *lasting,
    )
    for row in left:
        shutil.rmtree(library.home.source_folder(row["subject"]), ignore_errors=True)


def drop_unfinished_writes(home: Home) -> None:
    """Remove what writes of runs, source models and predictions that were killed left next to them.

    The worker does so when it starts.
    """
    for parent in ("runs", "sources"):
        recover_all(home.folder / parent)
    for folder in (home.folder / "runs").glob("*/predictions"):
        recover_all(folder)


@dataclass(frozen=True)
class RunLosses:
    """What goes with a run: its predictions by name, and bytes of its folder and its checkpoints."""

    predictions: tuple[str, ...]
    n_bytes: int


def rename_run(library: Library, run: RunRow, title: str) -> None:
    """Give a run another name; raises InputError for one that is empty or too long."""
    text = checked_name(title)
    with library.database.writing() as connection:
        connection.execute(
            "UPDATE run SET title = ? WHERE id = ? AND workspace = ?", (text, run.id, run.workspace)
        )


def run_losses(jobs: JobStore, library: Library, run: RunRow) -> RunLosses:
    """Return what a deletion of the run would take away."""
    predictions = _predictions(jobs, run)
    whole = resuming.without_continued(predictions)
    named = tuple(str(job.payload.get("name", "a prediction")) for job in whole)
    taken = folder_bytes(library.home.run_folder(run.id))
    if (job := jobs.job(run.workspace, run.job)) is not None:
        taken += folder_bytes(resuming.checkpoints_of(library.home, job.payload))
    taken += sum(
        map(folder_bytes, {resuming.parts_of(library.home, job.payload) for job in predictions})
    )
    return RunLosses(named, taken)


def delete_run(jobs: JobStore, library: Library, run: RunRow) -> None:
    """Remove a run, its predictions with the structures uploaded for them, its folder and its checkpoints.

    The data set and the source model stay. Raises InputError while a job of the run is at work.
    """
    if library.run(run.workspace, run.id) is None:  # deleted before, or of another workspace
        return
    predictions, others = _predictions(jobs, run), _predictions(jobs, run, others=True)
    own = [
        job
        for job in jobs.jobs(run.workspace, kinds=["transfer"], limit=10_000)
        if job.subject == run.id
    ]
    for job in (*own, *predictions):
        if job.active:
            raise InputError(
                f"{run.title}: {job.title} is {job.state}. Cancel it first, then delete the run."
            )
    for job in own:
        resuming.drop(library.home, job.payload)
    for job in predictions:
        shutil.rmtree(resuming.parts_of(library.home, job.payload), ignore_errors=True)
    shutil.rmtree(library.home.run_folder(run.id), ignore_errors=True)
    used = {str(job.payload["dataset"]) for job in others}
    structures = json.dumps(
        [s for job in predictions if (s := str(job.payload["dataset"])) not in used]
    )
    mine = "id IN (SELECT value FROM json_each(?)) AND workspace = ?"
    sets = f"(SELECT id FROM dataset WHERE {mine} AND purpose = 'prediction')"
    with library.database.writing() as connection:
        connection.execute(
            "DELETE FROM run WHERE id = ? AND workspace = ?", (run.id, run.workspace)
        )
        jobs.forget(run.workspace, [*own, *predictions])
        for table in ("structure", "dataset_file"):
            connection.execute(
                f"DELETE FROM {table} WHERE dataset IN {sets}", (structures, run.workspace)
            )
        connection.execute(f"DELETE FROM dataset WHERE id IN {sets}", (structures, run.workspace))


def _predictions(jobs: JobStore, run: RunRow, *, others: bool = False) -> list[Job]:
    """Return the predictions made with this run, or those made with others."""
    found = jobs.jobs(run.workspace, kinds=["predict"], limit=10_000)
    return [job for job in found if (job.payload.get("run") == run.id) != others]


def checked_name(name: str) -> str:
    """Return a name with single spaces; raises InputError for one that is empty or too long."""
    clean = " ".join(name.split())
    if not 0 < len(clean) <= MAX_NAME:
        raise InputError(f"The name has {len(clean)} characters. Accepted: 1 to {MAX_NAME}.")
    return clean

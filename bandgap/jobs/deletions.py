"""The bin: deleted runs, data sets and source models stay restorable for 30 days.

What is deleted, with its jobs, gets the workspace "bin ID" instead of "ID". So no list, page or
address shows it, while its files stay where they are. Restoring it gives it its workspace back. The
worker removes what is older for good.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import InputError
from bandgap.jobs.database import row_damage_reported
from bandgap.jobs.home import Home
from bandgap.jobs.housekeeping import check_dataset_unused, delete_dataset, delete_run, parts_of_run
from bandgap.jobs.library import Library
from bandgap.jobs.rows import RunRow, bin_of
from bandgap.jobs.sources import delete_source, jobs_of_deletable_source
from bandgap.jobs.store import Job, JobStore

Kind = Literal["run", "data set", "source model"]

KEPT_DAYS: Final = 30
_DAY_S: Final = 86_400.0


@dataclass(frozen=True)
class Deletion:
    """A deleted run, data set or source model; `time` is that of its deletion.

    `jobs` and `datasets` are the ids of the jobs and the uploads for predictions that were deleted
    with it.
    """

    kind: Kind
    id: str
    workspace: str
    name: str
    time: float
    jobs: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()


def deletions(library: Library, workspace: str) -> list[Deletion]:
    """Return what is in the bin of a workspace, the last deletion first."""
    rows = library.database.rows(
        "SELECT * FROM deletion WHERE workspace = ? ORDER BY time DESC", workspace
    )
    return [_deletion(dict(row)) for row in rows]


def bin_run(jobs: JobStore, library: Library, run: RunRow) -> None:
    """Move a run with its predictions to the bin; raises InputError as `delete_run`."""
    if library.run(run.workspace, run.id) is None:  # deleted before, or of another workspace
        return
    parts = parts_of_run(jobs, run)
    moved_jobs = tuple(job.id for job in parts.jobs)
    deletion = Deletion(
        "run", run.id, run.workspace, run.title, time.time(), moved_jobs, parts.datasets
    )
    _move(library, deletion, to=bin_of(run.workspace))


def bin_dataset(library: Library, workspace: str, dataset_id: str) -> None:
    """Move a data set to the bin; its name stays for its runs. Errors as `delete_dataset`."""
    dataset = library.dataset(workspace, dataset_id)
    check_dataset_unused(library, dataset)
    deletion = Deletion("data set", dataset_id, workspace, dataset.name, time.time())
    with library.database.writing():
        library.database.write(
            "INSERT OR REPLACE INTO deleted_dataset VALUES (?, ?, ?)",
            dataset_id,
            workspace,
            dataset.name,
        )
        _move(library, deletion, to=bin_of(workspace))


def bin_source(
    jobs: JobStore, library: Library, workspace: str, source_id: str, *, name: str
) -> None:
    """Move a source model to the bin; raises InputError as `delete_source`."""
    source_jobs = jobs_of_deletable_source(jobs, workspace, source_id)
    moved_jobs = tuple(job.id for job in source_jobs)
    deletion = Deletion("source model", source_id, workspace, name, time.time(), moved_jobs)
    _move(library, deletion, to=bin_of(workspace))


def restore(library: Library, workspace: str, kind: Kind, item_id: str) -> Deletion:
    """Give a deleted object back to its workspace, and return what was restored.

    Raises InputError where the bin does not contain it.
    """
    deletion = next(
        (d for d in deletions(library, workspace) if (d.kind, d.id) == (kind, item_id)), None
    )
    if deletion is None:
        raise InputError(f"This {kind} is no longer in the bin, so it cannot be restored.")
    with library.database.writing():
        if kind == "data set":
            library.database.write("DELETE FROM deleted_dataset WHERE id = ?", item_id)
        elif kind == "run":
            deletion = replace(deletion, datasets=_predicted_datasets(library, deletion))
        _move(library, deletion, to=workspace)
    return deletion


def empty_bin(jobs: JobStore, library: Library, workspace: str) -> None:
    """Remove all that is in the bin of a workspace for good."""
    for deletion in deletions(library, workspace):
        _remove(jobs, library, deletion)


def drop_old_deletions(home: Home) -> None:
    """Remove for good what was deleted `KEPT_DAYS` ago; the worker calls this once an hour."""
    library = Library(home)
    rows = library.database.rows(
        "SELECT * FROM deletion WHERE time < ?", time.time() - KEPT_DAYS * _DAY_S
    )
    for row in rows:
        _remove(JobStore(home), library, _deletion(dict(row)))


def make_room(jobs: JobStore, library: Library, kind: Kind, item_id: str) -> None:
    """Remove an object from the bin for good, because one of the same id is made again."""
    row = library.database.row("SELECT * FROM deletion WHERE kind = ? AND id = ?", kind, item_id)
    if row is not None:
        _remove(jobs, library, _deletion(dict(row)))


def _move(library: Library, deletion: Deletion, *, to: str) -> None:
    """Give the object of a deletion, its jobs and data sets another workspace.

    In the bin it gets a row of the table `deletion`; that of a restored one is removed.
    """
    tables = {"run": "run", "data set": "dataset"}
    moved: list[tuple[str, Sequence[str]]] = [
        ("job", deletion.jobs),
        ("dataset", deletion.datasets),
    ]
    if table := tables.get(deletion.kind):
        moved.append((table, (deletion.id,)))
    with library.database.writing() as connection:
        for name, ids in moved:
            connection.execute(
                f"UPDATE {name} SET workspace = ? WHERE id IN (SELECT value FROM json_each(?))",
                (to, json.dumps(list(ids))),
            )
        connection.execute(
            "DELETE FROM deletion WHERE kind = ? AND id = ?", (deletion.kind, deletion.id)
        )
        if to == bin_of(deletion.workspace):
            connection.execute(
                "INSERT INTO deletion VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    deletion.kind,
                    deletion.id,
                    deletion.workspace,
                    deletion.name,
                    deletion.time,
                    json.dumps(deletion.jobs),
                    json.dumps(deletion.datasets),
                ),
            )


def _predicted_datasets(library: Library, deletion: Deletion) -> tuple[str, ...]:
    """Return the uploads in the bin that a deleted run has predicted.

    They may have been moved there with another run, which was deleted later.
    """
    rows = library.database.rows(
        "SELECT id FROM dataset WHERE workspace = ? AND purpose = 'prediction' AND id IN"
        " (SELECT json_extract(payload, '$.dataset') FROM job"
        " WHERE id IN (SELECT value FROM json_each(?)))",
        bin_of(deletion.workspace),
        json.dumps(deletion.jobs),
    )
    return tuple(row["id"] for row in rows)


def _remove(jobs: JobStore, library: Library, deletion: Deletion) -> None:
    """Remove files and rows of a deleted object for good."""
    workspace = bin_of(deletion.workspace)
    if deletion.kind == "run":
        run = library.run(workspace, deletion.id)
        if run is not None:
            delete_run(jobs, library, run)
    elif deletion.kind == "data set":
        if any(d.id == deletion.id for d in library.datasets(workspace)):
            delete_dataset(library, workspace, deletion.id)
    elif any(job.subject == deletion.id for job in _jobs(jobs, workspace)):
        delete_source(jobs, library, workspace, deletion.id)
    library.database.write(
        "DELETE FROM deletion WHERE kind = ? AND id = ?", deletion.kind, deletion.id
    )


def _jobs(jobs: JobStore, workspace: str) -> list[Job]:
    return jobs.jobs(workspace, limit=10_000)


def _deletion(values: dict[str, str]) -> Deletion:
    with row_damage_reported("deletion"):
        lists = {
            name: tuple(map(str, parse_json(values[name], what=name)))
            for name in ("jobs", "datasets")
        }
        return Deletion(**{**values, **lists})  # type: ignore[arg-type]

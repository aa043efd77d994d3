"""Workspaces of a data directory: list, open, rename, and count what each contains.

This module does not check who may open a workspace; `people.py` says so.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from bandgap.jobs.housekeeping import checked_name
from bandgap.jobs.library import Library

UNUSED_S = 30 * 86400.0

_SUMMARY = """
SELECT id, coalesce((SELECT name FROM opened_workspace AS o WHERE o.id = w.id), '') AS name,
  (SELECT count(*) FROM dataset WHERE workspace = w.id AND purpose = 'training') AS datasets,
  (SELECT count(*) FROM run WHERE workspace = w.id AND job NOT IN
    (SELECT id FROM job WHERE workspace = w.id AND submit_key LIKE 'model-%')) AS runs,
  (SELECT count(*) FROM dataset WHERE workspace = w.id AND purpose = 'prediction') AS predictions,
  (SELECT count(*) FROM job WHERE workspace = w.id AND state IN ('queued', 'running')) AS active,
  max(w.created, coalesce((SELECT max(created) FROM job WHERE workspace = w.id), 0),
    coalesce((SELECT max(created) FROM dataset WHERE workspace = w.id), 0)) AS changed
FROM workspace AS w
"""


@dataclass(frozen=True)
class WorkspaceSummary:
    """What a workspace contains.

    `changed` is the time at which its last data set or job was added; `name` may be empty. The
    shipped model is no run.
    """

    id: str
    name: str
    datasets: int
    runs: int
    predictions: int
    active: int
    changed: float


def open_workspace(library: Library, workspace: str) -> None:
    """Store that a workspace was opened, so that its address is valid while it is empty."""
    library.database.write(
        "INSERT OR IGNORE INTO opened_workspace VALUES (?, '', ?)", workspace, time.time()
    )


def has_workspace(library: Library, workspace: str) -> bool:
    """Return whether a workspace of this id was ever opened or filled here."""
    query = (
        "SELECT 1 FROM workspace WHERE id = ? UNION ALL SELECT 1 FROM opened_workspace WHERE id = ?"
    )
    return library.database.row(query, workspace, workspace) is not None


def workspace_name(library: Library, workspace: str) -> str:
    """Return the name of a workspace, empty where it has none."""
    row = library.database.row("SELECT name FROM opened_workspace WHERE id = ?", workspace)
    return "" if row is None else str(row["name"])


def rename_workspace(library: Library, workspace: str, name: str) -> None:
    """Give a workspace a name; raises InputError for one that is empty or too long."""
    text = checked_name(name)
    with library.database.writing():
        open_workspace(library, workspace)
        library.database.write("UPDATE opened_workspace SET name = ? WHERE id = ?", text, workspace)


def drop_unused_workspaces(library: Library, *, unused_s: float = UNUSED_S) -> None:
    """Remove workspaces without content and without a name that were opened before this time."""
    with library.database.writing() as connection:
        connection.execute(
            "DELETE FROM opened_workspace WHERE name = '' AND opened < ? AND id NOT IN "
            "(SELECT id FROM workspace)",
            (time.time() - unused_s,),
        )
        connection.execute(
            "DELETE FROM workspace_owner WHERE workspace NOT IN "
            "(SELECT id FROM workspace UNION ALL SELECT id FROM opened_workspace)"
        )


def workspaces_of(library: Library, ids: Iterable[str]) -> list[WorkspaceSummary]:
    """Return those of these workspaces that contain anything, the last changed first."""
    unique_ids = list(dict.fromkeys(ids))
    marks = ", ".join("?" * len(unique_ids))
    return _summaries(library, f"{_SUMMARY} WHERE w.id IN ({marks})", *unique_ids)


def all_workspaces(library: Library) -> list[WorkspaceSummary]:
    """Return all workspaces that contain anything, the last changed first."""
    return _summaries(library, _SUMMARY)


def _summaries(library: Library, query: str, *values: object) -> list[WorkspaceSummary]:
    rows = library.database.rows(f"{query} ORDER BY changed DESC, id", *values)
    summaries = [WorkspaceSummary(**dict(row)) for row in rows]
    return [one for one in summaries if one.datasets or one.runs or one.predictions]

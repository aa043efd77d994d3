"""Who may open a workspace, on a server that knows its visitors.

A person is an e-mail address or user name in small letters, "" for the local user of a server on
this machine alone, who may open all. A workspace belongs to one person or to nobody: older ones and
those of the local user may be claimed once, by a person who knows the id. An owner shares a
workspace by links.
"""

import hashlib
import secrets
import time
from dataclasses import dataclass

from bandgap.foundation.errors import InputError
from bandgap.jobs.database import Database


@dataclass(frozen=True)
class Link:
    """A link to a workspace, and how many people have used it; its secret is not stored."""

    digest: str
    may_write: bool
    created: float
    users: int


def owner_of(database: Database, workspace: str) -> str:
    """Return the person to whom a workspace belongs, "" for nobody."""
    row = database.row("SELECT person FROM workspace_owner WHERE workspace = ?", workspace)
    return "" if row is None else str(row["person"])


def claim(database: Database, workspace: str, person: str) -> bool:
    """Give a workspace without an owner to a person; return whether it had none."""
    query = "INSERT OR IGNORE INTO workspace_owner VALUES (?, ?)"
    return database.write(query, workspace, person) == 1


def may_write(database: Database, workspace: str, person: str) -> bool | None:
    """Return whether a person may change a workspace, None where it is not theirs to see."""
    if not person:
        return True
    query = "SELECT max(may_write) AS may_write FROM access WHERE workspace = ? AND person = ?"
    row = database.row(query, workspace, person)
    return None if row is None or row["may_write"] is None else bool(row["may_write"])


def may_open_dataset(database: Database, dataset: str, person: str | None) -> bool:
    """Return whether a person may open the workspace of a data set; None is nobody's."""
    if not person:
        return person is not None
    row = database.row("SELECT workspace FROM dataset WHERE id = ?", dataset)
    return row is not None and may_write(database, row["workspace"], person) is not None


def workspaces_of_person(database: Database, person: str) -> list[str]:
    """Return the ids of the workspaces that a person may open."""
    rows = database.rows("SELECT workspace FROM access WHERE person = ?", person)
    return [row["workspace"] for row in rows]


def share(database: Database, workspace: str, person: str, *, may_write: bool) -> str:
    """Return the secret of a new link to a workspace of this person."""
    _check_owner(database, workspace, person)
    secret = secrets.token_urlsafe(32)
    query = "INSERT INTO workspace_link VALUES (?, ?, ?, ?)"
    database.write(query, _digest(secret), workspace, may_write, time.time())
    return secret


def links(database: Database, workspace: str) -> list[Link]:
    """Return the links to a workspace, oldest first."""
    rows = database.rows(
        "SELECT digest, may_write, created, count(person) AS users FROM workspace_link"
        " LEFT JOIN link_user USING (digest) WHERE workspace = ? GROUP BY digest ORDER BY created",
        workspace,
    )
    return [Link(**{**dict(row), "may_write": bool(row["may_write"])}) for row in rows]


def withdraw(database: Database, workspace: str, person: str, digest: str) -> None:
    """Remove a link to a workspace of this person: those who used it no longer open it."""
    _check_owner(database, workspace, person)
    query = "DELETE FROM workspace_link WHERE digest = ? AND workspace = ?"
    database.write(query, digest, workspace)


def open_link(database: Database, secret: str, person: str) -> str:
    """Let a person into the workspace of a link; return its id, "" where there is no such link."""
    digest = _digest(secret)
    row = database.row("SELECT workspace FROM workspace_link WHERE digest = ?", digest)
    if row is None:
        return ""
    database.write("INSERT OR IGNORE INTO link_user VALUES (?, ?)", person, digest)
    return str(row["workspace"])


def _check_owner(database: Database, workspace: str, person: str) -> None:
    if owner_of(database, workspace) != person:
        raise InputError("Only the owner of a workspace shares it. Ask them for a link.")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "replace")).hexdigest()


def person_of(database: Database, workspace: str) -> str:
    """Return who takes turns and has the quota of a workspace: its owner, or itself for nobody."""
    return owner_of(database, workspace) or workspace


def own_workspaces(database: Database, person: str) -> list[str]:
    """Return the ids of the workspaces of which `person_of` is this person."""
    rows = database.rows(
        "SELECT id FROM workspace LEFT JOIN workspace_owner ON workspace = id"
        " WHERE coalesce(person, id) = ?",
        person,
    )
    return [row["id"] for row in rows]


def people(database: Database) -> list[str]:
    """Return everyone who is `person_of` a workspace that contains anything."""
    rows = database.rows(
        "SELECT DISTINCT coalesce(person, id) FROM workspace"
        " LEFT JOIN workspace_owner ON workspace = id ORDER BY 1"
    )
    return [row[0] for row in rows]

"""`bandgap admin`: people, jobs and disk of a server, and its backup."""

import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bandgap.cli.commands import CheckedCommand
from bandgap.cli.report import print_table
from bandgap.foundation.errors import InputError
from bandgap.jobs.disk import GIGABYTE

if TYPE_CHECKING:
    from bandgap.jobs.store import JobStore

group = typer.Typer(no_args_is_help=True)
_command = partial(group.command, cls=CheckedCommand)


@group.callback()
def _root() -> None:
    """People, jobs and disk of the server of this data directory (BANDGAP_HOME), and backups."""


@_command(epilog="Example: bandgap admin people")
def people() -> None:
    """List the people, or workspaces of nobody, with their room and their jobs."""
    from bandgap.jobs import people
    from bandgap.jobs.disk import person_usage

    store = _store()
    jobs = Counter((job.person, job.state == "queued") for job in store.active_jobs())
    rows = []
    for person in people.people(store.database):
        usage = person_usage(store, person)
        quota = _size(usage.quota) if usage.quota else "no limit"
        counts = (str(jobs[person, is_queued]) for is_queued in (False, True))
        rows.append((person, _size(usage.used), quota, *counts))
    print_table(("person", "used", "quota", "running", "waiting"), rows)


@_command(epilog="Example: bandgap admin jobs")
def jobs() -> None:
    """List what runs and what waits, in the order of the start."""
    rows = [
        (job.id[:8], job.person, job.kind, job.state, _duration(job.estimate_s), job.title)
        for job in _store().active_jobs()
    ]
    columns = ("id", "person", "kind", "state", "estimate", "title")
    print_table(columns, rows, text_columns={*columns} - {"estimate"})


@_command(epilog="Example: bandgap admin disk")
def disk() -> None:
    """List what the data directory takes, and what is free."""
    import shutil

    from bandgap.jobs.disk import folder_bytes

    folder = _store().home.folder
    rows = [
        (path.name, _size(folder_bytes(path) if path.is_dir() else path.stat().st_size))
        for path in sorted(folder.iterdir())
    ]
    print_table(("name", "size"), [*rows, ("free", _size(shutil.disk_usage(folder).free))])


@_command(epilog="Example: bandgap admin cancel 1f0e9a42")
def cancel(
    job: Annotated[str, typer.Argument(metavar="ID", help="Id of a job, or how it begins.")],
) -> None:
    """Cancel a job of anyone that runs or waits; `bandgap admin jobs` lists the ids."""
    store = _store()
    matching_jobs = [active for active in store.active_jobs() if active.id.startswith(job)]
    if len(matching_jobs) != 1:
        raise InputError(
            f"{len(matching_jobs)} jobs that run or wait have an id that begins with {job}. "
            "`bandgap admin jobs` lists them."
        )
    (matching_job,) = matching_jobs
    store.request_cancel(matching_job.workspace, matching_job.id)
    typer.echo(f"Cancelled: {matching_job.title}, of {matching_job.person}.")


@_command(epilog="Example: bandgap admin quota ada@example.org 50")
def quota(
    person: Annotated[str, typer.Argument(metavar="PERSON", help="As `people` lists them.")],
    gb: Annotated[str, typer.Argument(metavar="GB", help="Disk space; 0 for no limit.")],
) -> None:
    """Set how much one person may store, instead of what all may."""
    from bandgap.jobs import people
    from bandgap.jobs.disk import parsed_quota, set_quota

    store = _store()
    name = person.lower()
    set_quota(store, name, parsed_quota(gb, given_as="GB"))
    is_known = name in people.people(store.database)
    typer.echo(f"{name}: {gb} GB" + ("" if is_known else "; no workspace is theirs yet"))


@_command(epilog="Example: bandgap admin backup /backups/monday")
def backup(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder.")],
) -> None:
    """Back up the data directory while the server runs.

    Files on the same disk are linked, not copied; the cache is left out. DIR is a data directory
    itself: BANDGAP_HOME=DIR bandgap app serves it.
    """
    from bandgap.jobs.backups import back_up

    back_up(_store().home, folder)


def _store() -> "JobStore":
    """Return the jobs of the data directory, and print its folder.

    Raises InputError where it has none.
    """
    from bandgap.jobs.home import open_home
    from bandgap.jobs.store import JobStore

    home = open_home()
    if not home.database.exists():
        raise InputError(
            f"{home.folder} is no server's data directory. Set BANDGAP_HOME to that of the server."
        )
    typer.echo(f"Data directory: {home.folder}")
    return JobStore(home)


def _duration(seconds: float | None) -> str:
    """Return an estimate in words; there is none before the first look, infinity is unknown."""
    return "unknown" if seconds is None or math.isinf(seconds) else f"{seconds:.0f} s"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / GIGABYTE:.2f} GB"

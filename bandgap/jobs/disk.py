"""Disk space: what workspaces and people use, their quotas, and what is free."""

import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.jobs.database import Database
from bandgap.jobs.home import Home
from bandgap.jobs.people import own_workspaces, person_of
from bandgap.jobs.rows import bin_of

QUOTA_VARIABLE = "BANDGAP_QUOTA_GB"
QUOTA_OPTION = "--quota-gb"
DEFAULT_QUOTA_GB = 10.0
GIGABYTE = 1_000_000_000
FREE_SHARE = 0.05  # of the disk that is kept free, at most a gigabyte
WARNED_SHARE = 0.8  # of a quota

log = logging.getLogger(__name__)


class Store(Protocol):
    """The data directory and its tables."""

    home: Home
    database: Database


@dataclass(frozen=True)
class WorkspaceUsage:
    """Bytes on the disk.

    `uploads` are the files of all data sets, including those uploaded for predictions, and files
    computed from them. `runs` are the folders of the workspace's runs and source models. `bin` is
    what was deleted and can be restored.
    """

    uploads: int
    runs: int
    bin: int

    @property
    def total(self) -> int:
        """Bytes that count against the quota of the workspace."""
        return self.uploads + self.runs + self.bin


def workspace_usage(store: Store, workspace: str) -> WorkspaceUsage:
    """Return the disk space of a workspace; files that two data sets share count in both."""
    deleted = bin_of(workspace)
    return WorkspaceUsage(
        uploads=sum(dataset_sizes(store, workspace).values()),
        runs=_models_bytes(store, workspace),
        bin=sum(dataset_sizes(store, deleted).values()) + _models_bytes(store, deleted),
    )


def _models_bytes(store: Store, workspace: str) -> int:
    """Return the bytes of the folders of the runs and source models of a workspace."""
    rows = store.database.rows(  # a source model, and a run that is being added, have no row
        "SELECT id FROM run WHERE workspace = ? UNION SELECT subject FROM job"
        " WHERE workspace = ? AND kind IN ('train_source', 'add_source', 'add_run')",
        workspace,
        workspace,
    )
    return sum(
        folder_bytes(folder_of(row["id"]))
        for row in rows
        for folder_of in (store.home.source_folder, store.home.run_folder)
    )


def dataset_sizes(store: Store, workspace: str) -> dict[str, int]:
    """Return the bytes of every data set by its id, including those uploaded for predictions."""
    rows = store.database.rows(
        "SELECT dataset.id, coalesce(sum(n_bytes), 0)"
        " FROM dataset LEFT JOIN dataset_file ON dataset = id WHERE workspace = ? GROUP BY id",
        workspace,
    )
    return {
        dataset_id: int(n_bytes) + folder_bytes(store.home.dataset_folder(dataset_id))
        for dataset_id, n_bytes in rows
    }


def quota_bytes() -> int:
    """Return the quota of a person in bytes, from $BANDGAP_QUOTA_GB; 0 means no limit.

    Raises ConfigError when the variable is not a number from 0.
    """
    return parsed_quota(os.environ.get(QUOTA_VARIABLE, ""), given_as=QUOTA_VARIABLE)


def parsed_quota(text: str, *, given_as: str) -> int:
    """Return the bytes of a quota in GB; an empty text is 10 GB, and 0 means no limit.

    `given_as` is the variable or option that has the text. Raises ConfigError, with this name, when
    the text is not a number from 0.
    """
    try:
        value = float(text or DEFAULT_QUOTA_GB)
        if not 0.0 <= value < float("inf"):
            raise ValueError
    except ValueError:
        raise ConfigError(
            f"{given_as} is {text!r}. Accepted: a number of GB such as 10, or 0 for no limit."
        ) from None
    return round(value * GIGABYTE)


@dataclass(frozen=True)
class PersonUsage:
    """Bytes that the workspaces of a person take, and the quota; 0 is none."""

    used: int
    quota: int

    @property
    def is_near_quota(self) -> bool:
        return 0 < WARNED_SHARE * self.quota <= self.used


def person_usage(store: Store, person: str) -> PersonUsage:
    """Return what a person uses, and may use by `set_quota` or `quota_bytes`."""
    ids = own_workspaces(store.database, person)
    used = sum(workspace_usage(store, one).total for one in ids)
    return PersonUsage(used, quota_of(store, person))


def quota_of(store: Store, person: str) -> int:
    """Return the quota of one person in bytes; 0 means no limit."""
    row = store.database.row("SELECT n_bytes FROM quota WHERE person = ?", person)
    return quota_bytes() if row is None else int(row["n_bytes"])


def set_quota(store: Store, person: str, n_bytes: int) -> None:
    """Store the quota of one person; 0 means no limit."""
    store.database.write("INSERT OR REPLACE INTO quota VALUES (?, ?)", person, n_bytes)


def check_quota(store: Store, workspace: str, *, adding: int = 0) -> None:
    """Raise InputError when the workspace's person, or the disk, has no room for `adding` bytes.

    A warning is logged where a person is near the quota.
    """
    disk = shutil.disk_usage(store.home.folder)
    if disk.free - adding < (kept_free := min(FREE_SHARE * disk.total, GIGABYTE)):
        raise InputError(
            f"The disk of the server has {disk.free / GIGABYTE:.2f} GB left, of which "
            f"{kept_free / GIGABYTE:.2f} GB are kept free. Free some disk space: delete what is no "
            "longer needed and empty the bin (page Data), or ask who runs this server."
        )
    person = person_of(store.database, workspace)
    if not quota_of(store, person):
        return
    usage = person_usage(store, person)
    line = (
        f"What is yours takes {usage.used / GIGABYTE:.2f} GB of at most "
        f"{usage.quota / GIGABYTE:g} GB"
    )
    if usage.used + adding > usage.quota or usage.used >= usage.quota:
        more = f", and this adds {adding / GIGABYTE:.2f} GB" if adding else ""
        raise InputError(
            f"{line}{more}. Delete data sets that are no longer needed and empty the bin (page "
            f"Data), or ask who runs this server for more ({QUOTA_VARIABLE}, bandgap admin quota)."
        )
    if usage.is_near_quota:
        log.warning("%s.", line)


def folder_bytes(folder: str | Path) -> int:
    """Return the size of all files below a folder; what cannot be read counts 0."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    total += folder_bytes(entry.path)
                else:
                    total += entry.stat(follow_symlinks=False).st_size
    return total


@contextmanager
def removed_on_failure(folder: Path) -> Iterator[None]:
    """Remove a folder when the block that fills it does not finish, for whatever reason."""
    try:
        yield
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise

"""How much room a workspace takes, how much it may take, and how much is left."""

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from bandgap.foundation.errors import ConfigError, InputError
from bandgap.jobs.database import Database
from bandgap.jobs.home import Home

QUOTA_VARIABLE, QUOTA_OPTION = "BANDGAP_QUOTA_GB", "--quota-gb"
DEFAULT_QUOTA_GB = 10.0
GIGABYTE = 1_000_000_000


class Store(Protocol):
    """What the room is asked of: the data directory and its tables."""

    home: Home
    database: Database


@dataclass(frozen=True)
class Room:
    """Bytes: data sets by id and run folders of one workspace, the descriptor cache of all, and what is free."""

    datasets: Mapping[
        str, int
    ]  # uploaded files, and what was computed from them when they were checked
    runs: int  # and source models of the workspace
    cache: int
    free: int

    @property
    def uploads(self) -> int:
        """What all data sets take, those uploaded for predictions included."""
        return sum(self.datasets.values())

    @property
    def taken(self) -> int:
        """What counts against the quota of the workspace."""
        return self.uploads + self.runs


def room(store: Store, workspace: str) -> Room:
    """Return the room of a workspace; files that two data sets share count in both."""
    own = "SELECT DISTINCT subject FROM job WHERE workspace = ? AND kind IN ('train_source', 'add_source')"
    folders = [
        store.home.source_folder(row["subject"]) for row in store.database.rows(own, workspace)
    ]
    made = store.database.rows("SELECT id FROM run WHERE workspace = ?", workspace)
    runs = sum(map(folder_bytes, [*folders, *(store.home.run_folder(row["id"]) for row in made)]))
    sizes = dataset_sizes(store, workspace)
    return Room(
        sizes, runs, folder_bytes(store.home.cache), shutil.disk_usage(store.home.cache).free
    )


def dataset_sizes(store: Store, workspace: str) -> dict[str, int]:
    """Return the bytes of every data set of a workspace by its id, those uploaded for predictions included."""
    rows = store.database.rows(
        "SELECT dataset.id, coalesce(sum(n_bytes), 0) FROM dataset LEFT JOIN dataset_file ON dataset = id"
        " WHERE workspace = ? GROUP BY id",
        workspace,
    )
    return {id: int(n_bytes) + folder_bytes(store.home.dataset_folder(id)) for id, n_bytes in rows}


def quota_bytes() -> int:
    """Return how many bytes a workspace may take: $BANDGAP_QUOTA_GB in GB, by default 10; 0 means no limit.

    Raises ConfigError when that is not a number from 0.
    """
    return parsed_quota(os.environ.get(QUOTA_VARIABLE, ""), given_as=QUOTA_VARIABLE)


def parsed_quota(text: str, *, given_as: str) -> int:
    """Return the bytes that a quota in GB means, by default 10 GB; 0 means no limit.

    Raises ConfigError, with the name that it was given by, when it is not a number from 0.
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


def check_quota(store: Store, workspace: str, *, adding: int = 0) -> None:
    """Raise InputError when a workspace has reached its quota, or would exceed it by `adding` bytes."""
    quota = quota_bytes()
    if not quota:
        return
    taken = room(store, workspace).taken
    if taken + adding <= quota and taken < quota:
        return
    more = f", and this adds {adding / GIGABYTE:.2f} GB" if adding else ""
    raise InputError(
        f"This workspace takes {taken / GIGABYTE:.2f} GB of at most {quota / GIGABYTE:g} GB{more}. Delete data sets "
        f"that are no longer needed (page Data), or ask who runs this server to raise {QUOTA_VARIABLE}."
    )


def folder_bytes(folder: str | Path) -> int:
    """Return the size of all files below a folder, 0 where there is none; what cannot be read counts nothing."""
    total = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                inside = entry.is_dir(follow_symlinks=False)
                total += (
                    folder_bytes(entry.path)
                    if inside
                    else entry.stat(follow_symlinks=False).st_size
                )
    return total

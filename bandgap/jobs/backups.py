"""Back up a data directory while its server runs. A backup is a data directory, too."""

import contextlib
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.jobs.home import Home, owner_only

# Files that are written as a whole and never changed, so that both folders can share them.
LINKED: Final = ("uploads", "datasets", "sources", "runs")
CHANGED: Final = ("checkpoints",)  # unfinished predictions grow


def back_up(home: Home, folder: Path) -> None:
    """Copy the database, and link or copy the files next to it, but not the cache.

    The database is first: what it names stays until it is deleted. A linked file takes no space
    until its original is deleted; on another disk it is copied. Raises InputError where the folder
    exists.
    """
    if folder.exists():
        raise InputError(f"{folder} exists already. Name a new folder for the backup.")
    with owner_only():
        folder.mkdir(parents=True)
        copy = Home(folder)
        with (
            contextlib.closing(sqlite3.connect(home.database)) as source,
            contextlib.closing(sqlite3.connect(copy.database)) as target,
        ):
            source.backup(target)
            target.execute("DELETE FROM lock")  # of the worker of the original
            target.commit()
        for name in (*LINKED, *CHANGED):
            for parent, folders, files in os.walk(home.folder / name):
                folders[:] = [one for one in folders if not one.startswith(".")]  # being written
                copied = folder / Path(parent).relative_to(home.folder)
                copied.mkdir()
                for file in files:
                    if not file.endswith(".part"):  # being written
                        _copy(Path(parent, file), copied / file, linked=name in LINKED)


def _copy(path: Path, to: Path, *, linked: bool) -> None:
    if linked:
        with contextlib.suppress(OSError):  # another disk, or one without links
            to.hardlink_to(path)
            return
    with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
        shutil.copy2(path, to)

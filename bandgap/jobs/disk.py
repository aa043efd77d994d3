"""How much room a workspace takes, and how much is left."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from bandgap.jobs.library import Library


@dataclass(frozen=True)
class Room:
    """Bytes: uploaded files and run folders of one workspace, the descriptor cache of all, and what is free."""

    uploads: int
    runs: int
    cache: int
    free: int


def room(library: Library, workspace: str) -> Room:
    """Return the room of a workspace; files that two data sets share count in both."""
    datasets = [d for purpose in ("training", "prediction") for d in library.datasets(workspace, purpose=purpose)]
    uploads = sum(file.n_bytes for dataset in datasets for file in library.files(dataset.id))
    runs = sum(folder_bytes(library.home.run_folder(run.id)) for run in library.runs(workspace))
    return Room(uploads, runs, folder_bytes(library.home.cache), shutil.disk_usage(library.home.cache).free)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files below a folder, 0 where there is none; files that vanish meanwhile count nothing."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:
            continue
    return total

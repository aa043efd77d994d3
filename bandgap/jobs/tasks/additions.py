"""The jobs that check a run or a source model that was made elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bandgap.foundation.errors import BandgapError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.added_runs import RUNS, check_run, list_run
from bandgap.jobs.added_sources import SOURCES, check_source
from bandgap.jobs.additions import Additions
from bandgap.jobs.disk import removed_on_failure
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job

Checked = TypeVar("Checked")


def add_run(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Unpack, check and list a run that was made elsewhere; on failure, remove its folder."""
    folder = home.run_folder(job.payload["run"])
    manifest = _checked(folder, RUNS, check_run, job=job, progress=progress)
    return list_run(Library(home), job, manifest)


def add_source(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Unpack and check a source model that was trained elsewhere; on failure, remove its folder."""
    folder = home.source_folder(job.payload["source"])
    _checked(folder, SOURCES, check_source, job=job, progress=progress)
    return {"folder": folder.name}


def _checked(
    folder: Path,
    additions: Additions,
    check: Callable[[Path], Checked],
    *,
    job: Job,
    progress: Progress,
) -> Checked:
    """Unpack a model and return what its check returns."""
    from bandgap.foundation.machine import set_threads

    set_threads()
    with removed_on_failure(folder):
        try:
            progress(Update(f"unpacking the {additions.noun}"))
            additions.unpack(folder)
            progress(Update(f"repeating the predictions that the {additions.noun} was stored with"))
            return check(folder)
        except BandgapError as error:
            # the user knows no folder of the server
            text = str(error).replace(str(folder), str(job.payload["name"]))
            raise type(error)(text) from error

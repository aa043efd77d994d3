"""The jobs that check a run or a source model that was made elsewhere."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bandgap.foundation.errors import BandgapError
from bandgap.foundation.progress import Update
from bandgap.jobs.added_runs import RUNS, check_run, list_run
from bandgap.jobs.added_sources import SOURCES, check_source
from bandgap.jobs.additions import Additions
from bandgap.jobs.disk import removed_on_failure
from bandgap.jobs.tasks.records import Work

Checked = TypeVar("Checked")


def add_run(work: Work) -> dict[str, Any]:
    """Unpack, check and list a run that was made elsewhere; on failure, remove its folder."""
    manifest = _checked(work, RUNS, check_run)
    return list_run(work.library, work.job, manifest)


def add_source(work: Work) -> dict[str, Any]:
    """Unpack and check a source model that was trained elsewhere; on failure, remove its folder."""
    _checked(work, SOURCES, check_source)
    return {"folder": work.job.subject}


def _checked(work: Work, additions: Additions, check: Callable[[Path], Checked]) -> Checked:
    """Unpack a model and return what its check returns."""
    from bandgap.foundation.machine import set_threads

    set_threads()
    folder = additions.folder_of(work.home, work.job.payload[additions.field])
    with removed_on_failure(folder):
        try:
            work.progress(Update(f"unpacking the {additions.noun}"))
            additions.unpack(folder)
            work.progress(
                Update(f"repeating the predictions that the {additions.noun} was stored with")
            )
            return check(folder)
        except BandgapError as error:
            # the user knows no folder of the server
            text = str(error).replace(str(folder), str(work.job.payload["name"]))
            raise type(error)(text) from error

"""The job that checks a run that was made elsewhere, and adds it to the list of runs."""

from typing import Any

from bandgap.foundation.errors import BandgapError
from bandgap.foundation.progress import Progress, Update
from bandgap.jobs.added_runs import check_run, list_run, unpack
from bandgap.jobs.disk import removed_on_failure
from bandgap.jobs.home import Home
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job


def add_run(job: Job, home: Home, progress: Progress) -> dict[str, Any]:
    """Unpack, check and list a run that was made elsewhere; on failure, remove its folder."""
    from bandgap.foundation.machine import set_threads

    set_threads()
    folder = home.run_folder(job.payload["run"])
    with removed_on_failure(folder):
        try:
            progress(Update("unpacking the run"))
            unpack(folder)
            progress(Update("repeating the predictions that the run was stored with"))
            manifest = check_run(folder)
        except BandgapError as error:
            # the user knows no folder of the server
            text = str(error).replace(str(folder), str(job.payload["name"]))
            raise type(error)(text) from error
    return list_run(Library(home), job, manifest)

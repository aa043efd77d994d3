"""Add a run or a source model that was made elsewhere to a workspace.

Its files are stored in a folder of the data directory. A job unpacks and loads them and recomputes
the stored predictions; where that fails, the folder is removed. Nothing is unpickled
(`bandgap.storage.model_archives`).
"""

import hashlib
import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from bandgap.jobs.deletions import make_room
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import Home, owner_only
from bandgap.jobs.housekeeping import checked_name
from bandgap.jobs.library import Library
from bandgap.jobs.store import Job, JobStore
from bandgap.storage.model_archives import ModelArchives

ARCHIVE: Final = "upload.zip"  # in the model's folder until the worker unpacks it


@dataclass(frozen=True)
class Additions:
    """How models of one kind are added.

    Attributes
    ----------
    noun
        Kind of model, as in the bin.
    field
        Name of the model's id in the payload of the job "add_{field}".
    archives
        The zip archives of such models.
    folder_of
        Returns the folder of a model by its id.
    """

    noun: Literal["run", "source model"]
    field: Literal["run", "source"]
    archives: ModelArchives
    folder_of: Callable[[Home, str], Path]

    @property
    def kind(self) -> str:
        """The kind of the job."""
        return f"add_{self.field}"

    def add_archive(
        self, jobs: JobStore, library: Library, workspace: str, data: bytes, *, name: str
    ) -> Job:
        """Store a zip archive and queue its check; the same archive gives the same job.

        Raises InputError for an archive without such a model, over the limits or over the quota of
        the workspace, and for a name that is empty or too long.
        """
        title = checked_name(name)
        model_id = str(uuid.uuid5(uuid.UUID(workspace), hashlib.sha256(data).hexdigest()))
        earlier = jobs.latest(workspace, model_id, self.kind)
        if earlier is not None and earlier.is_current:
            return earlier
        n_bytes = self.archives.unpacked_bytes(data, name=name)
        check_quota(library, workspace, adding=n_bytes)
        folder = self.folder_of(library.home, model_id)
        with jobs.database.writing(), owner_only():
            job = jobs.start(
                workspace,
                self.kind,
                title=f"Checking the {self.noun} {title}",
                payload={self.field: model_id, "name": title},
                subject=model_id,
            )
            make_room(jobs, library, self.noun, model_id)
            shutil.rmtree(folder, ignore_errors=True)  # of a check that was cancelled
            folder.mkdir(parents=True)
            (folder / ARCHIVE).write_bytes(data)
        return job

    def unpack(self, folder: Path) -> None:
        """Unpack the archive in the folder of an added model, if there is one, and remove it."""
        archive = folder / ARCHIVE
        if archive.is_file():
            self.archives.unpack(archive, folder, name="The upload")
            archive.unlink()

"""Add a source model that was trained elsewhere to a workspace: its folder, or a zip archive of it.

Its files are copied into a folder of the data directory. Then a job loads every network and
recomputes its stored predictions; where that fails, the folder is removed. Only manifests and
safetensors are copied, as nothing else belongs to a source model and nothing is unpickled.
"""

import hashlib
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.jobs.deletions import make_room
from bandgap.jobs.disk import check_quota
from bandgap.jobs.home import owner_only
from bandgap.jobs.library import Library
from bandgap.jobs.server_files import files_below
from bandgap.jobs.store import Job, JobStore
from bandgap.storage.manifests import MANIFEST, manifest_kind
from bandgap.storage.model_archives import ModelArchives
from bandgap.structures.records import Limits

KINDS: Final = ("source", "sources")  # of manifests: one set, or several sets or networks
SUFFIXES: Final = (".json", ".safetensors")
ARCHIVE: Final = "upload.zip"  # in the source's folder until the worker unpacks it
_REMEDY: Final = (
    "Give the folder that `bandgap train-source` or `bandgap train-sources` wrote (--out)"
)
_ARCHIVES: Final = ModelArchives(
    noun="source model",
    kinds=KINDS,
    belongs=lambda path: path.suffix in SUFFIXES,
    limits=Limits(max_file_bytes=400_000_000, max_archive_bytes=400_000_000),
    accepted=f"{_REMEDY}, as a zip.",
)


def add_folder(
    jobs: JobStore, library: Library, workspace: str, folder: Path, *, name: str = ""
) -> Job:
    """Copy the folder of a source model into the data directory and queue its check.

    The same folder again gives the same job. Raises InputError where the folder contains no source
    model, and over the workspace's quota.
    """
    kind = manifest_kind(folder)
    if kind not in KINDS:
        content = f"is the folder of a {kind}" if kind else f"has no readable {MANIFEST}"
        raise InputError(f"{folder} {content}, not of a source model. {_REMEDY}.")
    files = [
        (text, path) for text, path in files_below(folder, base=folder) if path.suffix in SUFFIXES
    ]
    digest = hashlib.sha256()
    for text, path in files:
        with path.open("rb") as file:
            digest.update(f"{text}\0".encode() + hashlib.file_digest(file, "sha256").digest())

    def write(out: Path) -> None:
        for text, path in files:
            (out / text).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, out / text)

    n_bytes = sum(path.stat().st_size for _, path in files)
    return _added(
        jobs, library, workspace, name or folder.resolve().name, digest.hexdigest(), n_bytes, write
    )


def add_archive(jobs: JobStore, library: Library, workspace: str, data: bytes, *, name: str) -> Job:
    """Store a zip archive of such a folder and queue its check; the same archive is the same job.

    Raises InputError over the workspace's quota.
    """
    digest = hashlib.sha256(data).hexdigest()
    return _added(
        jobs,
        library,
        workspace,
        name,
        digest,
        _ARCHIVES.unpacked_bytes(data, name=name),
        lambda out: (out / ARCHIVE).write_bytes(data),
    )


def _added(
    jobs: JobStore,
    library: Library,
    workspace: str,
    name: str,
    content: str,
    n_bytes: int,
    write: Callable[[Path], object],
) -> Job:
    """Write the folder of a source and queue its check, unless one is active or has passed."""
    source = str(uuid.uuid5(uuid.UUID(workspace), content))
    earlier = jobs.latest(workspace, source)
    if earlier is not None and (earlier.active or earlier.state == "finished"):
        return earlier
    check_quota(library, workspace, adding=n_bytes)
    make_room(jobs, library, "source model", source)
    folder = library.home.source_folder(source)
    shutil.rmtree(folder, ignore_errors=True)  # of a check that was cancelled while it waited
    with owner_only():
        folder.mkdir(parents=True)
        write(folder)
    return jobs.submit(
        workspace,
        "add_source",
        title=f"Checking the source model {name}",
        payload={"source": source, "name": name},
        subject=source,
        submit_key=f"add-{source}-{earlier.id if earlier else 'first'}",
    )


def unpack(folder: Path) -> None:
    """Unpack the archive in the folder of an added source, if there is one, and remove it.

    The source model is the folder of the archive's outermost manifest; other files are left out.
    Raises InputError as `ModelArchives.unpack`.
    """
    archive = folder / ARCHIVE
    if not archive.is_file():
        return
    _ARCHIVES.unpack(archive, folder, name="The upload")
    archive.unlink()


def check_source(folder: Path) -> None:
    """Load every network of a source model and recompute its stored predictions.

    Raises ArtifactError where it is damaged, InputError where it names files outside of its folder
    or its learning curve is not of numbers, and ConfigError where an extra that it needs is not
    installed.
    """
    from bandgap.sources.sets import open_sources

    sources = open_sources(folder)
    top = folder.resolve()
    if not all(
        path.resolve().is_relative_to(top) for member in sources.members for path in member.values()
    ):
        raise InputError(
            f"The {MANIFEST} of the source model names a folder outside of its own. {_REMEDY}."
        )
    for member in sources.load():
        for model in member.values():
            curve = [value for epoch in model.history for value in (epoch.train, epoch.validation)]
            if not all(isinstance(value, (int, float)) for value in curve):
                raise InputError(
                    f"The errors by epoch in the source model's {MANIFEST} are "
                    f"no numbers. {_REMEDY}."
                )

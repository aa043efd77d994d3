"""The data directory: one SQLite file and the folders for runs, caches and uploads, all of them for their owner alone.

Folders and files made here are 0700 and 0600; what a job writes is so by `owner_only`, its umask.
"""

import contextlib
import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from bandgap.foundation.config import fingerprint
from bandgap.foundation.errors import InputError

log = logging.getLogger(__name__)

OTHERS = 0o077  # the rights of group and others, which nothing here has
PARTIAL_S = 3600.0  # after this time an unfinished write was given up
SHAPES = "shapes.safetensors"

_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f-]{8,64}")


@dataclass(frozen=True)
class Home:
    """Places below the data directory; folders are made when they are first needed."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "bandgap.sqlite3"

    @property
    def cache(self) -> Path:
        return _made(self.folder / "cache")

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of a run; it need not exist yet.

        Raises InputError when `run_id` is not one of ours, so that no address can point outside of `runs/`.
        """
        return self.folder / "runs" / _checked_id(run_id)

    def source_folder(self, source_id: str) -> Path:
        """Return the folder of a source model that was trained here; it need not exist yet."""
        return self.folder / "sources" / _checked_id(source_id)

    def checkpoint_folder(self, work: str) -> Path:
        """Return the folder of what an unfinished job left to go on from; `work` is the fingerprint of what it does."""
        return self.folder / "checkpoints" / _checked_id(work)

    def drop_checkpoints(self, *, older_than_s: float) -> None:
        """Remove the checkpoints that were written longer ago than this; their jobs will not be started again."""
        for folder in (self.folder / "checkpoints").glob("*"):
            written = [path.stat().st_mtime for path in (folder, *folder.glob("*"))]
            if time.time() - max(written) > older_than_s:
                shutil.rmtree(folder, ignore_errors=True)

    def dataset_folder(self, dataset_id: str) -> Path:
        """Return the folder of what was computed from a data set's files; it need not exist yet."""
        return self.folder / "datasets" / _checked_id(dataset_id)

    def prediction_folder(self, run_id: str, prediction_id: str) -> Path:
        """Return the folder of one prediction made with a run."""
        return self.run_folder(run_id) / "predictions" / _checked_id(prediction_id)

    def save_upload(self, data: bytes) -> str:
        """Store uploaded bytes under the SHA-256 of their content and return it; the same bytes are stored once.

        A stored file that was damaged is written anew, for all data sets that name it.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = _made(self.folder / "uploads") / digest
        if path.exists() and path.read_bytes() == data:
            path.touch()  # what is new is not removed with a data set that is deleted at this moment
        else:
            _write(path, data)
        return digest

    def drop_uploads(self, digests: Iterable[str], *, older_than_s: float) -> None:
        """Remove stored uploads that were last asked for longer ago than this, and what unfinished writes left."""
        folder = self.folder / "uploads"
        for path in [
            *(folder / digest for digest in digests if _HASH.fullmatch(digest)),
            *folder.glob("*.part"),
        ]:
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > (
                    PARTIAL_S if path.suffix else older_than_s
                ):
                    path.unlink()

    def read_upload(self, digest: str) -> bytes:
        """Return the bytes that were stored under `digest`.

        Raises InputError when there are none, or others.
        """
        path = self.folder / "uploads" / digest
        if not _HASH.fullmatch(digest) or not path.is_file():
            raise InputError(
                f"The uploaded file {digest[:12]} is no longer in {path.parent}. Upload it again."
            )
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise InputError(
                f"The uploaded file {digest[:12]} in {path.parent} is damaged: its {len(data):,} bytes are not those "
                "that were uploaded. Upload it again; the data sets that hold it are then whole."
            )
        return data


def shapes_path(home: Home, dataset_id: str) -> Path:
    """Return where the shapes of a data set are kept."""
    return home.dataset_folder(dataset_id) / SHAPES


def domain_paths(home: Home, dataset_id: str, source: str) -> tuple[Path, Path]:
    """Return where the judgement of a data set by a source is kept: the table (CSV) and its summary (JSON)."""
    stem = f"domain-{fingerprint({'source': source})[:16]}"
    folder = home.dataset_folder(dataset_id)
    return folder / f"{stem}.csv", folder / f"{stem}.json"


def open_home(folder: Path | str | None = None) -> Home:
    """Return the data directory: `folder`, else `$BANDGAP_HOME`, else the platform's user data folder.

    One from before that others may read is closed to them; one that belongs to somebody else is warned of.
    """
    chosen = (
        folder
        or os.environ.get("BANDGAP_HOME")
        or platformdirs.user_data_dir("bandgap", appauthor=False)
    )
    home = Home(_made(Path(chosen).expanduser().resolve()))
    ours = home.database.exists() or not any(
        home.folder.iterdir()
    )  # else it was named by mistake: ~ or /tmp
    for path in (home.folder, *home.folder.glob(f"{home.database.name}*")) if ours else ():
        _close_to_others(path)
    return home


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Let what this process makes meanwhile be the owner's alone, by its umask."""
    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder {folder}: {error.strerror}. Set BANDGAP_HOME to a folder that can be written."
        ) from error
    return folder


def _close_to_others(path: Path) -> None:
    """Take from others what rights they have; on Windows files have none of this kind."""
    mode = path.stat().st_mode & 0o7777
    if os.name != "posix" or not mode & OTHERS:
        return
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        log.warning(
            "Other users of this machine may read %s (mode %03o), which cannot be changed: %s. Its owner can, by "
            "chmod go-rwx; or set BANDGAP_HOME to a folder of your own.",
            path,
            mode,
            error.strerror,
        )


def _write(path: Path, data: bytes) -> None:
    partial = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with open(partial, "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(data)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise InputError(
            f"The file cannot be stored in {path.parent}: {error.strerror}. Nothing that was stored before is lost; "
            "free some disk space and upload again."
        ) from error


def _checked_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise InputError(f"{text!r} is not the id of a run. Choose one from the list.")
    return text

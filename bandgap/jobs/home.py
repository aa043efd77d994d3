"""The data directory: one SQLite file and the folders for runs, caches and uploads.

Only their owner has access: folders are 0700 and files 0600. What a job writes gets these rights by
its umask (`owner_only`).
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

from bandgap.foundation.errors import InputError

log = logging.getLogger(__name__)

OTHERS = 0o077  # the rights of group and others; no file here has them
PARTIAL_S = 3600.0  # an unfinished write that is older was abandoned
SHAPES = "shapes.safetensors"
LAST_CHECKPOINT = "checkpoint"  # in the folder of a finished run
FINISHED_KEPT_S = 3 * 86_400.0  # it takes as much space as the run itself

_HASH = re.compile(r"[0-9a-f]{64}")
_ID = re.compile(r"[0-9a-f-]{8,64}")


@dataclass(frozen=True)
class Home:
    """Paths below the data directory; folders are made when they are first needed."""

    folder: Path

    @property
    def database(self) -> Path:
        return self.folder / "bandgap.sqlite3"

    @property
    def cache(self) -> Path:
        return _make_folder(self.folder / "cache")

    def run_folder(self, run_id: str) -> Path:
        """Return the folder of a run; it need not exist yet.

        Raises InputError when `run_id` does not have the form of an id, so that no address can
        point outside of `runs/`.
        """
        return self.folder / "runs" / _checked_id(run_id)

    def source_folder(self, source_id: str) -> Path:
        """Return the folder of a source model that was trained here; it need not exist yet."""
        return self.folder / "sources" / _checked_id(source_id)

    def checkpoint_folder(self, work: str) -> Path:
        """Return the folder from which an unfinished job resumes.

        `work` is the fingerprint of what the job computes.
        """
        return self.folder / "checkpoints" / _checked_id(work)

    def last_checkpoint(self, run_id: str) -> Path:
        """Return the folder of the last checkpoint of a finished run; it need not exist."""
        return self.run_folder(run_id) / LAST_CHECKPOINT

    def drop_checkpoints(self, *, older_than_s: float) -> None:
        """Remove the checkpoints of unfinished runs whose last write is older than this.

        Those of finished runs are removed after `FINISHED_KEPT_S`.
        """
        for pattern, limit_s in (
            ("checkpoints/*", older_than_s),
            (f"runs/*/{LAST_CHECKPOINT}", FINISHED_KEPT_S),
        ):
            for folder in self.folder.glob(pattern):
                write_times = [path.stat().st_mtime for path in (folder, *folder.glob("*"))]
                if time.time() - max(write_times) > limit_s:
                    shutil.rmtree(folder, ignore_errors=True)

    def dataset_folder(self, dataset_id: str) -> Path:
        """Return the folder of files computed from a data set; it need not exist yet."""
        return self.folder / "datasets" / _checked_id(dataset_id)

    def prediction_folder(self, run_id: str, prediction_id: str) -> Path:
        """Return the folder of one prediction made with a run."""
        return self.run_folder(run_id) / "predictions" / _checked_id(prediction_id)

    def save_upload(self, data: bytes) -> str:
        """Store uploaded bytes under the SHA-256 of their content and return it.

        The same bytes are stored once. A damaged file is replaced, for all data sets that use it.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = _make_folder(self.folder / "uploads") / digest
        if path.exists() and path.read_bytes() == data:
            path.touch()  # a data set that is deleted at this moment does not remove a new file
        else:
            _write(path, data)
        return digest

    def drop_uploads(self, digests: Iterable[str], *, older_than_s: float) -> None:
        """Remove stored uploads whose last upload is older than this, and unfinished writes."""
        folder = self.folder / "uploads"
        for path in [
            *(folder / digest for digest in digests if _HASH.fullmatch(digest)),
            *folder.glob("*.part"),
        ]:
            limit_s = PARTIAL_S if path.suffix else older_than_s
            with contextlib.suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > limit_s:
                    path.unlink()

    def upload_path(self, digest: str) -> Path:
        """Return the path of an upload. Raises InputError as `read_upload`."""
        self.read_upload(digest)
        return self.folder / "uploads" / digest

    def read_upload(self, digest: str) -> bytes:
        """Return the bytes that were stored under `digest`.

        Raises InputError when there are none, or when they have changed.
        """
        path = self.folder / "uploads" / digest
        if not _HASH.fullmatch(digest) or not path.is_file():
            raise InputError(
                f"The uploaded file {digest[:12]} is no longer in {path.parent}. Upload it again."
            )
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise InputError(
                f"The uploaded file {digest[:12]} in {path.parent} is damaged: its {len(data):,} "
                "bytes are not those that were uploaded. Upload it again; this repairs all data "
                "sets that contain it."
            )
        return data


def shapes_path(home: Home, dataset_id: str) -> Path:
    """Return the path of the shapes of a data set."""
    return home.dataset_folder(dataset_id) / SHAPES


def calculation_paths(home: Home, dataset_id: str) -> tuple[Path, Path]:
    """Return the paths of what was read from calculations: table (JSON), structures (extXYZ)."""
    folder = home.dataset_folder(dataset_id)
    return folder / "calculations.json", folder / "calculations.extxyz"


def open_home(folder: Path | str | None = None) -> Home:
    """Return the data directory: `folder`, `$BANDGAP_HOME` or the platform's user data folder.

    Where other users may read it, their rights are removed; where that fails, a warning is logged.
    """
    path = (
        folder
        or os.environ.get("BANDGAP_HOME")
        or platformdirs.user_data_dir("bandgap", appauthor=False)
    )
    home = Home(_make_folder(Path(path).expanduser().resolve()))
    # a folder with other contents, such as ~ or /tmp, was given by mistake: its rights stay
    is_data_directory = home.database.exists() or not any(home.folder.iterdir())
    if is_data_directory:
        for private_path in (home.folder, *home.folder.glob(f"{home.database.name}*")):
            _remove_rights_of_others(private_path)
    return home


@contextlib.contextmanager
def owner_only() -> Iterator[None]:
    """Set the umask of this process in this context, so that only the owner may use new files."""
    previous = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(previous)


def _make_folder(folder: Path) -> Path:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder {folder}: {error.strerror}. "
            "Set BANDGAP_HOME to a folder that can be written."
        ) from error
    return folder


def _remove_rights_of_others(path: Path) -> None:
    """Remove the rights of group and others; nothing happens on Windows."""
    try:
        mode = path.stat().st_mode & 0o7777
    except FileNotFoundError:  # SQLite has removed its log
        return
    if os.name != "posix" or not mode & OTHERS:
        return
    try:
        path.chmod(mode & ~OTHERS)
    except OSError as error:
        log.warning(
            "Other users of this machine may read %s (mode %03o), which cannot be changed: %s. "
            "Its owner can, by chmod go-rwx; or set BANDGAP_HOME to a folder of your own.",
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
            f"The file cannot be stored in {path.parent}: {error.strerror}. Nothing that was "
            "stored before is lost; free some disk space and upload again."
        ) from error


def _checked_id(text: str) -> str:
    if not _ID.fullmatch(text):
        raise InputError(f"{text!r} is not the id of a run. Choose one from the list.")
    return text

"""A run as one zip archive, to move it to another machine or workspace.

The archive has the files that a prediction and the result need, in one folder. Predictions of other
structures and checkpoints stay behind. Nothing is unpickled and no other file is unpacked.
"""

import contextlib
import fnmatch
import io
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from bandgap.foundation.damage import DAMAGE
from bandgap.foundation.errors import BandgapError, InputError
from bandgap.storage.manifests import CALIBRATOR, LEARNING_CURVE, MANIFEST, manifest_kind

PATTERNS = (MANIFEST, "*.safetensors", "predictions.csv", CALIBRATOR, LEARNING_CURVE)
MAX_BYTES = 4_000_000_000  # of all files together
_STORED = (".safetensors",)  # float tensors shrink little and take long
_ACCEPTED = (
    "Accepted: the zip of a run that the page Result offers, or of a folder that `bandgap "
    "transfer` wrote."
)


def run_archive(folder: Path, *, name: str = "run") -> bytes:
    """Return a zip archive of a run; its files are in a folder of this name.

    Raises InputError where the folder is not that of a run.
    """
    if manifest_kind(folder) != "run":
        raise InputError(f"{folder} is not the folder of a run: it has no readable {MANIFEST}.")
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file() and _belongs(path.name):
                is_stored = path.suffix in _STORED
                archive.write(
                    path,
                    f"{name}/{path.name}",
                    compress_type=zipfile.ZIP_STORED if is_stored else zipfile.ZIP_DEFLATED,
                )
    return buffer.getvalue()


@contextlib.contextmanager
def opened_run(path: Path) -> Iterator[Path]:
    """Yield the folder of a run: `path` itself, or the content of the zip archive `path`.

    The archive is unpacked to a temporary folder, which is removed at the end. Errors that name
    this folder name the archive instead. Raises InputError as `unpack_run`.
    """
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="bandgap-run-") as temporary:
        folder = Path(temporary) / path.stem
        folder.mkdir()
        unpack_run(path, folder)
        try:
            yield folder
        except BandgapError as error:
            if str(folder) not in str(error):
                raise
            raise type(error)(str(error).replace(str(folder), str(path))) from error


def unpack_run(source: Path | io.BytesIO, folder: Path) -> None:
    """Write the run in a zip archive to an existing folder.

    The run is the folder of the outermost manifest of kind run. Raises InputError where there is
    none, where the archive is damaged, and where it is larger than `MAX_BYTES`.
    """
    name = source.name if isinstance(source, Path) else "The upload"
    try:
        with zipfile.ZipFile(source) as archive:
            _unpack(archive, folder, name=name)
    except (zipfile.BadZipFile, *DAMAGE) as error:
        raise InputError(
            f"{name}: not a zip archive that can be unpacked ({error}). {_ACCEPTED}"
        ) from error
    kind = manifest_kind(folder)
    if kind != "run":
        content = f"a {kind}" if kind else f"no readable {MANIFEST}"
        raise InputError(f"{name}: contains {content}, not a run. {_ACCEPTED}")


def unpacked_bytes(source: io.BytesIO, *, name: str) -> int:
    """Return how many bytes the run in a zip archive takes, without unpacking it.

    Raises InputError where the archive is damaged or too large, and where it has no manifest.
    """
    try:
        with zipfile.ZipFile(source) as archive:
            members = _members(archive, name=name)
    except (zipfile.BadZipFile, *DAMAGE) as error:
        raise InputError(
            f"{name}: not a zip archive that can be read ({error}). {_ACCEPTED}"
        ) from error
    if not members:
        raise InputError(f"{name}: contains no {MANIFEST}, so it is not a run. {_ACCEPTED}")
    return sum(entry.file_size for entry in members)


def _unpack(archive: zipfile.ZipFile, folder: Path, *, name: str) -> None:
    for entry in _members(archive, name=name):
        target = folder / PurePosixPath(entry.filename).name
        with archive.open(entry) as source, target.open("wb") as file:
            while block := source.read(1 << 20):  # zipfile stops at the stated size
                file.write(block)


def _members(archive: zipfile.ZipFile, *, name: str) -> list[zipfile.ZipInfo]:
    """Return the files of the run with the outermost manifest, none where there is no manifest."""
    entries = [entry for entry in archive.infolist() if not entry.is_dir()]
    manifests = [
        entry.filename for entry in entries if PurePosixPath(entry.filename).name == MANIFEST
    ]
    if not manifests:
        return []
    top = PurePosixPath(min(manifests, key=lambda text: text.count("/"))).parent
    members = [
        entry
        for entry in entries
        if PurePosixPath(entry.filename).parent == top
        and _belongs(PurePosixPath(entry.filename).name)
    ]
    total = sum(entry.file_size for entry in members)
    if total > MAX_BYTES:
        raise InputError(
            f"{name}: unpacked it would have {total / 1e9:.1f} GB; at most {MAX_BYTES / 1e9:.0f} "
            "GB are accepted."
        )
    return members


def _belongs(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PATTERNS)

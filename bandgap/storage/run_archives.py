"""A run as one zip archive, to move it to another machine or workspace.

The archive has the files that a prediction and the result need, in one folder. Predictions of other
structures and checkpoints stay behind. Nothing is unpickled and no other file is unpacked.
"""

import contextlib
import fnmatch
import io
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from bandgap.foundation.errors import BandgapError
from bandgap.storage.manifests import CALIBRATOR, LEARNING_CURVE, MANIFEST
from bandgap.storage.model_archives import ModelArchives
from bandgap.structures.records import Limits

PATTERNS = (MANIFEST, "*.safetensors", "predictions.csv", CALIBRATOR, LEARNING_CURVE)


def run_archive(
    folder: Path, *, name: str = "run", inputs: Mapping[str, Path | bytes] | None = None
) -> bytes:
    """Return a zip archive of a run; its files are in a folder of this name.

    `inputs` are further files by their paths in that folder, which `opened_run` leaves packed.
    Raises InputError where the folder is not that of a run.
    """
    buffer = io.BytesIO(RUN_ARCHIVES.packed(folder, name=name))
    with zipfile.ZipFile(buffer, "a", zipfile.ZIP_DEFLATED) as archive:
        for place, content in (inputs or {}).items():
            data = content if isinstance(content, bytes) else content.read_bytes()
            archive.writestr(f"{name}/{place}", data)
    return buffer.getvalue()


@contextlib.contextmanager
def opened_run(path: Path) -> Iterator[Path]:
    """Yield the folder of a run: `path` itself, or the content of the zip archive `path`.

    The archive is unpacked to a temporary folder, which is removed at the end. Errors that name
    this folder name the archive instead. Raises InputError as
    `ModelArchives.unpack`.
    """
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="bandgap-run-") as temporary:
        folder = Path(temporary) / path.stem
        folder.mkdir()
        RUN_ARCHIVES.unpack(path, folder, name=path.name)
        try:
            yield folder
        except BandgapError as error:
            if str(folder) not in str(error):
                raise
            raise type(error)(str(error).replace(str(folder), str(path))) from error


def _belongs(name: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in PATTERNS)


RUN_ARCHIVES = ModelArchives(
    noun="run",
    kinds=("run",),
    belongs=lambda path: len(path.parts) == 1 and _belongs(path.name),
    limits=Limits(max_file_bytes=4_000_000_000, max_archive_bytes=4_000_000_000),
    accepted="Accepted: the zip of a run that the page Result offers, or of a folder that `bandgap "
    "transfer` wrote.",
)

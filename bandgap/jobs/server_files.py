"""Files in the one folder of the server from which source models may be trained: `BANDGAP_SOURCE_FOLDER`.

A file is named by a visitor and opened by the worker, so a name is a name alone: no folders, no way out by links.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bandgap.foundation.errors import InputError

VARIABLE = "BANDGAP_SOURCE_FOLDER"
SUFFIXES = (".json", ".json.gz")
MAX_FILE_BYTES = 2_000_000_000  # df_62k.json has 290 MB
MAX_LISTED = 200


@dataclass(frozen=True)
class ServerFile:
    """A file that is offered: its name and size."""

    name: str
    n_bytes: int


def allowed_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder, None where the server offers none.

    Raises InputError when the variable names something that is no folder.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise InputError(f"{VARIABLE} names {folder}, which is no folder here. Whoever runs this server can set it.")
    return folder.resolve()


def offered_files(folder: Path) -> list[ServerFile]:
    """Return the files of the folder that may be opened, by name; what may not is left out."""
    found = []
    for path in sorted(folder.iterdir()):
        try:
            found.append(ServerFile(path.name, checked_file(folder, path.name).stat().st_size))
        except (InputError, OSError):
            continue
    return found[:MAX_LISTED]


def checked_file(folder: Path, name: str) -> Path:
    """Return the real path of a file of the folder.

    Raises InputError for a name with folders in it, a link that leads out, what is no file, another kind of file, and
    one over the limit.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise InputError(
            f"{name!r} is not the name of a file. Accepted: a file of the server's folder, without a path."
        )
    if not name.lower().endswith(SUFFIXES):
        raise InputError(f"{name}: accepted are {' and '.join(SUFFIXES)} files in the layout of OE62.")
    try:
        path = (folder / name).resolve(strict=True)
        state = path.stat()
    except OSError:
        raise InputError(f"{name}: the server's folder has no such file. Choose one from the list.") from None
    if not path.is_relative_to(folder.resolve()):
        raise InputError(f"{name} is a link that leads out of the server's folder. Put the file itself there.")
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{name} is not a file. Choose one from the list.")
    if state.st_size > MAX_FILE_BYTES:
        raise InputError(
            f"{name} has {state.st_size / 1e9:.1f} GB; at most {MAX_FILE_BYTES / 1e9:.0f} GB are accepted. "
            "Use `bandgap train-source --oe62` in a shell on this machine."
        )
    return path

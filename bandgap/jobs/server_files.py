"""Files of the server that users may choose: one folder for data, another for training sources.

No folder is offered unless an environment variable names it. The user gives a name and the worker
opens the file, so a name must contain no folder and lead to no file outside by a link.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bandgap.foundation.errors import InputError

VARIABLE = "BANDGAP_SOURCE_FOLDER"
DATA_VARIABLE = "BANDGAP_DATA_FOLDER"  # for what is too large to upload
SUFFIXES = (".json", ".json.gz")
MAX_FILE_BYTES = 2_000_000_000  # df_62k.json has 290 MB
MAX_LISTED = 200
MAX_ENTRIES = 1_000  # of the folder for data


@dataclass(frozen=True)
class ServerFile:
    """A file that is offered: its name and size."""

    name: str
    n_bytes: int


def allowed_folder(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder for training sources, None where the server offers none.

    Raises InputError when the variable does not name a folder.
    """
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return None
    folder = Path(text).expanduser()
    if not folder.is_dir():
        raise InputError(
            f"{VARIABLE} names {folder}, which is no folder here. Whoever runs "
            "this server can set it."
        )
    return folder.resolve()


def offered_files(folder: Path) -> list[ServerFile]:
    """Return the files of the folder that may be opened, by name; all others are left out."""
    files = []
    for path in sorted(folder.iterdir()):
        try:
            files.append(ServerFile(path.name, checked_file(folder, path.name).stat().st_size))
        except (InputError, OSError):
            continue
    return files[:MAX_LISTED]


def checked_file(folder: Path, name: str) -> Path:
    """Return the real path of a file of the folder.

    Raises InputError for a name with a path, a link out of the folder, a file of another kind, one
    over the limit of size, and where there is no such file.
    """
    if not name or name in (".", "..") or "/" in name or "\\" in name or "\0" in name:
        raise InputError(
            f"{name!r} is not the name of a file. Accepted: a file of the server's "
            "folder, without a path."
        )
    if not name.lower().endswith(SUFFIXES):
        raise InputError(
            f"{name}: accepted are {' and '.join(SUFFIXES)} files in the layout of OE62."
        )
    try:
        path = (folder / name).resolve(strict=True)
        state = path.stat()
    except OSError:
        raise InputError(
            f"{name}: the server's folder has no such file. Choose one from the list."
        ) from None
    if not path.is_relative_to(folder.resolve()):
        raise InputError(
            f"{name} is a link that leads out of the server's folder. Put the file itself there."
        )
    if not stat.S_ISREG(state.st_mode):
        raise InputError(f"{name} is not a file. Choose one from the list.")
    if state.st_size > MAX_FILE_BYTES:
        raise InputError(
            f"{name} has {state.st_size / 1e9:.1f} GB; at most {MAX_FILE_BYTES / 1e9:.0f} GB are "
            "accepted. Use `bandgap train-source --oe62` in a shell on this machine."
        )
    return path


def data_folder() -> Path | None:
    """Return the folder that $BANDGAP_DATA_FOLDER names, None where there is none."""
    text = os.environ.get(DATA_VARIABLE, "")
    folder = Path(text).expanduser()
    return folder.resolve() if text and folder.is_dir() else None


def entries() -> list[str]:
    """Return the sorted names of files and folders in the folder for data.

    Hidden ones and links are left out.
    """
    folder = data_folder()
    if folder is None:
        return []
    try:
        names = [
            path.name
            for path in folder.iterdir()
            if not path.name.startswith(".") and not path.is_symlink()
        ]
    except OSError:
        return []
    return sorted(names)[:MAX_ENTRIES]


def files_of(name: str) -> list[tuple[str, Path]]:
    """Return name and path of every file of an entry: the file, or the files below the folder.

    Links are left out. Raises InputError when the name is not one of `entries()`.
    """
    folder = data_folder()
    if folder is None or name not in entries():
        raise InputError(
            f"{name!r} is not in the server's folder for data. Choose one of the names in the "
            f"list; who runs the server sets the folder with {DATA_VARIABLE}."
        )
    return files_below(folder / name, base=folder)


def files_below(top: Path, *, base: Path) -> list[tuple[str, Path]]:
    """Return a file, or the files of a folder in a fixed order, with names relative to `base`.

    Hidden files and links are left out.
    """
    if not top.is_dir():
        return [(top.relative_to(base).as_posix(), top)] if _is_file(top) else []
    paths = []
    for parent, folders, files in os.walk(top):  # does not follow links
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        paths += [Path(parent, file) for file in sorted(files) if not file.startswith(".")]
    return [(path.relative_to(base).as_posix(), path) for path in paths if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False

"""Files of the server that users may choose: one folder for data, another for training sources.

No folder is offered unless an environment variable names it. The user gives a name and the worker
opens the file, so a name must contain no folder and lead to no file outside by a link.
"""

import os
import stat
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


def allowed_folder() -> Path | None:
    """Return the folder for training sources, None where the server offers none.

    Raises InputError when the variable does not name a folder.
    """
    text = os.environ.get(VARIABLE, "").strip()
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
    top = folder.resolve()
    files = [
        ServerFile(path.name, path.stat().st_size)
        for path in sorted(folder.iterdir())
        if path.name.lower().endswith(SUFFIXES)
        and path.is_file()
        and path.resolve().is_relative_to(top)
    ]
    return [file for file in files if file.n_bytes <= MAX_FILE_BYTES][:MAX_LISTED]


def checked_file(folder: Path, name: str) -> Path:
    """Return the real path of an offered file; raises InputError for any other name."""
    if name not in {file.name for file in offered_files(folder)}:
        raise InputError(
            f"{name!r} is none of the files that this server offers: {' and '.join(SUFFIXES)} "
            f"files of its folder, of at most {MAX_FILE_BYTES / 1e9:.0f} GB, and no links that "
            "lead out of it. Choose one from the list, or use `bandgap train-source --oe62` in a "
            "shell on this machine."
        )
    return (folder / name).resolve()


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

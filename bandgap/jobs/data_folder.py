"""The folder of the server that visitors may take data from, for what is too large to upload; closed unless named."""

import os
import stat
from pathlib import Path

from bandgap.foundation.errors import InputError

VARIABLE = "BANDGAP_DATA_FOLDER"
MAX_ENTRIES = 1_000


def data_folder() -> Path | None:
    """Return the folder that $BANDGAP_DATA_FOLDER names, None where none is named or it is not there."""
    text = os.environ.get(VARIABLE, "")
    folder = Path(text).expanduser()
    return folder.resolve() if text and folder.is_dir() else None


def entries() -> list[str]:
    """Return the names of the files and folders that stand directly in the server's folder, sorted; hidden ones not."""
    folder = data_folder()
    if folder is None:
        return []
    try:
        names = [path.name for path in folder.iterdir() if not path.name.startswith(".") and not path.is_symlink()]
    except OSError:
        return []
    return sorted(names)[:MAX_ENTRIES]


def files_of(name: str) -> list[tuple[str, Path]]:
    """Return name and path of every file of an entry: the file, or those below the folder; links are left out.

    Raises InputError when the name is not one of `entries()`.
    """
    folder = data_folder()
    if folder is None or name not in entries():
        raise InputError(
            f"{name!r} is not in the server's folder for data. Choose one of the names in the list; who runs the "
            f"server sets the folder with {VARIABLE}."
        )
    return files_below(folder / name, base=folder)


def files_below(top: Path, *, base: Path) -> list[tuple[str, Path]]:
    """Return a file, or the files of a folder in a fixed order, with their names from `base` on.

    Hidden files and links are left out.
    """
    if not top.is_dir():
        return [(top.relative_to(base).as_posix(), top)] if _is_file(top) else []
    found = []
    for parent, folders, files in os.walk(top):  # does not follow links
        folders[:] = sorted(f for f in folders if not f.startswith("."))
        found += [Path(parent, file) for file in sorted(files) if not file.startswith(".")]
    return [(path.relative_to(base).as_posix(), path) for path in found if _is_file(path)]


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False

"""Replace a folder completely or not at all: write a new one next to it, then swap the two."""

import contextlib
import ctypes
import errno
import hashlib
import os
import re
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bandgap.foundation.errors import ArtifactError, InputError

NEW = ".new"
OLD = ".old"
# Characters. Of a longer name a digest is used, because file names have at most 255 bytes.
_LONG_NAME = 40
_LEFTOVER = re.compile(r"\.(.+)\.[0-9a-f]{8}\.(?:new|old)")
_AT_FDCWD = -100
# RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS.
_EXCHANGE = 2


@contextlib.contextmanager
def replaced_folder(folder: Path, *, copy: bool = False) -> Iterator[Path]:
    """Yield a new folder next to `folder` that replaces it when the block ends.

    If the block raises, the new folder is removed and `folder` is unchanged. If the process is
    killed, a hidden folder `.NAME.*.new` remains next to it, which the next replacement of the same
    folder removes. On Windows, where folders cannot be locked, the user must remove it.

    Linux and macOS exchange the two folders in one step, so that a reader always finds the old or
    the new one. Windows, and file systems that cannot exchange, need two renames. A process killed
    between the two leaves the old folder as `.NAME.*.old`, and the next replacement restores it.

    Parameters
    ----------
    folder
        The folder to replace, which need not exist.
    copy
        Whether the new folder starts as a copy of it; otherwise it is empty.

    Raises
    ------
    ArtifactError
        If the swap fails; the message names the folder that contains the complete new result.
    """
    target = resolved(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    recover(target)
    new = target.with_name(f".{_short_name(target)}.{uuid.uuid4().hex[:8]}{NEW}")
    new.mkdir()
    with _locked(new):
        try:
            if target.is_dir():
                if copy:
                    shutil.copytree(target, new, dirs_exist_ok=True)
                shutil.copymode(target, new)
            yield new
        except BaseException:
            shutil.rmtree(new, ignore_errors=True)
            raise
        try:
            previous = _swap(new, target)
        except OSError as error:
            raise ArtifactError(
                f"{target} could not be replaced ({error.strerror or error}). What it contained "
                f"before is unchanged; the new result is complete in {_made_visible(new, target)}. "
                "Rename that folder as you like."
            ) from error
    if previous is not None:
        shutil.rmtree(previous, ignore_errors=True)


def recover(folder: Path) -> None:
    """Restore a folder that a killed replacement has moved, and remove abandoned new folders."""
    target = resolved(folder)
    if not target.parent.is_dir():
        return
    for path in sorted(target.parent.iterdir()):
        leftover = _LEFTOVER.fullmatch(path.name)
        if leftover is None or leftover[1] != _short_name(target):
            continue
        if path.name.endswith(OLD) and not target.exists():
            path.rename(target)
        elif _is_abandoned(path):
            shutil.rmtree(path, ignore_errors=True)


def recover_all(parent: Path) -> None:
    """Do the same as `recover` for every folder in `parent`."""
    if not parent.is_dir():
        return
    leftovers = [_LEFTOVER.fullmatch(path.name) for path in parent.iterdir()]
    names = {leftover[1] for leftover in leftovers if leftover is not None}
    for name in sorted(names):
        recover(parent / name)


def write_whole(file: Path, content: str | bytes) -> None:
    """Write a file completely or not at all, text as UTF-8; its folder is created if needed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.part")
    try:
        with partial.open("wb") as stream:
            stream.write(content.encode("utf-8") if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(file)
    finally:
        partial.unlink(missing_ok=True)


def resolved(path: Path) -> Path:
    """Return an absolute path without links; raises InputError for links that lead in a circle."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                f"{path} is a link that leads to itself. Give a place where files can be written."
            ) from error
    return path.resolve()


def check_writable(path: Path) -> None:
    """Raise InputError if no file or folder can be written at `path`; change nothing.

    The folders above it need not exist. The check creates a folder of another name in the nearest
    existing folder, so that nothing appears at `path`.
    """
    try:
        if path.is_file():
            with path.open("ab"):
                pass
        elif path.is_dir():
            os.rmdir(tempfile.mkdtemp(dir=path))
        elif not path.exists():  # if it exists, it is a device such as /dev/stdout
            nearest = next(folder for folder in resolved(path).parents if folder.exists())
            os.rmdir(tempfile.mkdtemp(dir=nearest))
    except OSError as error:
        raise InputError(
            f"{path} cannot be written ({error.strerror or error}). "
            "Give a place where files can be written."
        ) from error


def _short_name(target: Path) -> str:
    if len(target.name) <= _LONG_NAME:
        return target.name
    return hashlib.sha256(os.fsencode(target.name)).hexdigest()[:_LONG_NAME]


def _swap(new: Path, target: Path) -> Path | None:
    """Replace `target` by `new`; return the folder that now contains the old one, or None."""
    if not target.exists():
        new.rename(target)
        return None
    if not target.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(target))
    if _exchanged(new, target):
        return new
    old = new.with_name(new.name.removesuffix(NEW) + OLD)
    target.rename(old)
    try:
        new.rename(target)
    except OSError:
        old.rename(target)
        raise
    return old


def _exchanged(first: Path, second: Path) -> bool:
    """Exchange the names of two folders in one step; return False if the system cannot."""
    names = (os.fsencode(first), os.fsencode(second))
    try:
        library: Any = ctypes.CDLL(None) if sys.platform != "win32" else None
        if sys.platform == "darwin":
            return bool(library.renamex_np(*names, _EXCHANGE) == 0)
        return bool(library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) == 0)
    except (OSError, AttributeError):  # the C library has no such function
        return False


def _made_visible(new: Path, target: Path) -> Path:
    """Rename `new` so that nothing removes it, and return its path; `new` if that fails."""
    visible = target.with_name(f"{target.name}-{uuid.uuid4().hex[:8]}")
    try:
        return new.rename(visible)
    except OSError:
        return new


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder, also after it is renamed; the lock ends with the process."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _is_abandoned(folder: Path) -> bool:
    """Return whether no process has a lock on a folder; False if that cannot be checked."""
    if sys.platform == "win32":
        return False
    import fcntl

    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)

"""Check, before a command starts, that its outputs can be written and are none of its inputs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import check_writable, resolved

OUTPUTS: Final = ("out", "extxyz", "structures_out", "json_file", "parts_file", "figure")
"""Parameters of commands that name a file or folder to write; all other paths are read."""

UNFINISHED: Final = ".unfinished.json"
"""Ending of the mark of an unfinished table (`predictions.growing.SUFFIX`)."""

_SUFFIXES: Final = (
    UNFINISHED,
    ".unfinished.json.part",
    ".part",
    ".partial",
    ".csv",
    ".csv.unfinished.json",
    ".json",
)
"""Endings of files that are written next to an output while it grows."""

_REMEDY: Final = "Give another place to write to."


def check_outputs(paths: Mapping[str, Any], labels: Mapping[str, str]) -> None:
    """Raise InputError where an output would overwrite an input or cannot be written.

    `paths` has the values of the command's path parameters by name (None, one path, several, or
    NAME=PATH texts), and `labels` how the user writes these parameters, such as --out. A path is
    the same however it is spelled: relative, through a link or as another hard link of the file. A
    folder is read with all files in it.
    """
    outputs = [(name, path) for name in paths if name in OUTPUTS for path in _paths_of(paths[name])]
    inputs = [
        (name, path) for name in paths if name not in OUTPUTS for path in _paths_of(paths[name])
    ]
    for number, (name, path) in enumerate(outputs):
        for other, earlier in outputs[:number]:
            if any(
                _is_same(file, earlier_file)
                for file in _written(path)
                for earlier_file in _written(earlier)
            ):
                raise InputError(
                    f"{labels[name]} {path} and {labels[other]} {earlier} are the same file, or "
                    "one is written next to the other while it grows. Give each another name."
                )
        for other, source in inputs:
            _check_pair(f"{labels[name]} {path}", path, f"{labels[other]} {source}", source)
    for _, path in outputs:
        check_writable(path)


def _check_pair(output_text: str, path: Path, input_text: str, source: Path) -> None:
    """Raise InputError where writing to `path` would change the input `source`.

    The texts are option and path as the user wrote them.
    """
    from bandgap.storage.manifests import manifest_kind

    if not source.exists():
        return
    for written in _written(path):
        if _is_same(written, source):
            raise InputError(
                f"{output_text}: {written} is also given as {input_text}, and would be "
                f"overwritten. {_REMEDY}"
            )
        if not source.is_dir():
            continue
        if manifest_kind(source) and written.resolve().is_relative_to(source.resolve()):
            raise InputError(
                f"{output_text} is in {input_text}, the folder of a stored result. {_REMEDY}"
            )
        if written.is_file() and (file := _same_file_under(source, written)):
            raise InputError(
                f"{output_text}: {file} is read, as it is in {input_text}, and would be "
                f"overwritten. {_REMEDY}"
            )
    if manifest_kind(path) and source.resolve().is_relative_to(path.resolve()):
        raise InputError(
            f"{output_text} contains {input_text}, and would be replaced with all that is in it. "
            f"{_REMEDY}"
        )


def _paths_of(value: Any) -> Iterator[Path]:
    """Yield the paths in the value of a parameter."""
    for item in value if isinstance(value, (list, tuple)) else [value]:
        if item is None:
            continue
        text = os.fspath(item)
        name, equals, path_text = text.partition("=")
        path = Path(text)
        yield Path(path_text.strip()) if equals and name and not path.exists() else path


def _written(path: Path) -> list[Path]:
    """Return an output and the files that may be written next to it, where these exist."""
    neighbours = [path.with_name(path.name + ending) for ending in _SUFFIXES] if path.name else []
    return [path, *(file for file in neighbours if file.exists())]


def _is_same(first: Path, second: Path) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samefile(first, second)
    return resolved(first) == resolved(second)


def _same_file_under(folder: Path, file: Path) -> Path | None:
    """Return the path of the same file under a folder, also through a link, or None."""
    target = file.stat()
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                if os.path.samestat(os.stat(os.path.join(parent, name)), target):
                    return Path(parent, name)
    return None

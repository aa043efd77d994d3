"""Where a result may be written: a new or empty folder, or one that contains an older result of the
same kind.
"""

import contextlib
import fnmatch
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from bandgap.foundation.errors import InputError
from bandgap.foundation.replacement import check_writable, recover, replaced_folder
from bandgap.storage.manifests import MANIFEST, manifest_kind

FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "run": (
        "*.safetensors",
        MANIFEST,
        "predictions.csv",
        "calibrator.json",
        "learning_curve.json",
        "checkpoint",
    ),
    "source": ("*.safetensors", MANIFEST),
    "sources": ("*.safetensors", MANIFEST, "member-*"),
    "generator": ("*.safetensors", MANIFEST, "molecules.txt"),
}
"""Names of what a folder of each kind contains; another result of this kind replaces all of it."""

_IN_ALL = ("*.part", ".DS_Store")
_WORDS: Final[Mapping[str, str]] = {
    "run": "a run",
    "source": "a source model",
    "sources": "a source model of several sets",
    "generator": "a generator of molecules",
}


def check_result_folder(out: Path, *, kind: str, inputs: Iterable[Path | str | None] = ()) -> None:
    """Raise InputError where a result of this kind (a key of `FILES`) cannot replace what is in the
    folder `out`.

    Refused are: a file, the folder that the process works in, a folder with another kind of result
    or with files of the user, a folder inside another result, one that is or contains one of the
    `inputs`, and one that cannot be written.
    """
    target = _checked_place(out, kind=kind, inputs=inputs)
    if not target.is_dir():
        check_writable(target)
        return
    stored_kind = manifest_kind(target)
    if stored_kind not in (None, kind):
        other = _WORDS.get(str(stored_kind), f"a result of kind {stored_kind}")
        raise InputError(
            f"{out} contains {other}, which {_WORDS[kind]} does not replace. Give a new folder."
        )
    names = sorted(path.name for path in target.iterdir())
    other_names = _other_names(target, kind=kind)
    unfinished = [
        name for name in names if _matches(name, ("*.safetensors", "checkpoint", "member-*"))
    ]
    if stored_kind is None and not other_names and not unfinished:
        other_names = [name for name in names if not _matches(name, _IN_ALL)]
    if other_names:
        raise InputError(
            f"{out} holds other files, such as {other_names[0]}, and a result replaces all of its "
            "folder. Give a new folder or an empty one, or move these files."
        )
    if os.path.ismount(target):
        raise InputError(
            f"{out} is a mount point, which cannot be replaced. Give a folder in it, such as "
            f"{out / kind}."
        )
    check_writable(target)
    # Where the new folder is written before it takes the place of this one.
    check_writable(target.parent)


@contextlib.contextmanager
def replaced_result(out: Path, *, kind: str) -> Iterator[Path]:
    """Yield a new folder for a result of this kind that takes the place of `out` as a whole
    (`replaced_folder`).

    Files of the user that were put into `out` since `check_result_folder` looked are copied to the
    new folder.
    """
    with replaced_folder(out) as new:
        yield new
        for name in _other_names(out, kind=kind) if out.is_dir() else ():
            if (out / name).is_dir():
                shutil.copytree(out / name, new / name)
            else:
                shutil.copy2(out / name, new / name)


def check_table_folder(out: Path, *names: str) -> None:
    """Raise InputError where a comparison cannot be started or resumed in the folder `out`.

    Refused are: a file, a folder of or inside a result, one with other files and none of these
    `names`, and one that cannot be written.
    """
    target = _checked_place(out, kind="")
    stored_kind = manifest_kind(target) or ""
    if stored_kind in _WORDS:
        raise InputError(f"{out} contains {_WORDS[stored_kind]}. Give a new folder.")
    if (
        target.is_dir()
        and any(target.iterdir())
        and not any((target / name).exists() for name in names)
    ):
        raise InputError(
            f"{out} holds other files. Give a new folder or an empty one, or one with a {names[0]}."
        )
    check_writable(target)


def result_above(path: Path) -> Path | None:
    """Return the folder of a run or source model that a path lies in, None where there is none."""
    return next(
        (folder for folder in path.resolve().parents if manifest_kind(folder) in _WORDS), None
    )


def _checked_place(out: Path, *, kind: str, inputs: Iterable[Path | str | None] = ()) -> Path:
    """Return the folder that `out` names; raise InputError where no result may be, whatever it
    contains.

    A run may be in a folder below that of another run, which is then not replaced any more.
    """
    recover(out)
    target = out.resolve()
    if target.exists() and not target.is_dir():
        raise InputError(f"{out} is a file. Give the name of a folder.")
    for input_path in inputs:
        if input_path is None:
            continue
        source = Path(input_path).resolve()
        if source == target or source.is_relative_to(target):
            raise InputError(
                f"{out} is, or contains, {input_path}, which this command reads, and would be "
                "replaced. Give another folder."
            )
    if Path.cwd().is_relative_to(target):
        raise InputError(
            f"{out} is the current folder, or contains it. Give the name of a folder in it, such "
            "as ./run."
        )
    above = result_above(target)
    if above is not None and not (kind == "run" and manifest_kind(above) == "run"):
        words = _WORDS[str(manifest_kind(above))]
        raise InputError(
            f"{out} lies in {above}, the folder of {words}. Give a folder outside of it."
        )
    return target


def _other_names(folder: Path, *, kind: str) -> list[str]:
    """Return the names of what is in a folder beyond the files of a result of this kind."""
    patterns = (*FILES[kind], *_IN_ALL)
    return sorted(path.name for path in folder.iterdir() if not _matches(path.name, patterns))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)

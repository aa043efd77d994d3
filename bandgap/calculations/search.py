"""Find the files of calculations in folders, zip archives and uploads.

A `vasprun.xml` is found by its name, an XML file of Quantum ESPRESSO by its first element.
"""

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bandgap.calculations.other_programs import is_named_as_output, reason_of_text_output
from bandgap.calculations.packed_xml import is_packed_badly, root_element
from bandgap.foundation.errors import printable
from bandgap.structures.archives import unzip
from bandgap.structures.contents import ZIP_MAGIC, Content, is_ignored
from bandgap.structures.draft import Unreadable
from bandgap.structures.records import STREAM_LIMITS

NamedPath = tuple[str, Path]  # name, and path of a file or folder

_VASP_NAME = re.compile(r".*vasprun.*\.xml.*", re.IGNORECASE)
_XML_NAME = re.compile(r".*\.xml(\.gz)?", re.IGNORECASE)
_ESPRESSO_NAME = re.compile(r"data-file(-schema)?\.xml(\.gz)?", re.IGNORECASE)
_OUTCAR_NAME = re.compile(r"OUTCAR(\.gz)?")
_COMMON_NAME = re.compile(
    r"[._-]?vasprun|^data-file(-schema)?(?=\.)|\.xml(?=\.|$)|\.(gz|bz2|xz|zip)$", re.IGNORECASE
)
_ROOTS = ("modeling", "espresso")
_OUTCAR_ALONE = (
    "the folder has an OUTCAR and no vasprun.xml, which alone states settings and eigenvalues"
    " completely. Copy the vasprun.xml of the calculation to the folder"
)


@dataclass(frozen=True, eq=False)
class Place:
    """A file of a calculation, an archive, or the reason why a folder has none.

    Parameters
    ----------
    id
        Path below the given folder, without the parts of the name that all such files have.
    name
        Path or name to show.
    path
        Path of the file.
    is_archive
        Whether the file is a zip archive, whose files have ids of their own.
    refusal
        Why it is not opened, "" if it is.
    """

    id: str
    name: str
    path: Path
    is_archive: bool = False
    refusal: str = ""


@dataclass(frozen=True, eq=False)
class ArchivedFile:
    """A file of a calculation in an archive, or the reason why it is not opened.

    `id` and `name` are as in `Place`.
    """

    id: str
    name: str
    content: Content
    refusal: str = ""


def calculation_places(sources: Sequence[NamedPath]) -> list[Place]:
    """Return every file and archive of calculations in the sources, in their order."""
    return [place for name, source in sources for place in _places(name, source)]


def archived_calculations(source: Path | bytes, name: str) -> Iterator[ArchivedFile]:
    """Yield the calculations in a zip archive, at least one result."""
    is_empty = True
    archive_id = calculation_id(PurePosixPath(name).name) or "archive"
    nothing = Content.of(b"")
    try:
        for member in unzip(source, limits=STREAM_LIMITS, with_gzip=True):
            text = f"{name}/{member.name}"
            base = PurePosixPath(member.name).name
            id = calculation_id(member.name) or archive_id
            if member.refusal and _XML_NAME.fullmatch(base):
                is_empty = False
                yield ArchivedFile(id, text, nothing, member.refusal)
            elif not member.refusal and _is_calculation(base, member.content):
                is_empty = False
                yield ArchivedFile(id, text, member.content)
    except Unreadable as error:
        yield ArchivedFile(archive_id, name, nothing, str(error))
        return
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        yield ArchivedFile(archive_id, name, nothing, f"damaged archive ({error})")
        return
    if is_empty:
        reason = "the archive has no vasprun.xml and no XML file of Quantum ESPRESSO 6 or later"
        yield ArchivedFile(archive_id, name, nothing, reason)


def _places(name: str, source: Path) -> Iterator[Place]:
    """Yield the places under a source."""
    if not source.is_dir():
        is_upload = name != str(source)
        folder = "" if is_upload else printable(source.resolve().parent.name)
        yield _place(calculation_id(Path(name).name) or folder or "calculation", name, source)
        return
    for path, folders, names in os.walk(source):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        files = [Path(path, text) for text in sorted(names) if not text.startswith(".")]
        calculations = [
            file for file in files if _is_calculation(file.name, _content(file)) and _is_first(file)
        ]
        for file in calculations:
            id = calculation_id(file.relative_to(source).as_posix())
            yield _place(id or _name_of(source), str(file), file)
        if calculations:
            continue
        id = calculation_id(f"{Path(path).relative_to(source).as_posix()}/") or _name_of(source)
        if any(_OUTCAR_NAME.fullmatch(file.name) for file in files):
            yield Place(id, path, Path(path), refusal=_OUTCAR_ALONE)
            continue
        for file in filter(lambda file: is_named_as_output(file.name), files):
            if reason := reason_of_text_output(_content(file)):
                yield Place(id, str(file), file, refusal=reason)


def _place(id: str, name: str, path: Path) -> Place:
    """Return the place of a file, which may be an archive or impossible to open."""
    try:
        content = _content(path)
        head = content.head(4)
    except OSError as error:
        reason = error.strerror or str(error)
        return Place(id, name, path, refusal=f"the file cannot be opened ({reason})")
    is_archive = head in ZIP_MAGIC
    refusal = "" if is_archive else reason_of_text_output(content)
    return Place(id, name, path, is_archive=is_archive, refusal=refusal)


def _name_of(folder: Path) -> str:
    return printable(folder.resolve().name) or "calculation"


def calculation_id(path: str) -> str:
    """Return an id made of the folders of a path and of what its name has in addition."""
    *folders, name = [part for part in path.split("/") if part not in (".", "..")]
    words = [folder.removesuffix(".save") for folder in folders]
    words.append(_COMMON_NAME.sub("", name).strip("._- "))
    return printable("-".join(word for word in words if word))


def _is_calculation(name: str, content: Content) -> bool:
    """Return whether a file is one of a calculation, by its name or its first element."""
    if is_ignored(name):
        return False
    if _VASP_NAME.fullmatch(name) or _ESPRESSO_NAME.fullmatch(name):
        return True
    if not _XML_NAME.fullmatch(name):
        return False
    return root_element(content) in _ROOTS or is_packed_badly(content)


def _is_first(file: Path) -> bool:
    """Return whether a file is no copy: `NAME.xml` has a copy in the folder `NAME.save`."""
    folder = file.parent
    is_copy = _ESPRESSO_NAME.fullmatch(file.name) and folder.suffix == ".save"
    return not (is_copy and folder.with_suffix(".xml").is_file())


def _content(path: Path) -> Content:
    """Return the content of a file, which is read when it is opened."""
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return Content(size, lambda: path.open("rb"), path)

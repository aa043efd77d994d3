"""Find the files of calculations in folders, zip archives and uploads.

A `vasprun.xml` is found by its name, an XML file of Quantum ESPRESSO by its first element.
"""

import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from bandgap.calculations.packed_xml import is_packed_badly, root_element
from bandgap.foundation.errors import printable
from bandgap.structures.archives import unzip
from bandgap.structures.contents import ZIP_MAGIC, Content, is_ignored
from bandgap.structures.draft import Unreadable
from bandgap.structures.records import STREAM_LIMITS

NamedSource = tuple[str, Path | bytes]  # name, and path of a file or folder, or content

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
class CalculationFile:
    """A file of a calculation, or the reason why it is not opened.

    Parameters
    ----------
    id
        Path below the given folder, without the parts of the name that all such files have.
    name
        Path or name to show.
    content
        Bytes of the file, None if it is not opened.
    refusal
        Why it is not opened, "" if it is.
    """

    id: str
    name: str
    content: Content | None
    refusal: str = ""


def calculation_files(
    sources: Sequence[NamedSource],
) -> Iterator[tuple[CalculationFile, int, int]]:
    """Yield every file, the number of files before it, and the number of all files.

    An archive counts as one file, because its members are read one after the other.
    """
    places = [place for name, source in sources for place in _places(name, source)]
    for n_before, (name, id, source) in enumerate(places):
        content = _content(source)
        if content is None:
            yield CalculationFile(id, name, None, _OUTCAR_ALONE), n_before, len(places)
        elif content.size >= 4 and _head(content) in ZIP_MAGIC:
            for file in _members(name, source):
                yield file, n_before, len(places)
        else:
            yield CalculationFile(id, name, content), n_before, len(places)


def _places(name: str, source: Path | bytes) -> Iterator[tuple[str, str, Path | bytes]]:
    """Yield name, id and source of every file under a source; a folder means its OUTCAR."""
    if isinstance(source, bytes):
        yield name, calculation_id(Path(name).name) or "calculation", source
        return
    if not source.is_dir():
        is_upload = name != str(source)
        folder = "" if is_upload else printable(source.resolve().parent.name)
        yield name, calculation_id(Path(name).name) or folder or "calculation", source
        return
    for path, folders, names in os.walk(source):
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        files = [Path(path, text) for text in sorted(names) if not text.startswith(".")]
        calculations = [
            file for file in files if _is_calculation(file.name, _content(file)) and _is_first(file)
        ]
        if not calculations and any(_OUTCAR_NAME.fullmatch(file.name) for file in files):
            calculations = [Path(path)]
        for file in calculations:
            below = file.relative_to(source).as_posix()
            id = calculation_id(f"{below}/" if file == Path(path) else below)
            yield str(file), id or printable(source.resolve().name) or "calculation", file


def _members(name: str, source: Path | bytes) -> Iterator[CalculationFile]:
    """Yield the calculations in a zip archive."""
    is_empty = True
    archive_id = calculation_id(PurePosixPath(name).name) or "archive"
    try:
        for member in unzip(source, limits=STREAM_LIMITS, with_gzip=True):
            text = f"{name}/{member.name}"
            base = PurePosixPath(member.name).name
            id = calculation_id(member.name) or archive_id
            if member.refusal and _XML_NAME.fullmatch(base):
                is_empty = False
                yield CalculationFile(id, text, None, member.refusal)
            elif not member.refusal and _is_calculation(base, member.content):
                is_empty = False
                yield CalculationFile(id, text, member.content)
    except Unreadable as error:
        yield CalculationFile(archive_id, name, None, str(error))
        return
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        yield CalculationFile(archive_id, name, None, f"damaged archive ({error})")
        return
    if is_empty:
        reason = "the archive has no vasprun.xml and no XML file of Quantum ESPRESSO 6 or later"
        yield CalculationFile(archive_id, name, None, reason)


def calculation_id(path: str) -> str:
    """Return an id made of the folders of a path and of what its name has in addition."""
    *folders, name = [part for part in path.split("/") if part not in (".", "..")]
    words = [folder.removesuffix(".save") for folder in folders]
    words.append(_COMMON_NAME.sub("", name).strip("._- "))
    return printable("-".join(word for word in words if word))


def _is_calculation(name: str, content: Content | None) -> bool:
    """Return whether a file is one of a calculation, by its name or its first element."""
    if content is None or is_ignored(name):
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


def _content(source: Path | bytes) -> Content | None:
    """Return the content of a file, which is read when it is opened; None for a folder."""
    if isinstance(source, bytes):
        return Content.of(source)
    path = source
    if path.is_dir():
        return None
    try:
        size = path.stat().st_size
    except OSError:
        size = 0
    return Content(size, lambda: path.open("rb"), path)


def _head(content: Content) -> bytes:
    try:
        return content.head(4)
    except OSError:
        return b""

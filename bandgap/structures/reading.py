"""Bytes, files, folders and archives to records: at least one verdict for each, and no file costs another."""

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from bandgap.foundation.errors import printable
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.archives import GZIP_MAGIC, ZIP_MAGIC, gunzip, is_ignored, megabytes, unzip
from bandgap.structures.checks import NO_MEMORY, to_record
from bandgap.structures.contents import Content
from bandgap.structures.draft import Draft, Format, Unreadable
from bandgap.structures.formats import binary_format, detect, is_nameless, read_content, refuse_by_kind, suffix_of
from bandgap.structures.ids import with_unique_ids
from bandgap.structures.records import DEFAULT_LIMITS, Limits, Problem, StructureRecord
from bandgap.structures.texts import Text

_LOG = logging.getLogger(__name__)
_MANY = "Split the files, or predict with `bandgap predict` in a shell, which takes any number"


def read_structures(data: bytes, name: str, *, limits: Limits = DEFAULT_LIMITS) -> list[StructureRecord]:
    """Return a record for every structure in a file, and at least one; nothing is raised for bad content.

    `name` is the file's name or path, which ids are taken from: the structure's own id (extXYZ), else the file's name
    without its suffix, with the block's name or a running number where a file holds several.
    """
    return with_unique_ids(list(stream_structures(data, name, limits=limits)))


def stream_structures(data: bytes, name: str, *, limits: Limits = DEFAULT_LIMITS) -> Iterator[StructureRecord]:
    """Yield the records of `read_structures` as they are read, with the ids that they have by themselves."""
    return _records(Content.of(data), name, limits=limits, left=limits.max_structures)


def read_paths(
    paths: Path | str | Iterable[Path | str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> list[StructureRecord]:
    """Return the records of files, archives and folders, at least one for every file; folders are walked.

    `paths` is one path or several; a text is one path. Hidden files are left out of folders. A path
    that is not there or cannot be opened gets its verdict, too. Raises only what `progress` raises
    to cancel.
    """
    return with_unique_ids(list(stream_paths(paths, limits=limits, progress=progress)))


def stream_paths(
    paths: Path | str | Iterable[Path | str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> Iterator[StructureRecord]:
    """Yield the records of `read_paths` as they are read, with the ids that they have by themselves.

    Needs the memory of the files' names and of few structures: XYZ, PDB, Parquet and ASE databases of any size are read
    piece by piece, also out of archives. The text of another format is held, that of one file at a time.
    """
    several: Iterable[Path | str] = [paths] if isinstance(paths, (str, Path)) else paths
    files = [file for path in several for file in files_under(Path(path))]
    given = 0
    for done, file in enumerate(files):
        progress(Update("Reading structures", done, len(files), message=os.path.basename(file)))
        for record in _from_path(Path(file), limits, left=limits.max_structures - given):
            given += 1
            yield record
    progress(Update("Reading structures", len(files), len(files)))


def files_under(path: Path) -> list[str]:
    """Return the file, or the files under the folder in a fixed order; an empty folder stands for itself."""
    if not path.is_dir():
        return [str(path)]
    found = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not is_ignored(name))
        found += [str(Path(folder, name)) for name in sorted(names) if not is_ignored(name)]
    return found or [str(path)]


def _from_path(path: Path, limits: Limits, *, left: int) -> Iterable[StructureRecord]:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return [_refused(str(path), "no files in the folder")]
        if not stat.S_ISREG(status.st_mode):
            return [_refused(str(path), "not a file but a device or a pipe")]
        content = Content.at(path, size=status.st_size)
        if not _is_archive(content, str(path)) and content.size > limits.max_file_bytes:
            return [_refused(str(path), _too_large(content.size, limits))]
    except FileNotFoundError:
        return [_refused(str(path), "there is no such file")]
    except (OSError, ValueError) as error:
        return [_refused(str(path), _not_opened(error))]
    return _records(content, str(path), limits=limits, left=left)


def _records(content: Content, name: str, *, limits: Limits, left: int) -> Iterator[StructureRecord]:
    """Return the records of one file or archive, at most `left` and one that says so."""
    if left < 1:
        return iter([_not_read(name, limits)])
    if _is_archive(content, name):
        return _from_archive(content, name, limits=limits, left=left)
    return _from_file(content, name, limits=limits, left=left)


def _is_archive(content: Content, name: str) -> bool:
    return content.head(len(ZIP_MAGIC[0])).startswith(ZIP_MAGIC) or suffix_of(_base(name)) == "zip"


def _from_archive(content: Content, name: str, *, limits: Limits, left: int) -> Iterator[StructureRecord]:
    try:
        if suffix_of(_base(name)) not in ("zip", ""):
            raise Unreadable("a zip archive by its content, and not by its name. Name it .zip to have it opened.")
        given = 0
        for member in unzip(content.path or content.whole(), limits=limits):
            file = f"{name}/{member.name}"
            if given >= left:
                yield _not_read(file, limits)
                return
            if member.refusal:
                given += 1
                yield _refused(file, member.refusal)
                continue
            for record in _from_file(member.content, file, limits=limits, left=left - given):
                given += 1
                yield record
        if not given:
            yield _refused(name, "no files in the archive")
    except Unreadable as error:
        yield _refused(name, str(error))


def _from_file(content: Content, name: str, *, limits: Limits, left: int) -> Iterator[StructureRecord]:
    try:
        plain_name = name
        if content.head(len(GZIP_MAGIC)) == GZIP_MAGIC:
            content = gunzip(content, limits=limits)
            plain_name = re.sub(r"\.gz$", "", name, flags=re.IGNORECASE)
        base = _base(plain_name)
        if content.size > limits.max_file_bytes:
            raise Unreadable(_too_large(content.size, limits))
        if content.is_blank():
            raise Unreadable("the file is empty")
        form = binary_format(content)
        readable: Text | Content = content
        if form is None:
            refuse_by_kind(content, base)
            readable = text = Text(content)
            form = detect(text, base)
    except (Unreadable, OSError) as error:
        yield _refused(name, str(error) if isinstance(error, Unreadable) else _not_opened(error))
        return
    except MemoryError:
        yield _refused(name, f"the file {NO_MEMORY}")
        return
    yield from _from_content(readable, form, name=name, stem=_stem(plain_name), limits=limits, left=left)


def _from_content(
    content: Text | Content, form: Format, *, name: str, stem: str, limits: Limits, left: int
) -> Iterator[StructureRecord]:
    drafts = _Drafts(content, form, limits)
    draft, given = drafts.next(), 0
    while draft is not None and given < left:
        following = drafts.next()
        alone = given == 0 and following is None
        id = draft.id or (stem if alone else f"{stem}-{draft.suffix}")
        yield to_record(draft, file=name, id=id, limits=limits)
        draft, given = following, given + 1
    ending = drafts.ending
    if draft is not None:
        ending = f"the rest was not read: the limit is {limits.max_structures:,} structures. {_MANY}"
    if ending or not given:
        yield _refused(name, ending or "no structures in the file", form=form.name)


class _Drafts:
    """The drafts of a file one by one, and afterwards the sentence that says why they ended early, "" if they did not.

    The promise of one verdict per file holds for errors nobody foresaw, too.
    """

    def __init__(self, content: Text | Content, form: Format, limits: Limits) -> None:
        self.ending = ""
        self._form, self._drafts = form, read_content(content, form, limits=limits)

    def next(self) -> Draft | None:
        """Return the next draft, None where there is no more."""
        try:
            return next(self._drafts, None)
        except MemoryError:
            self.ending = f"the file {NO_MEMORY}"
            return None
        except Exception as error:
            _LOG.info("reading a file as %s failed", self._form.name, exc_info=True)
            reason = " ".join(str(error).split())
            self.ending = f"cannot be read as {self._form.name} ({type(error).__name__}: {reason})"
            return None


def _not_opened(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"the file cannot be opened ({reason})"


def _too_large(n_bytes: int, limits: Limits) -> str:
    return f"the file has {megabytes(n_bytes)}; the limit is {megabytes(limits.max_file_bytes)}"


def _not_read(file: str, limits: Limits) -> StructureRecord:
    return _refused(file, f"not read: the limit of {limits.max_structures:,} structures was reached. {_MANY}")


def _refused(file: str, text: str, *, form: str = "") -> StructureRecord:
    return StructureRecord(printable(_stem(file)), file, form, None, (Problem("refused", printable(text)),))


def _base(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _stem(name: str) -> str:
    """Return the file's name without its suffix; files that are all called POSCAR are named by their folder."""
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    base = re.sub(r"\.gz$", "", parts[-1], flags=re.IGNORECASE) if parts else ""
    if is_nameless(base):
        return parts[-2] if len(parts) > 1 else base
    stem = base.rpartition(".")[0] if "." in base.lstrip(".") else base
    return stem or base or "structure"

"""Read bytes, files, folders and archives into records.

Every file gets at least one record with a verdict. A file that cannot be read does not affect the
other files.
"""

import logging
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from bandgap.foundation.arguments import as_path
from bandgap.foundation.progress import Progress, Update, no_progress
from bandgap.structures.checks import NO_MEMORY, to_record
from bandgap.structures.contents import GZIP_MAGIC, ZIP_MAGIC, Content, is_ignored, megabytes
from bandgap.structures.draft import Draft, Format, Unreadable, refused_draft
from bandgap.structures.formats import (
    binary_format,
    detect,
    is_nameless,
    refuse_by_kind,
    suffix_of,
)
from bandgap.structures.ids import with_unique_ids
from bandgap.structures.records import DEFAULT_LIMITS, Limits, StructureRecord, refused_record
from bandgap.structures.texts import Text

_LOG = logging.getLogger(__name__)
MAX_REFUSED = 1_000  # structures of one file in a row, after which its remainder is not read
_SPLIT_ADVICE = (
    "Split the files, or predict with `bandgap predict` in a shell, which takes any number"
)


def read_structures(
    data: bytes, name: str, *, limits: Limits = DEFAULT_LIMITS
) -> list[StructureRecord]:
    """Return a record for every structure in a file, and at least one record.

    Parameters
    ----------
    data
        Content of the file. Bad content raises no error; it gives a record with status "refused".
    name
        Name or path of the file. A structure without an id in the file (as in extXYZ) gets the
        file's name without its suffix. If the file contains several structures, the block's name
        or a running number follows.
    limits
        Largest sizes and counts that are read.

    Returns
    -------
    list of StructureRecord
        In the order of the file, with unique ids.
    """
    parts = parts_of(Content.of(data), name, limits=limits)
    return with_unique_ids([record for part in parts for record in part.records])


def read_paths(
    paths: Path | str | Iterable[Path | str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> list[StructureRecord]:
    """Return the records of files, archives and folders, at least one for every file.

    Parameters
    ----------
    paths
        One path or several. Folders are read with their subfolders, without hidden files.
    limits
        Largest sizes and counts that are read.
    progress
        Called before every file. What it raises to cancel is passed on.

    Returns
    -------
    list of StructureRecord
        With unique ids. A path that does not exist or cannot be opened gives a record with status
        "refused".

    Raises
    ------
    InputError
        For a value that is no path.
    """
    return with_unique_ids(list(stream_paths(paths, limits=limits, progress=progress)))


def stream_paths(
    paths: Path | str | Iterable[Path | str],
    *,
    limits: Limits = DEFAULT_LIMITS,
    progress: Progress = no_progress,
) -> Iterator[StructureRecord]:
    """Yield the records of `read_paths` as they are read; their ids may repeat.

    Memory is needed for the names of all files and for a few structures. XYZ, PDB, Parquet and ASE
    databases of any size are read in blocks, also from archives. Of the other formats, the whole
    text of one file at a time is in memory.
    """
    if isinstance(paths, Iterable) and not isinstance(paths, (str, bytes, Path)):
        path_list: list[Path | str] = list(paths)
    else:
        path_list = [as_path(paths, name="paths")]
    files = [file for path in path_list for file in files_under(as_path(path, name="paths"))]
    n_records = 0
    for n_files_read, file in enumerate(files):
        message = os.path.basename(file)
        progress(Update("Reading structures", n_files_read, len(files), message=message))
        for record in _from_path(Path(file), limits, max_records=limits.max_structures - n_records):
            n_records += 1
            yield record
    progress(Update("Reading structures", len(files), len(files)))


def files_under(path: Path) -> list[str]:
    """Return the path of a file, or the files in a folder and its subfolders in a fixed order.

    A folder without files gives its own path.
    """
    if not path.is_dir():
        return [str(path)]
    files = []
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not is_ignored(name))
        files += [str(Path(folder, name)) for name in sorted(names) if not is_ignored(name)]
    return files or [str(path)]


def _from_path(path: Path, limits: Limits, *, max_records: int) -> Iterable[StructureRecord]:
    # A name of another encoding can be opened, and not be written to a table as it is.
    name = str(path).encode(errors="replace").decode()
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            return [_refused_record(name, "no files in the folder")]
        if not stat.S_ISREG(status.st_mode):
            return [_refused_record(name, "not a file but a device or a pipe")]
        content = Content.at(path, size=status.st_size)
        if not _is_archive(content, name) and content.size > limits.max_file_bytes:
            return [_refused_record(name, _size_failure(content.size, limits))]
    except FileNotFoundError:
        return [_refused_record(name, "there is no such file")]
    except (OSError, ValueError) as error:
        return [_refused_record(name, _opening_failure(error))]
    parts = parts_of(content, name, limits=limits, max_records=max_records)
    return (record for part in parts for record in part.records)


class Part(NamedTuple):
    """A file, or one file of an archive, whose records are read by iteration."""

    name: str
    records: Iterator[StructureRecord]


def parts_of(
    content: Content, name: str, *, limits: Limits, max_records: int | None = None
) -> Iterator[Part]:
    """Yield the parts of a file or archive, with `max_records` and one more record on the limit.

    A part must be read before the next one, or left out. The default number is that of `limits`.
    """
    most = limits.max_structures if max_records is None else max_records
    if most < 1:
        yield Part(name, iter([_limit_record(name, limits)]))
    elif _is_archive(content, name):
        yield from _from_archive(content, name, limits=limits, most=most)
    else:
        yield Part(name, _from_file(content, name, limits=limits, most=most))


def _is_archive(content: Content, name: str) -> bool:
    return content.head(len(ZIP_MAGIC[0])).startswith(ZIP_MAGIC) or suffix_of(_base(name)) == "zip"


def _from_archive(content: Content, name: str, *, limits: Limits, most: int) -> Iterator[Part]:
    from bandgap.structures.archives import unzip

    n_records = 0

    def counted(records: Iterable[StructureRecord]) -> Iterator[StructureRecord]:
        nonlocal n_records
        for record in records:
            n_records += 1
            yield record

    n_members = 0
    try:
        if suffix_of(_base(name)) not in ("zip", ""):
            raise Unreadable(
                "a zip archive by its content, and not by its name. Name it .zip to have it opened."
            )
        for member in unzip(content.path or content.read_all(), limits=limits):
            n_members += 1
            file = f"{name}/{member.name}"
            if n_records >= most:
                yield Part(name, iter([_limit_record(file, limits)]))
                return
            records: Iterable[StructureRecord] = [_refused_record(file, member.refusal)]
            if not member.refusal:
                remainder = most - n_records
                records = _from_file(member.content, file, limits=limits, most=remainder)
            yield Part(file, counted(records))
        failure = "" if n_members else "no files in the archive"
    except Unreadable as error:
        failure = str(error)
    if failure:
        yield Part(name, iter([_refused_record(name, failure)]))


def _from_file(
    content: Content, name: str, *, limits: Limits, most: int
) -> Iterator[StructureRecord]:
    try:
        plain_name = name
        if content.head(len(GZIP_MAGIC)) == GZIP_MAGIC:
            from bandgap.structures.archives import gunzip

            content = gunzip(content, limits=limits)
            plain_name = re.sub(r"\.gz$", "", name, flags=re.IGNORECASE)
        base = _base(plain_name)
        if content.size > limits.max_file_bytes:
            raise Unreadable(_size_failure(content.size, limits))
        if content.is_blank():
            raise Unreadable("the file is empty")
        form = binary_format(content)
        readable: Text | Content = content
        if form is None:
            refuse_by_kind(content, base)
            readable = text = Text(content)
            form = detect(text, base)
    except (Unreadable, OSError) as error:
        yield _refused_record(
            name, str(error) if isinstance(error, Unreadable) else _opening_failure(error)
        )
        return
    except MemoryError:
        yield _refused_record(name, f"the file {NO_MEMORY}")
        return
    yield from _from_content(
        readable, form, name=name, stem=_stem(plain_name), limits=limits, most=most
    )


def _from_content(
    content: Text | Content, form: Format, *, name: str, stem: str, limits: Limits, most: int
) -> Iterator[StructureRecord]:
    drafts = _drafts(content, form, limits)
    draft = next(drafts, "")
    n_records = 0
    n_refused = 0  # in a row
    while isinstance(draft, Draft) and n_records < most and n_refused < MAX_REFUSED:
        next_draft = next(drafts, "")
        is_single = n_records == 0 and not isinstance(next_draft, Draft)
        id = draft.id or (stem if is_single else f"{stem}-{draft.suffix}")
        record = to_record(draft, file=name, id=id, limits=limits)
        n_refused = n_refused + 1 if record.status == "refused" else 0
        yield record
        draft = next_draft
        n_records += 1
    if isinstance(draft, str):
        failure = draft
    elif n_refused == MAX_REFUSED:
        failure = (
            f"the remaining structures were not read, because {MAX_REFUSED:,} in a row were"
            " refused. Correct the file, or delete these structures from it"
        )
    else:
        failure = (
            f"the remaining structures were not read: the limit is {limits.max_structures:,}"
            f" structures. {_SPLIT_ADVICE}"
        )
    if failure or not n_records:
        yield _refused_record(name, failure or "no structures in the file", form=form.name)


def _drafts(content: Text | Content, form: Format, limits: Limits) -> Iterator[Draft | str]:
    """Yield the drafts of a file, and the reason if reading stops early.

    If its reader raises Unreadable, the last draft is a refused one with the reason. Unexpected
    errors are caught as well, so that every file gets a verdict.
    """
    try:
        for draft in form.read(
            content.read_all() if form.takes == "text" else content, limits=limits
        ):
            draft.format = draft.format or form.name
            yield draft
    except Unreadable as error:
        draft = refused_draft(str(error))
        draft.format = form.name
        yield draft
    except MemoryError:
        yield f"the file {NO_MEMORY}"
    except Exception as error:
        _LOG.info("reading a file as %s failed", form.name, exc_info=True)
        reason = " ".join(str(error).split())
        yield f"cannot be read as {form.name} ({type(error).__name__}: {reason})"


def _opening_failure(error: OSError | ValueError) -> str:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return f"the file cannot be opened ({reason})"


def _size_failure(n_bytes: int, limits: Limits) -> str:
    return f"the file has {megabytes(n_bytes)}; the limit is {megabytes(limits.max_file_bytes)}"


def _limit_record(file: str, limits: Limits) -> StructureRecord:
    limit = f"{limits.max_structures:,} structures"
    return _refused_record(file, f"not read: the limit of {limit} was reached. {_SPLIT_ADVICE}")


def _refused_record(file: str, text: str, *, form: str = "") -> StructureRecord:
    return refused_record(_stem(file), file, text, form=form)


def _base(name: str) -> str:
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2]


def _stem(name: str) -> str:
    """Return the file's name without its suffix, or the folder's name for a file such as POSCAR."""
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    base = re.sub(r"\.gz$", "", parts[-1], flags=re.IGNORECASE) if parts else ""
    if is_nameless(base):
        return parts[-2] if len(parts) > 1 else base
    stem = base.rpartition(".")[0] if "." in base.lstrip(".") else base
    return stem or base or "structure"

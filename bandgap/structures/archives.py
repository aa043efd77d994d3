"""Unpack zip archives and gzip files in memory, within limits, as they are read."""

import contextlib
import gzip
import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Callable, Container, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from bandgap.foundation.errors import printable, reason_of
from bandgap.structures.contents import (
    BLOCK,
    GZIP_MAGIC,
    SMALL,
    ZIP_MAGIC,
    Content,
    Stream,
    is_ignored,
    megabytes,
)
from bandgap.structures.draft import Unreadable
from bandgap.structures.formats import suffix_of
from bandgap.structures.records import Limits

_MAGIC_BYTES = 4
_RATIO_FROM_BYTES = 1_000_000  # smaller files may have any compression ratio
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    RuntimeError,
    NotImplementedError,
    MemoryError,
)
_NESTED = "an archive inside an archive is not opened. Unpack it once and upload what is inside."
_ARCHIVES = {"zip", "gz", "tgz", "tar", "bz2", "xz", "7z", "rar"}


@dataclass(frozen=True)
class Member:
    """One file of an archive: its content, or the reason why it was not opened."""

    name: str
    content: Content = field(default_factory=lambda: Content.of(b""))
    refusal: str = ""
    n_unpacked: int = 0  # bytes that were unpacked


def unzip(
    source: bytes | Path,
    *,
    limits: Limits,
    with_gzip: bool = False,
    names: Container[str] | None = None,
) -> Iterator[Member]:
    """Yield the files of a zip archive, each with its content or the reason why it was refused.

    `source` is the archive's bytes or its path. With `with_gzip`, gzip files are yielded as they
    are; otherwise they are refused. With `names`, other files are left out. Raises Unreadable if
    the archive cannot be opened.
    """
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if size > limits.max_archive_bytes:
        raise Unreadable(
            f"the archive has {megabytes(size)}; the limit is {megabytes(limits.max_archive_bytes)}"
        )

    def opened() -> zipfile.ZipFile:
        return zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)

    try:
        archive = opened()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeError) as error:
        raise Unreadable(
            f"not a zip archive that can be opened ({reason_of(error)}). Is the file cut off?"
        ) from None
    # Unpacking takes time, also of files that are refused.
    n_bytes_left = min(
        limits.max_archive_bytes, _RATIO_FROM_BYTES + limits.max_compression_ratio * size
    )
    with archive:
        for entry in archive.infolist():
            # `ZipInfo.is_dir` fails if the name is empty.
            if entry.filename.endswith("/") or is_ignored(entry.filename):
                continue
            if names is not None and entry.filename not in names:
                continue
            member = _member(
                archive,
                entry,
                opened,
                n_bytes_left=n_bytes_left,
                limits=limits,
                with_gzip=with_gzip,
            )
            n_bytes_left -= member.n_unpacked
            yield member


def gunzip(packed: Content, *, limits: Limits) -> Content:
    """Return the content of a gzip file, which is unpacked once to check it.

    Raises Unreadable if the file is damaged, or beyond the limits of size or compression ratio.
    """

    @contextlib.contextmanager
    def opened() -> Iterator[gzip.GzipFile]:
        with packed.opened() as file:
            stream = gzip.GzipFile(fileobj=file)  # type: ignore[call-overload]
            with stream:
                yield stream

    try:
        limit = min(limits.max_file_bytes, _largest_unpacked(packed.size, limits))
        content = _read_within_limit(opened, limit, opened)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(
            f"not a gzip file that can be opened ({reason_of(error)}). Is the file cut off?"
        ) from None
    _check_size(content.size, packed.size, limit=limits.max_file_bytes, limits=limits)
    if content.head(_MAGIC_BYTES).startswith((GZIP_MAGIC, *ZIP_MAGIC)):
        raise Unreadable(_NESTED)
    return content


def _member(
    archive: zipfile.ZipFile,
    entry: zipfile.ZipInfo,
    opened: Callable[[], zipfile.ZipFile],
    *,
    n_bytes_left: int,
    limits: Limits,
    with_gzip: bool,
) -> Member:
    name = printable(entry.filename)

    @contextlib.contextmanager
    def reopened() -> Iterator[Stream]:
        with opened() as zip_file, zip_file.open(entry) as stream:
            yield stream

    packed_size = entry.compress_size
    n_unpacked = 0
    try:
        _check_entry(entry)
        limit = min(limits.max_file_bytes, n_bytes_left)
        _check_size(entry.file_size, packed_size, limit=limit, limits=limits)
        # The size in the header may be wrong, so that the size is counted here.
        n_unpacked = min(limit, _largest_unpacked(packed_size, limits))
        content = _read_within_limit(lambda: archive.open(entry), n_unpacked, reopened)
        n_unpacked = content.size
        _check_size(content.size, packed_size, limit=limit, limits=limits)
        head = content.head(_MAGIC_BYTES)
        is_gzip = suffix_of(name) == "gz" or head.startswith(GZIP_MAGIC)
        is_archive = suffix_of(name) in _ARCHIVES or head.startswith((GZIP_MAGIC, *ZIP_MAGIC))
        if is_archive and not (with_gzip and is_gzip):
            raise Unreadable(_NESTED)
    except Unreadable as error:
        return Member(name, refusal=str(error), n_unpacked=n_unpacked)
    except _DAMAGE as error:
        reason = reason_of(error)
        return Member(
            name,
            refusal=f"damaged in the archive, or packed in a way that is not supported ({reason})",
            n_unpacked=n_unpacked,
        )
    return Member(name, content, n_unpacked=n_unpacked)


_Opened = Callable[[], AbstractContextManager[Stream]]


def _read_within_limit(open_now: _Opened, limit: int, reopen: _Opened) -> Content:
    """Return the content of a stream, of which at most one byte beyond the limit is read.

    Small content is kept in memory. Larger content is opened again with `reopen` when it is read.
    """
    first_block = b""
    size = 0
    with open_now() as stream:
        while block := stream.read(min(BLOCK, limit + 1 - size)):
            first_block = first_block or block
            size += len(block)
    return (
        Content.of(first_block)
        if size == len(first_block) and size <= SMALL
        else Content(size, reopen)
    )


def _largest_unpacked(packed_size: int, limits: Limits) -> int:
    """Return the largest size in bytes by the limit of the compression ratio."""
    return max(_RATIO_FROM_BYTES, limits.max_compression_ratio * packed_size)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    path = entry.filename.replace("\\", "/")
    if path.startswith("/") or path[1:2] == ":" or ".." in path.split("/"):
        raise Unreadable(
            "its path leads out of the archive (it is absolute or contains ..). Pack the files"
            " again."
        )
    if entry.flag_bits & 0x1:
        raise Unreadable("encrypted in the archive. Pack it without a password.")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Unreadable("a link, not a file. Pack the file that it points to.")


def _check_size(size: int, packed: int, *, limit: int, limits: Limits) -> None:
    if size > _RATIO_FROM_BYTES and size > limits.max_compression_ratio * max(packed, 1):
        ratio = limits.max_compression_ratio
        raise Unreadable(f"compressed more than {ratio} to 1, as no structure file is; not opened")
    if size > limit:
        meaning = (
            "the remainder of the limit for the whole archive"
            if limit < limits.max_file_bytes
            else "the limit"
        )
        raise Unreadable(f"larger than {megabytes(limit)} when unpacked, {meaning}")

"""Zip archives and gzipped files, unpacked in memory within limits; nothing is ever written to disk."""

import gzip
import io
import lzma
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bandgap.foundation.errors import printable, reason_of
from bandgap.structures.draft import Unreadable
from bandgap.structures.formats import suffix_of
from bandgap.structures.records import Limits

ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
GZIP_MAGIC = b"\x1f\x8b"
_RATIO_FROM_BYTES = 1_000_000  # a small file may be all zeros
_IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}
_DAMAGE = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, ValueError, RuntimeError, NotImplementedError,
    MemoryError,
)  # fmt: skip
_NESTED = "an archive inside an archive is not opened. Unpack it once and upload what is inside."
_ARCHIVES = {"zip", "gz", "tgz", "tar", "bz2", "xz", "7z", "rar"}


@dataclass(frozen=True)
class Member:
    """One file of an archive: its bytes, or the sentence that says why it was not opened."""

    name: str
    data: bytes = b""
    refusal: str = ""


def is_ignored(path: str) -> bool:
    """Return whether a path is hidden or what macOS and Windows leave beside files (.DS_Store, __MACOSX)."""
    parts = path.replace("\\", "/").split("/")
    return any(part.lower() in _IGNORED or (part.startswith(".") and part not in (".", "..")) for part in parts)


def unzip(source: bytes | Path, *, limits: Limits) -> Iterator[Member]:
    """Yield the files of a zip archive (its bytes, or its path), each within the limits or with its refusal.

    Raises Unreadable when the archive as a whole cannot be opened.
    """
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    if size > limits.max_archive_bytes:
        raise Unreadable(f"the archive has {megabytes(size)}; the limit is {megabytes(limits.max_archive_bytes)}")
    try:
        archive = zipfile.ZipFile(io.BytesIO(source) if isinstance(source, bytes) else source)
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, UnicodeError) as error:
        raise Unreadable(f"not a zip archive that can be opened ({reason_of(error)}). Is the file cut off?") from None
    left = limits.max_archive_bytes
    with archive:
        for entry in archive.infolist():
            if entry.filename.endswith("/") or is_ignored(entry.filename):  # its is_dir fails on a name without letters
                continue
            member = _member(archive, entry, left=left, limits=limits)
            left -= len(member.data)
            yield member


def gunzip(data: bytes, *, limits: Limits) -> bytes:
    """Return the content of a gzipped file.

    Raises Unreadable on damage, and over the limits of size and compression ratio.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(limits.max_file_bytes + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise Unreadable(f"not a gzip file that can be opened ({reason_of(error)}). Is the file cut off?") from None
    _check_size(len(content), len(data), limit=limits.max_file_bytes, limits=limits)
    if content.startswith((GZIP_MAGIC, *ZIP_MAGIC)):
        raise Unreadable(_NESTED)
    return content


def megabytes(n_bytes: int) -> str:
    """Return a size as the user reads it."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 100_000 else f"{n_bytes:,} bytes"


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, *, left: int, limits: Limits) -> Member:
    name = printable(entry.filename)
    try:
        _check_entry(entry)
        limit = min(limits.max_file_bytes, left)
        if entry.file_size > limit:
            _check_size(entry.file_size, entry.compress_size, limit=limit, limits=limits)
        with archive.open(entry) as stream:
            content = stream.read(limit + 1)  # the size in the header may be a lie
        _check_size(len(content), entry.compress_size, limit=limit, limits=limits)
        if suffix_of(name) in _ARCHIVES or content.startswith((GZIP_MAGIC, *ZIP_MAGIC)):
            raise Unreadable(_NESTED)
    except Unreadable as error:
        return Member(name, refusal=str(error))
    except _DAMAGE as error:
        reason = reason_of(error)
        return Member(name, refusal=f"damaged in the archive, or packed in a way that is not supported ({reason})")
    return Member(name, content)


def _check_entry(entry: zipfile.ZipInfo) -> None:
    path = entry.filename.replace("\\", "/")
    if path.startswith("/") or path[1:2] == ":" or ".." in path.split("/"):
        raise Unreadable("its path leads out of the archive (it is absolute or holds ..). Pack the files again.")
    if entry.flag_bits & 0x1:
        raise Unreadable("encrypted in the archive. Pack it without a password.")
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise Unreadable("a link, not a file. Pack the file that it points to.")


def _check_size(size: int, packed: int, *, limit: int, limits: Limits) -> None:
    if size > _RATIO_FROM_BYTES and size > limits.max_compression_ratio * max(packed, 1):
        ratio = limits.max_compression_ratio
        raise Unreadable(f"compressed more than {ratio} to 1, as no structure file is; not opened")
    if size > limit:
        whole = "what is left of the limit for the whole archive" if limit < limits.max_file_bytes else "the limit"
        raise Unreadable(f"larger than {megabytes(limit)} when unpacked, {whole}")

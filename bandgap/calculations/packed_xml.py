"""Parse XML outputs as a stream, which may be gzipped, within limits.

The memory does not grow with the size of the file. What a file contains is collected by a handler.
"""

import gzip
import math
import re
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from xml.parsers import expat

from bandgap.structures.contents import GZIP_MAGIC, Content, Stream
from bandgap.structures.draft import Unreadable, number

CHUNK_BYTES = 2**16
_PIECE_BYTES = 256  # read at a time at the beginning of a file
MAX_BYTES = 20_000_000_000  # after decompression
MAX_RATIO = 50  # unpacked by packed size; real files have 10 to 25
_ROOT = re.compile(rb"<(?:\w+:)?(\w+)[\s/>]")
_COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)
_PACKED = {b"BZh": "bzip2", b"\xfd7zXZ": "xz", b"7z\xbc\xaf": "7z", b"\x1f\x9d": "compress"}


class Handler(Protocol):
    """Collects the content of a file; expat calls its methods."""

    has_started: bool  # whether the first element was read

    def start(self, tag: str, attributes: dict[str, str]) -> None: ...

    def add_text(self, text: str) -> None: ...

    def end(self, tag: str) -> None: ...


def parse_xml(content: Content, handler: Handler, *, program: str) -> None:
    """Give the elements of a file to a handler.

    Parameters
    ----------
    content
        File, which may be gzipped.
    handler
        Collects the content. It may raise Unreadable.
    program
        Name of the program that wrote the file, for messages.

    Raises
    ------
    Unreadable
        If the file is damaged, ends early, or is beyond the limits.
    """
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = handler.start
    parser.EndElementHandler = handler.end
    parser.CharacterDataHandler = handler.add_text

    def refuse_declaration(*_: object) -> None:
        # Entities of such a declaration can expand to any size.
        raise Unreadable(
            f"the file declares a document type (DOCTYPE), which {program} never writes"
        )

    parser.StartDoctypeDeclHandler = refuse_declaration
    n_bytes = 0
    try:
        for chunk in _chunks(content):
            parser.Parse(chunk, False)
            n_bytes += len(chunk)
            if n_bytes - parser.CurrentByteIndex > 16 * CHUNK_BYTES:
                raise Unreadable(f"an XML tag has more than 1 MB. {program} writes no such file")
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise Unreadable(_reason(error, has_started=handler.has_started)) from error
    except (gzip.BadGzipFile, EOFError, zlib.error, zipfile.BadZipFile) as error:
        raise Unreadable(
            "the compressed file is damaged or was cut off. Copy it again from where it was made"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreadable(f"the file cannot be opened ({reason})") from error


def number_or_nan(text: str) -> float:
    """Return a number, NaN for another text, such as the asterisks of one that is too long."""
    try:
        value = number(text)
    except ValueError:
        return math.nan
    return value if math.isfinite(value) else math.nan


def root_element(content: Content) -> str:
    """Return the name of the first element without its prefix, "" if it cannot be read.

    A packed file may end early: what comes before its end is searched.
    """
    match = _ROOT.search(_COMMENT.sub(b"", unpacked_head(content, CHUNK_BYTES)))
    return match.group(1).decode() if match else ""


def unpacked_head(content: Content, size: int) -> bytes:
    """Return the first `size` bytes after decompression, or those before a damaged place."""
    head = b""
    try:
        with _unpacked(content) as unpacked:
            while len(head) < size and (piece := unpacked.read(_PIECE_BYTES)):
                head += piece
    except (Unreadable, OSError, EOFError, zlib.error, zipfile.BadZipFile):
        pass
    return head


def is_packed_badly(content: Content) -> bool:
    """Return whether a file is gzipped but damaged, gzipped twice, or packed in another way."""
    try:
        head = content.head(6)
        if not head.startswith(GZIP_MAGIC):
            return head.startswith(tuple(_PACKED))
        with _unpacked(content) as stream:
            return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC
    except (OSError, EOFError, zlib.error, zipfile.BadZipFile):
        return True


@contextmanager
def _unpacked(content: Content) -> Iterator[Stream]:
    """Open a stream of a content, decompressed if it is gzipped."""
    head = content.head(6)
    for magic, name in _PACKED.items():
        if head.startswith(magic):
            raise Unreadable(
                f"a file packed with {name} is not opened. Unpack it, or pack it with gzip"
            )
    with content.opened() as stream:
        is_gzip = head.startswith(GZIP_MAGIC)
        yield gzip.GzipFile(fileobj=stream) if is_gzip else stream  # type: ignore[call-overload]


def _chunks(content: Content) -> Iterator[bytes]:
    """Yield the content of a file in pieces, decompressed."""
    with _unpacked(content) as stream:
        is_packed = isinstance(stream, gzip.GzipFile)
        largest = min(MAX_BYTES, max(MAX_RATIO * content.size, 10**7)) if is_packed else MAX_BYTES
        n_bytes = 0
        while chunk := stream.read(CHUNK_BYTES):
            if not n_bytes and is_packed and chunk.startswith(GZIP_MAGIC):
                raise Unreadable("the file was gzipped twice. Decompress it once with gunzip")
            n_bytes += len(chunk)
            if n_bytes > largest:
                raise Unreadable(
                    f"the file has more than {largest / 1e6:,.0f} MB after decompression, which no"
                    " output of this size has"
                )
            yield chunk
        if not n_bytes:
            raise Unreadable("the file is empty")


def _reason(error: expat.ExpatError, *, has_started: bool) -> str:
    ends_early = error.code in (
        expat.errors.codes[expat.errors.XML_ERROR_NO_ELEMENTS],
        expat.errors.codes[expat.errors.XML_ERROR_UNCLOSED_TOKEN],
        expat.errors.codes[expat.errors.XML_ERROR_PARTIAL_CHAR],
    )
    if not has_started:
        return (
            "the file is not XML. A vasprun.xml of VASP or an XML file of Quantum ESPRESSO is"
            " expected"
        )
    if ends_early:
        return (
            f"the file ends early, in line {error.lineno:,}: the calculation was stopped, is still"
            " running, or the file was cut off"
        )
    message = expat.ErrorString(error.code)
    return f"the file is damaged in line {error.lineno:,}, column {error.offset + 1:,} ({message})"

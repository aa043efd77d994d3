"""Decode the text of a file in UTF-8, UTF-16, UTF-32 or Latin-1; it can be read repeatedly."""

import codecs
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable

_MARKS = (  # UTF-32-LE comes before UTF-16-LE, whose mark it begins with
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
_END_OF_FILE = "\x1a"  # of DOS
_PROBED = 65_536  # bytes or characters that are tested


class Text:
    """The text of a content; iteration yields its lines.

    The encoding is UTF-8, UTF-16 or UTF-32, and Latin-1 if the bytes are none of these. All line
    ends become "\\n". Raises Unreadable if the bytes are not text.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._n_mark_bytes, self._encoding, self._errors = _encoding_of(content)
        probe = self.head(_PROBED)
        if len(_CONTROL.findall(probe)) > len(probe) // 1000:
            raise Unreadable(
                "a binary file, not text. Export the structure as a text file such as CIF or extXYZ"
            )

    def __iter__(self) -> Iterator[str]:
        line = "\n"
        with self._decoded() as text:
            for line in text:
                yield line.replace(_END_OF_FILE, "").removesuffix("\n")
        if line.endswith("\n"):
            yield ""

    def head(self, length: int) -> str:
        """Return the first `length` characters, or all if there are fewer."""
        head = ""
        with self._decoded() as text:
            while len(head) < length and (piece := text.read(length)):
                head += piece.replace(_END_OF_FILE, "")
        return head[:length]

    def read_all(self) -> str:
        """Return the whole text."""
        with self._decoded() as text:
            return text.read().replace(_END_OF_FILE, "")

    @contextmanager
    def _decoded(self) -> Iterator[TextIO]:
        with self._content.opened() as stream:
            stream.read(self._n_mark_bytes)
            yield io.TextIOWrapper(stream, self._encoding, self._errors)  # type: ignore[type-var]


def _encoding_of(content: Content) -> tuple[int, str, str]:
    """Return the length of the byte order mark, the encoding, and its handling of errors."""
    probe = content.head(_PROBED)
    for mark, encoding in _MARKS:
        if probe.startswith(mark):
            return len(mark), encoding, "replace"
    # In UTF-16, every second byte of ASCII text is zero.
    if probe.count(0) * 3 > len(probe):
        is_little_endian = probe[1::2].count(0) > probe[::2].count(0)
        return 0, "utf-16-le" if is_little_endian else "utf-16-be", "replace"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in content.blocks():
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return 0, "latin-1", "strict"
    return 0, "utf-8", "strict"

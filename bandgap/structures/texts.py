"""The text of a file in any usual encoding, line by line, as often as it is needed."""

import codecs
import io
import re
from collections.abc import Iterator

from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable

_MARKS = (  # UTF-32's mark begins with UTF-16's, so it comes first
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x19\x1b-\x1f]")
_PROBED = 65_536


class Text:
    """The text of a content: UTF-8, UTF-16, UTF-32 or, failing those, Latin-1; a walk through it gives its lines.

    Line ends are "\\n". Raises Unreadable when the bytes are not text.
    """

    def __init__(self, content: Content) -> None:
        self._content = content
        self._after, self._encoding, self._errors = _encoding_of(content)
        probe = _first(self._decoded(), _PROBED)
        if len(_CONTROL.findall(probe)) > len(probe) // 1000:
            raise Unreadable("a binary file, not text. Export the structure as a text file such as CIF or extXYZ")

    def __iter__(self) -> Iterator[str]:
        begun: list[str] = []  # of a line, which may be longer than a piece
        for piece in self._pieces():
            first, *lines = piece.split("\n")
            begun.append(first)
            if lines:
                yield "".join(begun)
                yield from lines[:-1]
                begun = [lines[-1]]
        yield "".join(begun)

    def head(self, length: int) -> str:
        """Return the first characters, at most so many."""
        return _first(self._pieces(), length)

    def whole(self) -> str:
        """Return all of the text."""
        return "".join(self._pieces())

    def _pieces(self) -> Iterator[str]:
        ends = io.IncrementalNewlineDecoder(None, translate=True)
        for piece in self._decoded():
            yield ends.decode(piece).replace("\x1a", "")  # end of file under DOS
        yield ends.decode("", final=True)

    def _decoded(self) -> Iterator[str]:
        decoder = codecs.getincrementaldecoder(self._encoding)(self._errors)
        for block in self._content.blocks(after=self._after):
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)


def _first(pieces: Iterator[str], length: int) -> str:
    found, n = [], 0
    for piece in pieces:
        found.append(piece)
        n += len(piece)
        if n >= length:
            break
    return "".join(found)[:length]


def _encoding_of(content: Content) -> tuple[int, str, str]:
    """Return the bytes of the mark, the encoding, and what is done with bytes that it does not have."""
    probe = content.head(_PROBED)
    for mark, encoding in _MARKS:
        if probe.startswith(mark):
            return len(mark), encoding, "replace"
    if probe.count(0) * 3 > len(probe):  # ASCII text in UTF-16 without its mark has a zero in every second byte
        return 0, "utf-16-le" if probe[1::2].count(0) > probe[::2].count(0) else "utf-16-be", "replace"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for block in content.blocks():
            decoder.decode(block)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return 0, "latin-1", "strict"
    return 0, "utf-8", "strict"

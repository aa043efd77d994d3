"""Bytes of a text file to text with plain line ends, whatever editor or system wrote them."""

import codecs
import re

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


def decode(data: bytes) -> str:
    """Return the text of `data` with "\\n" line ends: UTF-8, UTF-16, UTF-32 or, failing those, Latin-1.

    Raises Unreadable when the bytes are not text.
    """
    text = _decode(data)
    probe = text[:_PROBED]
    if len(_CONTROL.findall(probe)) > len(probe) // 1000:
        raise Unreadable("a binary file, not text. Export the structure as a text file such as CIF or extXYZ")
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\x1a", "")  # 1A: end of file under DOS


def _decode(data: bytes) -> str:
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    probe = data[:_PROBED]
    if probe.count(0) * 3 > len(probe):  # ASCII text in UTF-16 without its mark has a zero in every second byte
        return data.decode("utf-16-le" if probe[1::2].count(0) > probe[::2].count(0) else "utf-16-be", errors="replace")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")

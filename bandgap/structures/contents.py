"""The bytes of a file, which can be read repeatedly; only small files are kept in memory."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

SMALL = 1_000_000  # largest size in bytes that is kept in memory
BLOCK = 1_000_000  # bytes of one read of a larger file
ZIP_MAGIC = (b"PK\x03\x04", b"PK\x05\x06")
GZIP_MAGIC = b"\x1f\x8b"
_IGNORED = {"__macosx", "thumbs.db", "desktop.ini"}


class Stream(Protocol):
    """An open binary stream."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Content:
    """Bytes that can be read repeatedly.

    Parameters
    ----------
    size
        Number of bytes.
    opened
        Opens a new stream at the beginning of the bytes.
    path
        Path of a file with exactly these bytes, None if there is none.
    """

    size: int
    opened: Callable[[], AbstractContextManager[Stream]]
    path: Path | None = None

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return the content of bytes in memory."""
        return cls(len(data), lambda: io.BytesIO(data))

    @classmethod
    def at(cls, path: Path, *, size: int) -> Self:
        """Return the content of a file, which is in memory if it has at most `SMALL` bytes.

        Raises OSError if it cannot be read.
        """
        with path.open("rb") as stream:
            data = stream.read(SMALL + 1)
        if len(data) > SMALL:
            return cls(size, lambda: path.open("rb"), path)
        return cls(len(data), lambda: io.BytesIO(data), path)

    def head(self, size: int) -> bytes:
        """Return the first `size` bytes, or all if there are fewer."""
        with self.opened() as stream:
            return stream.read(size)

    def read_all(self) -> bytes:
        """Return all bytes."""
        with self.opened() as stream:
            return stream.read()

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes in blocks."""
        with self.opened() as stream:
            while block := stream.read(BLOCK):
                yield block

    def is_blank(self) -> bool:
        """Return whether the content is empty or has only white space."""
        return not any(block.strip() for block in self.blocks())

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[IO[bytes]]:
        """Open the file of these bytes, or an unnamed temporary file with them."""
        if self.path is not None:
            with self.path.open("rb") as file:
                yield file
            return
        with tempfile.TemporaryFile() as copy:
            for block in self.blocks():
                copy.write(block)
            copy.seek(0)
            yield copy


def is_ignored(path: str) -> bool:
    """Return whether a path is hidden, or a file of macOS or Windows such as __MACOSX."""
    parts = path.replace("\\", "/").split("/")
    return any(
        part.lower() in _IGNORED or (part.startswith(".") and part not in (".", ".."))
        for part in parts
    )


def megabytes(n_bytes: int) -> str:
    """Return a size in MB, or in bytes if it is small, for messages."""
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 100_000 else f"{n_bytes:,} bytes"

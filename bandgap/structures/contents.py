"""The bytes of a file, read in blocks as often as they are needed; only small files are held."""

import contextlib
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, Self

SMALL = 1_000_000  # bytes that are held
BLOCK = 1_000_000  # bytes that are read at once of what is not held


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int = -1, /) -> bytes: ...


@dataclass(frozen=True, eq=False)
class Content:
    """So many bytes, which every stream that is opened gives from their beginning on."""

    size: int
    opened: Callable[[], AbstractContextManager[Stream]]
    path: Path | None = None  # of the file that holds these bytes and no others

    @classmethod
    def of(cls, data: bytes) -> Self:
        """Return bytes that are held."""
        return cls(len(data), lambda: io.BytesIO(data))

    @classmethod
    def at(cls, path: Path, *, size: int) -> Self:
        """Return those of a file of this size. Raises OSError where it cannot be read."""
        found = cls(size, lambda: path.open("rb"), path)
        return found.held() or found

    def held(self) -> Self | None:
        """Return the same bytes in memory, None where they are many."""
        with self.opened() as stream:
            data = stream.read(SMALL + 1)
        return None if len(data) > SMALL else type(self)(len(data), lambda: io.BytesIO(data), self.path)

    def head(self, size: int) -> bytes:
        """Return the first bytes, at most so many."""
        with self.opened() as stream:
            return stream.read(size)

    def whole(self) -> bytes:
        """Return all bytes."""
        with self.opened() as stream:
            return stream.read()

    def blocks(self, *, after: int = 0) -> Iterator[bytes]:
        """Yield the bytes piece by piece, without the first `after`."""
        with self.opened() as stream:
            stream.read(after)
            while block := stream.read(BLOCK):
                yield block

    def is_blank(self) -> bool:
        """Return whether there are only blanks and line ends, or nothing."""
        return not any(block.strip() for block in self.blocks())

    @contextlib.contextmanager
    def on_disk(self) -> Iterator[IO[bytes]]:
        """Open the file that holds these bytes, or one without a name that is written for them."""
        if self.path is not None:
            with self.path.open("rb") as file:
                yield file
            return
        with tempfile.TemporaryFile() as written:
            for block in self.blocks():
                written.write(block)
            written.seek(0)
            yield written

"""Read uploaded files in a child process, with limits of CPU time and memory.

A damaged or hostile file can crash a reader, occupy it for hours or need all memory. Here it ends
only the child: the file gets a refused record with the reason, and the next file is read by a new
child. The limits are set on Linux and macOS, that of memory on Linux only.
"""

import base64
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from bandgap.foundation.children import in_child
from bandgap.foundation.errors import InputError
from bandgap.structures.contents import Content
from bandgap.structures.packed import from_parts
from bandgap.structures.packed import parts_of as bytes_of
from bandgap.structures.reading import Part, parts_of
from bandgap.structures.records import DEFAULT_LIMITS, Limits, StructureRecord, refused_record

# CPU time without a further structure, for a file of at most 1 MB. The slowest legal structures
# take 0.01 s.
SECONDS: Final = 10.0
SECONDS_PER_FURTHER_MB: Final = 6.0
# In addition to what the process needs without a file; for a file of at most 1 MB, and for each
# further byte.
MEMORY_BYTES: Final = 300_000_000
MEMORY_PER_BYTE: Final = 60
MAX_ENDED: Final = 3  # files of one archive that may end the child before it is given up


def read_upload(
    source: Path | bytes, name: str, *, limits: Limits = DEFAULT_LIMITS
) -> Iterator[StructureRecord]:
    """Yield the records of an uploaded file, by its path or its bytes; their ids may repeat."""
    return records_of_child(structure_items, source, name, limits=dataclasses.asdict(limits))


def structure_items(
    data: bytes, *, path: str, name: str, n_skipped: int, limits: dict[str, int]
) -> Iterator[Any]:
    """Yield what `records_of_child` reads of a file of structures, in the child."""
    parts = parts_of(content_of(data, path), name, limits=Limits(**limits))
    return items_of(parts, n_skipped)


def records_of_child(
    items: Callable[..., Iterable[Any]], source: Path | bytes, name: str, **arguments: Any
) -> Iterator[StructureRecord]:
    """Yield the records of a file or archive that a child reads by `items`.

    Without the structures after one that ends the child, or needs more time or memory than a file
    of this size may. Of an archive, the files after it are read.
    """
    data = b"" if isinstance(source, Path) else source
    path = os.path.abspath(source) if isinstance(source, Path) else ""
    size = os.path.getsize(path) if path else len(data)
    n_skipped = 0
    for _ in range(MAX_ENDED):
        part = ""
        n_of_part = 0
        answers = in_child(
            items,
            data,
            seconds=SECONDS + SECONDS_PER_FURTHER_MB * max(0.0, size / 1e6 - 1.0),
            n_bytes=MEMORY_BYTES + MEMORY_PER_BYTE * max(0, size - 1_000_000),
            path=path,
            name=name,
            n_skipped=n_skipped,
            **arguments,
        )
        try:
            for head, numbers in answers:
                if numbers is None:
                    part = head
                    n_skipped += 1
                    n_of_part = 0
                    continue
                n_of_part += 1
                yield from_parts(head.encode(), base64.b64decode(numbers)).unpack()
            return
        except InputError as error:
            after = f" after {n_of_part:,} structures" if n_of_part else ""
            file = part or name
            yield refused_record(file, file, f"reading was stopped{after}. {error}")
        if part in ("", name):
            return
    yield refused_record(
        name,
        name,
        f"the remaining files of the archive were not read, because {MAX_ENDED} of its files ended"
        " their reader. Delete these files from it, and pack it again.",
    )


def items_of(parts: Iterable[Part], n_skipped: int) -> Iterator[tuple[str, str | None]]:
    """Yield the name of every part and then its records, without the parts that were read before.

    A record is its line of JSON, and the numbers of its atoms in base64.
    """
    for index, part in enumerate(parts):
        if index < n_skipped:
            continue
        yield part.name, None
        for record in part.records:
            head, numbers = bytes_of(record)
            yield head.decode(), base64.b64encode(numbers).decode()


def content_of(data: bytes, path: str) -> Content:
    """Return the content of a file by its path, or of bytes if that is empty."""
    return Content.at(Path(path), size=os.path.getsize(path)) if path else Content.of(data)

"""Parquet decoded in a process of its own, batch after batch: damage may abort the decoder or ask for any memory.

pyarrow's reader is written in C++ and ends its process on some damaged files (pyarrow 26: "Definition level histogram
size mismatch"); a hundred bytes may also stand for a billion equal values. Here both end one child and become a
sentence; what comes back over the pipe was validated there.
"""

import json
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bandgap.structures import parquet_child
from bandgap.structures.contents import Content
from bandgap.structures.draft import Unreadable

if TYPE_CHECKING:
    import pyarrow

_CHILD = Path(parquet_child.__file__)
_DAMAGED = "a damaged Parquet file. Is it cut off? Write it again"


def parquet_batches(
    content: Content, names: Sequence[str], *, most_bytes: int
) -> "Generator[pyarrow.Schema | pyarrow.RecordBatch, None, None]":
    """Yield the schema of a Parquet file, then batches of its columns of these names and of all plain columns.

    Raises Unreadable on damage, where the table unpacks to more than `most_bytes`, and where pyarrow is not installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise Unreadable(_reason(parquet_child.NO_PYARROW, most_bytes)) from None
    words = [sys.executable, "-P", str(_CHILD), json.dumps(list(names)), str(most_bytes)]
    with content.on_disk() as file:
        child = subprocess.Popen(
            words, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    assert child.stdout is not None  # it is a pipe
    rows = 0
    try:
        pipe = pa.PythonFile(child.stdout, "r")
        yield pa.ipc.open_stream(pipe).read_all().schema
        reader = pa.ipc.open_stream(pipe)
        while (batch := _next(reader)) is not None:
            yield batch
            rows += batch.num_rows
        if code := child.wait():
            raise Unreadable(_reason(code, most_bytes, rows=rows))
    except (pa.ArrowException, OSError):
        child.kill()
        raise Unreadable(_reason(child.wait(), most_bytes, rows=rows)) from None
    finally:
        child.kill()
        child.stdout.close()
        child.wait()


def _next(reader: "pyarrow.RecordBatchReader") -> "pyarrow.RecordBatch | None":
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _reason(code: int, most_bytes: int, *, rows: int = 0) -> str:
    if code == parquet_child.NO_PYARROW:
        return "Parquet is read by pyarrow, which is not installed here. Run pip install pyarrow"
    if code == parquet_child.TOO_LARGE:
        return (
            f"the table has more than {most_bytes / 1e6:,.1f} MB when unpacked, which is the limit."
            " Split it, or leave out columns that are not needed"
        )
    return f"{_DAMAGED} (after row {rows:,})" if rows else _DAMAGED

"""Decode Parquet files in a separate process, in batches of rows.

A damaged file may end pyarrow's process (pyarrow 26: "Definition level histogram size mismatch"),
and a file of 100 bytes may describe a billion equal values. Here such files end only the decoder
process, and become an error message. The decoder validates the batches before it sends them.
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

_DECODER = Path(parquet_child.__file__)
_DAMAGED = "a damaged Parquet file. Is it cut off? Write it again"


def parquet_batches(
    content: Content, names: Sequence[str], *, max_bytes: int
) -> "Generator[pyarrow.Schema | pyarrow.RecordBatch, None, None]":
    """Yield the schema of a Parquet file, then batches of its rows.

    Parameters
    ----------
    content
        The file.
    names
        Columns of the batches, in addition to all plain columns (see `is_plain`).
    max_bytes
        Largest size of the unpacked columns.

    Raises
    ------
    Unreadable
        If the file is damaged, if it unpacks to more than `max_bytes`, or if pyarrow is not
        installed.
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise Unreadable(_failure_message(parquet_child.NO_PYARROW, max_bytes)) from None
    command = [sys.executable, "-P", str(_DECODER), json.dumps(list(names)), str(max_bytes)]
    with content.on_disk() as file:
        decoder = subprocess.Popen(
            command, stdin=file, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
    assert decoder.stdout is not None  # because of stdout=PIPE
    n_rows = 0
    try:
        pipe = pa.PythonFile(decoder.stdout, "r")
        yield pa.ipc.open_stream(pipe).read_all().schema
        reader = pa.ipc.open_stream(pipe)
        while (batch := _next_batch(reader)) is not None:
            yield batch
            n_rows += batch.num_rows
        if code := decoder.wait():
            raise Unreadable(_failure_message(code, max_bytes, n_rows=n_rows))
    except (pa.ArrowException, OSError):
        decoder.kill()
        raise Unreadable(_failure_message(decoder.wait(), max_bytes, n_rows=n_rows)) from None
    finally:
        decoder.kill()
        decoder.stdout.close()
        decoder.wait()


def _next_batch(reader: "pyarrow.RecordBatchReader") -> "pyarrow.RecordBatch | None":
    try:
        return reader.read_next_batch()
    except StopIteration:
        return None


def _failure_message(code: int, max_bytes: int, *, n_rows: int = 0) -> str:
    if code == parquet_child.NO_PYARROW:
        return "Parquet is read by pyarrow, which is not installed here. Run pip install pyarrow"
    if code == parquet_child.TOO_LARGE:
        return (
            f"the table has more than {max_bytes / 1e6:,.1f} MB when unpacked, which is the limit."
            " Split it, or leave out columns that are not needed"
        )
    return f"{_DAMAGED} (after row {n_rows:,})" if n_rows else _DAMAGED

"""A table of predictions as a Parquet file, converted from its CSV in batches: the same values."""

import csv
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bandgap.foundation.csv_tables import rearm
from bandgap.predictions.table import NUMBER_COLUMNS

if TYPE_CHECKING:
    import pyarrow

ROWS = 10_000  # in a batch


def csv_to_parquet(table: Path, out: Path) -> int:
    """Convert the CSV of a table of predictions with `write_parquet`; return the number of rows."""
    with table.open(encoding="utf-8", newline="") as lines:
        return write_parquet(lines, out)


def write_parquet(lines: Iterable[str], out: Path) -> int:
    """Write a table of predictions as Parquet atomically, and return the number of rows.

    `lines` are those of its CSV, the header first. Numbers are float64, null where a structure was
    refused. All other columns are text.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    reader = csv.reader(lines, strict=True)
    schema = pa.schema(
        [(name, pa.float64() if name in NUMBER_COLUMNS else pa.string()) for name in next(reader)]
    )
    partial = out.with_name(out.name + ".part")
    rows = 0
    with pq.ParquetWriter(partial, schema, compression="zstd") as writer:
        for batch in _batches(reader, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    partial.replace(out)
    return rows


def _batches(
    rows_of_text: Iterator[list[str]], schema: "pyarrow.Schema"
) -> "Iterator[pyarrow.RecordBatch]":
    import pyarrow as pa

    while rows := list(islice(rows_of_text, ROWS)):
        columns = zip(*rows, strict=True)
        values = [_values(name, cells) for name, cells in zip(schema.names, columns, strict=True)]
        yield pa.record_batch(values, schema=schema)


def _values(name: str, cells: tuple[str, ...]) -> list[Any]:
    if name in NUMBER_COLUMNS:
        return [float(cell) if cell else None for cell in cells]
    return [rearm(cell) for cell in cells]

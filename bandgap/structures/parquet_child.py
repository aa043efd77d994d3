"""Program of the process that decodes Parquet for `parquet_batches`, from stdin to stdout.

It writes two Arrow streams: the schema alone, and batches of the named columns and all plain
columns. Its exit code is 0, `DAMAGED`, `TOO_LARGE` or `NO_PYARROW`. A damaged file may also abort
it, and so may a file that needs more memory than its limit. It imports nothing of this package.
"""

import contextlib
import json
import os
import sys
from typing import Any, Final

DAMAGED: Final = 3
TOO_LARGE: Final = 4
NO_PYARROW: Final = 5
_ROWS = 256  # in a batch
_METADATA = 10_000_000  # largest number of bytes and items of the file's metadata
_BASE_BYTES = 2_000_000_000  # of address space without the data, mostly of libraries
_CPU_S = 900


def main() -> int:
    """Decode stdin and return the exit code.

    The first argument is the list of column names as JSON, the second the largest number of bytes
    of the unpacked columns.
    """
    names = json.loads(sys.argv[1])
    max_bytes = int(sys.argv[2])
    _limit(_BASE_BYTES + 4 * max_bytes)
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return NO_PYARROW
    try:
        settings = dict.fromkeys(
            ("thrift_string_size_limit", "thrift_container_size_limit"), _METADATA
        )
        file = pq.ParquetFile(
            pa.PythonFile(sys.stdin.buffer, "r"), page_checksum_verification=True, **settings
        )
        schema = file.schema_arrow.remove_metadata()
        out = pa.PythonFile(sys.stdout.buffer, "w")
        pa.ipc.new_stream(out, schema).close()
        columns = [field.name for field in schema if field.name in names or is_plain(field.type)]
        if _unpacked_bytes(file.metadata, columns) > max_bytes:
            return TOO_LARGE
        writer = None
        for batch in file.iter_batches(_ROWS, columns=columns, use_threads=False):
            batch.validate(full=True)
            if batch.nbytes > max_bytes:
                return TOO_LARGE
            writer = writer or pa.ipc.new_stream(out, batch.schema.remove_metadata())
            writer.write_batch(batch.replace_schema_metadata(None))
            sys.stdout.buffer.flush()
        writer = writer or pa.ipc.new_stream(out, pa.schema([]))
        writer.close()
    except MemoryError:
        return TOO_LARGE
    except (pa.ArrowException, OSError, ValueError, KeyError, OverflowError):
        return DAMAGED
    return 0


def _limit(n_bytes: int) -> None:
    try:
        import resource
    except ImportError:  # Windows has no such limits
        return
    limits = {resource.RLIMIT_AS: n_bytes, resource.RLIMIT_CPU: _CPU_S, resource.RLIMIT_CORE: 0}
    for kind, value in limits.items():
        with contextlib.suppress(ValueError, OSError):  # a lower limit is kept
            resource.setrlimit(kind, (value, value))


def is_plain(kind: Any) -> bool:
    """Return whether a column of this pyarrow type has a number, a text or a flag in each row."""
    import pyarrow.types as kinds

    plain = kind.value_type if kinds.is_dictionary(kind) else kind
    tests = (
        kinds.is_floating,
        kinds.is_integer,
        kinds.is_boolean,
        kinds.is_string,
        kinds.is_large_string,
    )
    return any(test(plain) for test in tests)


def _unpacked_bytes(metadata: Any, names: list[str]) -> int:
    """Return the unpacked size of the named columns by the file's metadata.

    A value counts as at least four bytes.
    """
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    all_chunks = (group.column(k) for group in groups for k in range(group.num_columns))
    chunks = [chunk for chunk in all_chunks if chunk.path_in_schema.partition(".")[0] in names]
    return sum(max(chunk.total_uncompressed_size, 4 * chunk.num_values) for chunk in chunks)


if __name__ == "__main__":
    exit_code = main()
    with contextlib.suppress(OSError):  # the reader has closed the pipe
        sys.stdout.flush()
    # Everything is sent: threads of libraries that abort at the end of Python are no damage.
    os._exit(exit_code)

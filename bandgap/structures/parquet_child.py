"""The program of the process that decodes a Parquet file (its stdin) for `parquet_batches`, to streams on its stdout.

First comes a stream of the schema alone, then one of batches: the columns that are named, and all plain ones. It ends
with `DAMAGED`, `TOO_LARGE` or `NO_PYARROW` where there is nothing more to send; a damaged file may also abort it, and
one that unpacks to more memory than it is given ends it. It imports nothing of this package.
"""

import contextlib
import json
import sys
from typing import Any, Final

DAMAGED: Final = 3
TOO_LARGE: Final = 4
NO_PYARROW: Final = 5
_ROWS = 256  # decoded at once
_METADATA = 10_000_000  # bytes and items of the file's description of itself
_BASE_BYTES = 2_000_000_000  # of address space beside what is unpacked: mostly that of libraries
_CPU_S = 900


def main() -> int:
    """Send the columns named in the first argument (JSON), of at most as many bytes as the second; return the code."""
    names, most = json.loads(sys.argv[1]), int(sys.argv[2])
    _limit(_BASE_BYTES + 4 * most)
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
        chosen = [field.name for field in schema if field.name in names or is_plain(field.type)]
        if _unpacked_bytes(file.metadata, chosen) > most:
            return TOO_LARGE
        writer = None
        for batch in file.iter_batches(_ROWS, columns=chosen, use_threads=False):
            batch.validate(full=True)
            if batch.nbytes > most:
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
    wanted = {resource.RLIMIT_AS: n_bytes, resource.RLIMIT_CPU: _CPU_S, resource.RLIMIT_CORE: 0}
    for kind, value in wanted.items():
        with contextlib.suppress(ValueError, OSError):  # where a lower limit stands, it stays
            resource.setrlimit(kind, (value, value))


def is_plain(kind: Any) -> bool:
    """Return whether a column of this type (of pyarrow) holds a number, text or flag in each row, which is a key."""
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
    """Return what the file says that its columns of these names unpack to, a value taking four bytes at least."""
    groups = [metadata.row_group(k) for k in range(metadata.num_row_groups)]
    every = (group.column(k) for group in groups for k in range(group.num_columns))
    chunks = [chunk for chunk in every if chunk.path_in_schema.partition(".")[0] in names]
    return sum(max(chunk.total_uncompressed_size, 4 * chunk.num_values) for chunk in chunks)


if __name__ == "__main__":
    sys.exit(main())

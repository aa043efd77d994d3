"""Safetensors files of any length: written in chunks, and mapped into memory when read.

Only a small part of a file is in memory at a time. The format is that of
https://github.com/huggingface/safetensors: the length of the header (8 bytes, little endian), the
header as JSON, and the values of all tensors one after the other.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from bandgap.foundation.damage import parse_json
from bandgap.foundation.errors import ArtifactError

CODES: Final[Mapping[str, str]] = {
    "float64": "F64",
    "float32": "F32",
    "int64": "I64",
    "int32": "I32",
    "int8": "I8",
    "uint16": "U16",
    "uint8": "U8",
    "bool": "BOOL",
}
_NAMES: Final = {code: name for name, code in CODES.items()}
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class LongTensor:
    """A tensor whose bytes (C order, little endian) come in chunks."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    chunks: Iterable[bytes]

    @staticmethod
    def of(values: NDArray[np.generic]) -> "LongTensor":
        """Return the tensor of an array in memory."""
        return LongTensor(values.dtype, values.shape, [np.ascontiguousarray(values).tobytes()])

    @staticmethod
    def read(file: IO[bytes], dtype: DTypeLike, shape: tuple[int, ...]) -> "LongTensor":
        """Return the tensor with the bytes of an open file."""
        return LongTensor(np.dtype(dtype), shape, _chunks(file))

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_tensors(
    path: Path, tensors: Mapping[str, LongTensor], *, metadata: Mapping[str, str | Iterable[str]]
) -> None:
    """Write a safetensors file completely or not at all.

    Parameters
    ----------
    path
        Path of the file.
    tensors
        Tensors by name.
    metadata
        Texts by name; a text may come in pieces.

    Raises
    ------
    ArtifactError
        If the number of bytes of a tensor does not match its shape.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".part")
    try:
        with partial.open("wb") as file:
            file.write(bytes(8))
            for piece in _header(tensors, metadata):
                file.write(piece.encode("ascii"))
            file.write(b" " * (-file.tell() % 8))
            length = file.tell() - 8
            for name, tensor in tensors.items():
                _write(file, tensor, where=f"{path}: {name}")
            file.seek(0)
            file.write(length.to_bytes(8, "little"))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def mapped_tensors(path: Path) -> tuple[dict[str, str], dict[str, NDArray[np.generic]]]:
    """Return the metadata of a safetensors file, and its tensors mapped into memory, read-only.

    The values are read when they are used. The file must not change meanwhile; it may be replaced
    by another. Raises OSError if it cannot be read, and ValueError if it is damaged.
    """
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = path.stat().st_size
        if not 2 <= length <= size - 8:
            raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
        header = parse_json(file.read(length), what=f"{path}, header")
    if not isinstance(header, dict):
        raise ValueError("a header that is no table")
    metadata = header.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(t, dict) for t in header.values()):
        raise ValueError("a header of other values than tables")
    offset = 8 + length
    return metadata, {
        name: _mapped(path, entry, offset=offset, n_bytes=size - offset)
        for name, entry in header.items()
    }


def _mapped(
    path: Path, entry: Mapping[str, Any], *, offset: int, n_bytes: int
) -> NDArray[np.generic]:
    """Map one tensor; `n_bytes` are those of all tensors, from `offset` in the file."""
    try:
        dtype = np.dtype(_NAMES[entry["dtype"]])
        shape = tuple(int(size) for size in entry["shape"])
        first, last = (int(position) for position in entry["data_offsets"])
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"a tensor without its {error}") from error
    if (
        min(shape, default=0) < 0
        or not 0 <= first <= last <= n_bytes
        or last - first != math.prod(shape) * dtype.itemsize
    ):
        raise ValueError(f"a tensor of shape {shape} at bytes {first:,} to {last:,} of {n_bytes:,}")
    if first == last:
        return np.zeros(shape, dtype=dtype)  # an empty range cannot be mapped
    return np.memmap(path, dtype=dtype, mode="r", offset=offset + first, shape=shape)


def _header(
    tensors: Mapping[str, LongTensor], metadata: Mapping[str, str | Iterable[str]]
) -> Iterator[str]:
    """Yield the header in pieces of ASCII; JSON escapes each character of a text on its own."""
    yield '{"__metadata__": {'
    for k, (name, text) in enumerate(metadata.items()):
        yield f'{", " if k else ""}{json.dumps(name)}: "'
        for piece in [text] if isinstance(text, str) else text:
            yield json.dumps(piece)[1:-1]
        yield '"'
    yield "}"
    position = 0
    for name, tensor in tensors.items():
        entry = {
            "dtype": CODES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [position, position + tensor.n_bytes],
        }
        yield f", {json.dumps(name)}: {json.dumps(entry)}"
        position += tensor.n_bytes
    yield "}"


def _write(file: IO[bytes], tensor: LongTensor, *, where: str) -> None:
    written = sum(file.write(chunk) for chunk in tensor.chunks)
    if written != tensor.n_bytes:
        raise ArtifactError(
            f"{where}: {written:,} bytes, but its shape {tensor.shape} needs {tensor.n_bytes:,}."
        )


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    file.seek(0)
    while chunk := file.read(_CHUNK_BYTES):
        yield chunk

"""Safetensors files of any length, written from what lies on the disk already, and read where it lies.

However long they are, little of them is held at once.

The format is that of https://github.com/huggingface/safetensors: the length of the header (8 bytes, little endian), the
header as JSON, and the numbers of all tensors one after the other.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

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
_BLOCK = 1 << 20


@dataclass(frozen=True)
class LongTensor:
    """A tensor whose bytes (C order, little endian) come block by block."""

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    blocks: Iterable[bytes]

    @staticmethod
    def of(values: NDArray[np.generic]) -> "LongTensor":
        """Return that of an array that is in memory."""
        return LongTensor(values.dtype, values.shape, [np.ascontiguousarray(values).tobytes()])

    @staticmethod
    def read(file: BinaryIO, dtype: DTypeLike, shape: tuple[int, ...]) -> "LongTensor":
        """Return that of a whole open file."""
        return LongTensor(np.dtype(dtype), shape, _blocks(file))

    @property
    def n_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def write_tensors(
    path: Path, tensors: Mapping[str, LongTensor], *, metadata: Mapping[str, str | Iterable[str]]
) -> None:
    """Write a safetensors file, whole or not at all; a text of the metadata may come in pieces.

    Raises ArtifactError where the blocks of a tensor are not as long as its shape says.
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
    """Return the metadata of a safetensors file, and its tensors mapped into memory: read when they are looked at.

    They cannot be written to. The file must not change while they are in use; it may be replaced by another. Raises
    OSError where it cannot be read, and ValueError where it is damaged.
    """
    with path.open("rb") as file:
        length, size = int.from_bytes(file.read(8), "little"), path.stat().st_size
        if not 2 <= length <= size - 8:
            raise ValueError(f"a header of {length:,} bytes in a file of {size:,}")
        facts = parse_json(file.read(length), what=f"{path}, header")
    if not isinstance(facts, dict):
        raise ValueError("a header that is no table")
    metadata = facts.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(own, dict) for own in facts.values()):
        raise ValueError("a header of other values than tables")
    begin = 8 + length
    return metadata, {
        name: _mapped(path, own, begin=begin, n_bytes=size - begin) for name, own in facts.items()
    }


def _mapped(
    path: Path, facts: Mapping[str, Any], *, begin: int, n_bytes: int
) -> NDArray[np.generic]:
    """Map one tensor, of `n_bytes` of them all from byte `begin` on."""
    try:
        dtype, shape = np.dtype(_NAMES[facts["dtype"]]), tuple(int(size) for size in facts["shape"])
        first, last = (int(place) for place in facts["data_offsets"])
    except (KeyError, TypeError, OverflowError) as error:
        raise ValueError(f"a tensor without its {error}") from error
    if (
        min(shape, default=0) < 0
        or not 0 <= first <= last <= n_bytes
        or last - first != math.prod(shape) * dtype.itemsize
    ):
        raise ValueError(f"a tensor of shape {shape} at bytes {first:,} to {last:,} of {n_bytes:,}")
    if first == last:
        return np.zeros(shape, dtype=dtype)  # nothing can be mapped
    return np.memmap(path, dtype=dtype, mode="r", offset=begin + first, shape=shape)


def _header(
    tensors: Mapping[str, LongTensor], metadata: Mapping[str, str | Iterable[str]]
) -> Iterator[str]:
    """Yield the header in pieces; JSON writes nothing but ASCII, so that each piece of a text stands for itself."""
    yield '{"__metadata__": {'
    for k, (name, text) in enumerate(metadata.items()):
        yield f'{", " if k else ""}{json.dumps(name)}: "'
        for piece in [text] if isinstance(text, str) else text:
            yield json.dumps(piece)[1:-1]
        yield '"'
    yield "}"
    at = 0
    for name, tensor in tensors.items():
        facts = {
            "dtype": CODES[tensor.dtype.name],
            "shape": list(tensor.shape),
            "data_offsets": [at, at + tensor.n_bytes],
        }
        yield f", {json.dumps(name)}: {json.dumps(facts)}"
        at += tensor.n_bytes
    yield "}"


def _write(file: BinaryIO, tensor: LongTensor, *, where: str) -> None:
    written = sum(file.write(block) for block in tensor.blocks)
    if written != tensor.n_bytes:
        raise ArtifactError(
            f"{where}: {written:,} bytes, but its shape {tensor.shape} needs {tensor.n_bytes:,}."
        )


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    file.seek(0)
    while block := file.read(_BLOCK):
        yield block

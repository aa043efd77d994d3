"""Safetensors files in chunks: the library reads them, and failed writes leave nothing."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.tensor_files import CODES, LongTensor, mapped_tensors, write_tensors


def test_library_reads_every_type_and_texts_in_pieces(tmp_path: Path) -> None:
    arrays = {name: (np.arange(6).reshape(2, 3) % 2).astype(name) for name in CODES}
    arrays["nothing"] = np.zeros((0, 4))
    path = tmp_path / "deep" / "t.safetensors"
    text = 'a "quoted" \\ text with ä and \n'
    metadata = {"whole": text, "pieces": iter([json.dumps(text)[:9], json.dumps(text)[9:]])}
    write_tensors(
        path, {name: LongTensor.of(array) for name, array in arrays.items()}, metadata=metadata
    )
    with safe_open(str(path), framework="numpy") as stored:
        for name, array in arrays.items():
            tensor = stored.get_tensor(name)
            np.testing.assert_array_equal(tensor, array)
            assert tensor.dtype == array.dtype and tensor.shape == array.shape
        assert stored.metadata() == {"whole": text, "pieces": json.dumps(text)}


def test_tensor_of_several_chunks_and_of_a_file(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(400_000,))
    (tmp_path / "raw").write_bytes(values.tobytes())
    chunks = LongTensor(
        values.dtype,
        values.shape,
        (values[k : k + 1000].tobytes() for k in range(0, 400_000, 1000)),
    )
    with (tmp_path / "raw").open("rb") as file:
        tensors = {"chunks": chunks, "file": LongTensor.read(file, np.float64, (400, 1000))}
        write_tensors(tmp_path / "t", tensors, metadata={})
    with safe_open(str(tmp_path / "t"), framework="numpy") as stored:
        np.testing.assert_array_equal(stored.get_tensor("chunks"), values)
        np.testing.assert_array_equal(stored.get_tensor("file"), values.reshape(400, 1000))


def test_chunks_that_do_not_fill_the_shape_leave_no_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("before")
    with pytest.raises(ArtifactError, match=r"t: short: 16 bytes, but its shape \(3,\) needs 24\."):
        write_tensors(
            tmp_path / "t", {"short": LongTensor(np.dtype(float), (3,), [bytes(16)])}, metadata={}
        )
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("t", "before")]


def test_mapped_tensors_are_equal_to_the_written_ones_and_read_only(tmp_path: Path) -> None:
    arrays = {name: (np.arange(6).reshape(2, 3) % 2).astype(name) for name in CODES} | {
        "nothing": np.zeros((0, 4))
    }
    path = tmp_path / "t.safetensors"
    write_tensors(
        path, {name: LongTensor.of(array) for name, array in arrays.items()}, metadata={"a": 'ä"'}
    )
    metadata, tensors = mapped_tensors(path)
    assert metadata == {"a": 'ä"'} and set(tensors) == set(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(tensors[name], array)
        assert (tensors[name].dtype, tensors[name].shape) == (array.dtype, array.shape)
    with pytest.raises(ValueError, match="read-only"):
        tensors["float64"][0, 0] = 1.0
    path.unlink()
    # The file remains until its arrays are deleted.
    np.testing.assert_array_equal(tensors["float64"], arrays["float64"])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data[:5], "a header of"),
        (lambda data: b"\xff" * 8 + data[8:], "a header of"),
        (lambda data: data[:-8], "at bytes 0 to 24 of 16"),
        (
            lambda data: data.replace(b'"shape": [3]', b'"shape": [4]'),
            r"shape \(4,\) at bytes 0 to 24",
        ),
        (lambda data: data.replace(b'"shape": [3]', b'"shape": [9'), "delimiter"),
        (lambda data: data.replace(b'"F64"', b'"F99"'), "a tensor without its 'F99'"),
        (lambda data: data.replace(b'"shape"', b'"shapo"'), "a tensor without its 'shape'"),
        (lambda data: (8).to_bytes(8, "little") + b"[1, 2]  ", "no table"),
    ],
    ids=("short", "long header", "cut off", "shape", "json", "dtype", "no shape", "a list"),
)
def test_damaged_files_are_not_mapped(
    tmp_path: Path, change: Callable[[bytes], bytes], text: str
) -> None:
    path = tmp_path / "t"
    write_tensors(path, {"a": LongTensor.of(np.arange(3.0))}, metadata={})
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(ValueError, match=text):
        mapped_tensors(path)

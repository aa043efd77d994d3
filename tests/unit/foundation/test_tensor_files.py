"""Safetensors files from parts: the library reads what was written, and nothing is left of what went wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from bandgap.foundation.errors import ArtifactError
from bandgap.foundation.tensor_files import CODES, LongTensor, write_tensors


def test_library_reads_every_type_and_texts_in_pieces(tmp_path: Path) -> None:
    arrays = {name: (np.arange(6).reshape(2, 3) % 2).astype(name) for name in CODES}
    arrays["nothing"] = np.zeros((0, 4))
    path = tmp_path / "deep" / "t.safetensors"
    text = 'a "quoted" \\ text with ä and \n'
    metadata = {"whole": text, "pieces": iter([json.dumps(text)[:9], json.dumps(text)[9:]])}
    write_tensors(path, {name: LongTensor.of(array) for name, array in arrays.items()}, metadata=metadata)
    with safe_open(str(path), framework="numpy") as stored:
        for name, array in arrays.items():
            found = stored.get_tensor(name)
            np.testing.assert_array_equal(found, array)
            assert found.dtype == array.dtype and found.shape == array.shape
        assert stored.metadata() == {"whole": text, "pieces": json.dumps(text)}


def test_tensor_of_several_blocks_and_of_a_file(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(400_000,))
    (tmp_path / "raw").write_bytes(values.tobytes())
    blocks = LongTensor(values.dtype, values.shape, (values[k : k + 1000].tobytes() for k in range(0, 400_000, 1000)))
    with (tmp_path / "raw").open("rb") as file:
        tensors = {"blocks": blocks, "file": LongTensor.read(file, np.float64, (400, 1000))}
        write_tensors(tmp_path / "t", tensors, metadata={})
    with safe_open(str(tmp_path / "t"), framework="numpy") as stored:
        np.testing.assert_array_equal(stored.get_tensor("blocks"), values)
        np.testing.assert_array_equal(stored.get_tensor("file"), values.reshape(400, 1000))


def test_blocks_that_do_not_fill_the_shape_leave_no_file(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("before")
    with pytest.raises(ArtifactError, match=r"t: short: 16 bytes, but its shape \(3,\) needs 24\."):
        write_tensors(tmp_path / "t", {"short": LongTensor(np.dtype(float), (3,), [bytes(16)])}, metadata={})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("t", "before")]

"""The descriptor cache returns what was stored, and damaged files never stop a computation."""

import logging
import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bandgap.descriptors.cache import DescriptorCache

WIDTH = 50


def vector(seed: int) -> NDArray[np.float32]:
    """Return a vector (WIDTH,) that cannot be compressed."""
    return np.random.default_rng(seed).normal(size=WIDTH).astype(np.float32)


def test_cache_returns_what_was_stored_and_nothing_else(tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path)
    cache.put_many({"a": vector(1), "b": vector(2)})
    vectors = cache.get_many(["a", "b", "c"], width=WIDTH)
    assert set(vectors) == {"a", "b"}
    np.testing.assert_array_equal(vectors["b"], vector(2))
    assert vectors["b"].dtype == np.float32
    assert len(cache) == 2


def test_cache_holds_thousands_of_vectors_in_one_file(tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path)
    cache.put_many({str(i): np.zeros(WIDTH, dtype=np.float32) for i in range(3000)})
    assert len(cache.get_many([str(i) for i in range(4000)], width=WIDTH)) == 3000
    assert [p.name for p in tmp_path.iterdir()] == ["descriptors.sqlite"]


@pytest.mark.parametrize(
    "damage",
    [b"this is no database" * 100, b"SQLite format 3\0" + bytes(3000)],
    ids=["text", "zeros"],
)
def test_cache_file_that_is_damaged_is_rebuilt_with_a_warning(
    damage: bytes, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = DescriptorCache(tmp_path)
    cache.path.write_bytes(damage)
    assert cache.get_many(["a"], width=WIDTH) == {}
    cache.put_many({"a": vector(1)})
    assert set(cache.get_many(["a"], width=WIDTH)) == {"a"}
    assert caplog.text.count("is damaged") == 1
    assert "it is rebuilt" in caplog.text


def test_cache_file_overwritten_in_the_middle_never_raises(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = DescriptorCache(tmp_path)
    keys = [str(i) for i in range(500)]
    cache.put_many({key: vector(int(key)) for key in keys})
    content = bytearray(cache.path.read_bytes())
    content[4096:] = bytes(b ^ 0xA5 for b in content[4096:])
    cache.path.write_bytes(bytes(content))
    for key, row in cache.get_many(keys, width=WIDTH).items():
        np.testing.assert_array_equal(row, vector(int(key)))
    cache.put_many({"new": vector(7)})
    assert set(cache.get_many(["new"], width=WIDTH)) == {"new"}
    assert "is rebuilt" in caplog.text


@pytest.mark.parametrize(
    "value", [b"", b"no zlib", b"x\x9c\x03\x00\x00\x00\x00\x01"], ids=["empty", "text", "no bytes"]
)
def test_cache_entry_that_is_damaged_counts_as_missing(value: bytes, tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path)
    cache.put_many({"a": vector(1), "b": vector(2)})
    with sqlite3.connect(cache.path) as db:
        db.execute("UPDATE vectors SET value = ? WHERE key = 'a'", [value])
    db.close()
    assert set(cache.get_many(["a", "b"], width=WIDTH)) == {"b"}


def test_cache_entry_of_another_width_counts_as_missing(tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path)
    cache.put_many({"a": vector(1)})
    assert cache.get_many(["a"], width=WIDTH + 1) == {}


def test_cache_that_cannot_be_written_is_not_used_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a folder")
    cache = DescriptorCache(tmp_path / "file")
    cache.put_many({"a": vector(1)})
    assert cache.get_many(["a"], width=WIDTH) == {}
    assert "cannot be used" in caplog.text
    assert "it is not used" in caplog.text


def test_cache_over_its_limit_removes_the_least_recently_used_vectors(tmp_path: Path) -> None:
    cache = DescriptorCache(tmp_path, max_bytes=300_000)
    for start in range(0, 2000, 100):
        cache.put_many({str(i): vector(i) for i in range(start, start + 100)})
    remaining = {int(key) for key in cache.get_many([str(i) for i in range(2000)], width=WIDTH)}
    assert 500 < len(remaining) < 1500
    assert remaining == set(range(2000 - len(remaining), 2000))


def _write(folder: Path, first: int) -> None:
    cache = DescriptorCache(folder)
    for i in range(first, first + 100):
        cache.put_many({str(i): vector(i)})


def test_cache_written_by_several_processes_at_once_loses_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    processes = [
        multiprocessing.get_context("spawn").Process(target=_write, args=(tmp_path, i * 100))
        for i in range(3)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0, 0]
    with caplog.at_level(logging.WARNING):
        vectors = DescriptorCache(tmp_path).get_many([str(i) for i in range(300)], width=WIDTH)
    assert len(vectors) == 300
    assert caplog.text == ""

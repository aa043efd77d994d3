"""A function in another interpreter: its items, its errors, and the limits of time and memory."""

import sys
from collections.abc import Iterator

import pytest

from bandgap.foundation.children import in_child
from bandgap.foundation.errors import InputError


def reversed_text(data: bytes, *, times: int) -> Iterator[str]:
    for _ in range(times):
        yield data.decode()[::-1]


def refused(data: bytes) -> Iterator[str]:
    yield "before"
    raise InputError(f"found {len(data)} bytes")


def endless(data: bytes) -> Iterator[str]:
    yield "before"
    while True:
        pass


def large(data: bytes) -> Iterator[int]:
    yield len(bytearray(int(data)))


def test_items_and_error_come_back() -> None:
    assert list(in_child(reversed_text, b"abc", seconds=9, n_bytes=10**8, times=2)) == ["cba"] * 2
    items = in_child(refused, b"abc", seconds=9, n_bytes=10**8)
    assert next(items) == "before"
    with pytest.raises(InputError, match="^found 3 bytes$"):
        next(items)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set on Linux")
def test_memory_is_limited() -> None:
    assert list(in_child(large, b"50000000", seconds=9, n_bytes=10**8)) == [50_000_000]
    with pytest.raises(InputError, match="more than 9 s or 100 MB of memory"):
        list(in_child(large, b"200000000", seconds=9, n_bytes=10**8))


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_time_is_limited() -> None:
    items = in_child(endless, seconds=1, n_bytes=10**8)
    assert next(items) == "before"
    with pytest.raises(InputError, match="more than 1 s"):
        next(items)

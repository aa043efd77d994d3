"""A function in a new interpreter: its result, its errors, and the limits of time and memory."""

import sys

import pytest

from bandgap.foundation.children import in_child
from bandgap.foundation.errors import InputError


def reversed_text(data: bytes, *, times: int) -> str:
    return data.decode()[::-1] * times


def refused(data: bytes) -> str:
    raise InputError(f"found {len(data)} bytes")


def endless(data: bytes) -> str:
    while True:
        pass


def large(data: bytes) -> int:
    return len(bytearray(int(data)))


def test_result_and_error_come_back() -> None:
    assert in_child(reversed_text, b"abc", seconds=9, n_bytes=10**8, times=2) == "cbacba"
    with pytest.raises(InputError, match="^found 3 bytes$"):
        in_child(refused, b"abc", seconds=9, n_bytes=10**8)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of memory are set on Linux")
def test_memory_is_limited() -> None:
    assert in_child(large, b"50000000", seconds=9, n_bytes=10**8) == 50_000_000
    with pytest.raises(InputError, match="more than 9 s or 100 MB of memory"):
        in_child(large, b"200000000", seconds=9, n_bytes=10**8)


@pytest.mark.skipif(sys.platform == "win32", reason="limits of POSIX")
def test_time_is_limited() -> None:
    with pytest.raises(InputError, match="more than 1 s"):
        in_child(endless, b"", seconds=1, n_bytes=10**8)

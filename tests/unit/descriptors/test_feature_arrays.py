"""Feature arrays in files behave as arrays in memory, and a full disk is reported."""

import gc
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from bandgap.descriptors import feature_arrays
from bandgap.descriptors.feature_arrays import mapped_array, take_rows
from bandgap.foundation.errors import BudgetError


def test_mapped_array_is_empty_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    array = mapped_array(5000, 3)
    assert array.shape == (5000, 3) and array.dtype == np.float32 and np.isnan(array).all()
    array[4999] = 1.0
    assert list(tmp_path.iterdir()) == [] and array[4999].tolist() == [1.0] * 3
    del array
    gc.collect()


@pytest.mark.parametrize("mapped", [False, True])
def test_take_rows_returns_these_rows(mapped, monkeypatch):
    monkeypatch.setattr(feature_arrays, "_CHUNK_ROWS", 4)
    values = np.arange(60, dtype=np.float32).reshape(20, 3)
    features = values.copy()
    if mapped:
        features = mapped_array(20, 3)
        features[:] = values
    rows = np.array([0, 2, 3, 4, 9, 10, 11, 17, 19])
    np.testing.assert_array_equal(take_rows(features, rows), values[rows])
    assert take_rows(values, np.arange(20)) is values


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system does not report resident memory"
)
def test_take_rows_of_a_mapped_array_releases_memory():
    features = mapped_array(50_000, 500)
    features[:] = 1.0
    before = resident_bytes()
    half = take_rows(features, np.arange(0, 50_000, 2))
    assert resident_bytes() < before - 0.8 * features.nbytes
    assert (half == 1.0).all() and half.shape == (25_000, 500)


def resident_bytes() -> int:
    """Return the memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room on a disk"
)
def test_full_disk_is_reported_before_anything_is_written():
    with pytest.raises(
        BudgetError, match=r"need 4000000\.00 GB on the disk of .*Free some, or name another folder"
    ):
        mapped_array(10**12, 1000)

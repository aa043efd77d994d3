"""Arrays of features in files: they are arrays like others, and a full disk is a sentence."""

import gc
import os
from pathlib import Path

import numpy as np
import pytest

from bandgap.descriptors import feature_arrays
from bandgap.descriptors.feature_arrays import chosen_rows, mapped_array
from bandgap.foundation.errors import BudgetError


def test_mapped_array_is_empty_and_leaves_no_file(tmp_path):
    array = mapped_array(5000, 3, folder=tmp_path)
    assert array.shape == (5000, 3) and array.dtype == np.float32 and np.isnan(array).all()
    array[4999] = 1.0
    assert list(tmp_path.iterdir()) == [] and array[4999].tolist() == [1.0] * 3
    del array
    gc.collect()


@pytest.mark.parametrize("mapped", [False, True])
def test_chosen_rows_are_those_asked_for(mapped, monkeypatch):
    monkeypatch.setattr(feature_arrays, "_ROWS", 4)
    whole = np.arange(60, dtype=np.float32).reshape(20, 3)
    features = whole.copy()
    if mapped:
        features = mapped_array(20, 3)
        features[:] = whole
    rows = np.array([0, 2, 3, 4, 9, 10, 11, 17, 19])
    np.testing.assert_array_equal(chosen_rows(features, rows), whole[rows])
    assert chosen_rows(whole, np.arange(20)) is whole


@pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the system does not tell what is in memory"
)
def test_chosen_rows_of_a_mapped_array_give_memory_back():
    features = mapped_array(50_000, 500)
    features[:] = 1.0
    before = resident_bytes()
    kept = chosen_rows(features, np.arange(0, 50_000, 2))
    assert resident_bytes() < before - 0.8 * features.nbytes
    assert (kept == 1.0).all() and kept.shape == (25_000, 500)


def resident_bytes() -> int:
    """Memory of this process, mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(
    not hasattr(os, "posix_fallocate"), reason="the system cannot reserve room on a disk"
)
def test_disk_without_room_is_told_before_anything_is_written(tmp_path):
    with pytest.raises(
        BudgetError, match=r"need 4000000\.00 GB on the disk of .*Free some, or name another folder"
    ):
        mapped_array(10**12, 1000, folder=tmp_path)

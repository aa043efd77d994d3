"""The peak of memory that a run records."""

import numpy as np

from bandgap.foundation.machine import peak_memory_bytes


def test_peak_memory_of_the_process_remains_after_the_memory_is_freed():
    array = np.ones(200_000_000 // 8)
    during = peak_memory_bytes()["process"]
    del array
    assert during is not None and during > 200_000_000
    # Linux counts pages per core and adds them up only sometimes.
    assert peak_memory_bytes()["process"] > 0.98 * during

"""The peak of memory that a run records."""

import numpy as np

from bandgap.foundation.machine import peak_memory_bytes


def test_peak_memory_of_the_process_stays_when_what_was_held_is_gone():
    held = np.ones(200_000_000 // 8)
    during = peak_memory_bytes()["process"]
    del held
    assert during is not None and during > 200_000_000
    assert (
        peak_memory_bytes()["process"] > 0.98 * during
    )  # Linux counts pages per core and adds them up now and then


def test_peak_memory_without_a_gpu_in_use_is_not_known_for_it():
    assert peak_memory_bytes()["gpu"] is None

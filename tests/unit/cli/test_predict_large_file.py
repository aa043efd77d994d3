"""The memory of `bandgap predict` does not grow with the file that it reads."""

from pathlib import Path

import pytest

from bandgap.benchmarks.prediction_speed import measure
from tests.unit.cli.conftest import WATER

pytestmark = pytest.mark.slow
LONGEST_RATIO = 1.2  # of the peaks for a file of 120 MB and one of 30 MB; held as bytes and text, it was more than 1.4


@pytest.mark.parametrize("jobs", (1, 2))
def test_memory_of_predict_does_not_grow_with_the_file(model: Path, tmp_path: Path, jobs: int) -> None:
    peaks = {}
    for n in (1_600, 6_400):
        path, note = tmp_path / f"{n}.extxyz", "x" * 19_000  # so that few molecules make a large file
        with path.open("w") as file:
            for k in range(n):
                water = WATER.format(id=f"w{k}", gap=1, height=-0.06 - 1e-5 * k)
                file.write(water.replace(" pbc=", f" note={note} pbc="))
        words = ("predict", "--model", model, "--structures", path, "--chunk", 100, "--jobs", jobs)
        peaks[n] = measure((*words, "--out", tmp_path / "t.csv")).peak_bytes
        assert (tmp_path / "t.csv").read_bytes().count(b"\n") == n + 1
    assert peaks[6_400] < LONGEST_RATIO * peaks[1_600], peaks

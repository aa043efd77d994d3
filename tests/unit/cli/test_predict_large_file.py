"""The memory of `bandgap predict` does not grow with the file that it reads."""

from pathlib import Path

import pytest

from benchmarks.prediction_speed import measure
from tests.unit.cli.conftest import WATER

pytestmark = pytest.mark.slow
LARGEST_RATIO = 1.2  # of the peaks for files of 320 and 80 MB


@pytest.mark.parametrize("jobs", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_memory_of_predict_does_not_grow_with_the_file(
    model: Path, tmp_path: Path, jobs: int
) -> None:
    peaks = {}
    for n in (400, 1_600):
        path, blanks = (
            tmp_path / f"{n}.extxyz",
            " " * 200_000 + "\n",
        )  # so that few molecules make a large file
        with path.open("w") as file:
            file.writelines(
                WATER.format(id=f"w{k}", gap=1, height=-0.06 - 1e-5 * k) + blanks for k in range(n)
            )
        words = ("predict", "--model", model, "--structures", path, "--chunk", 100, "--jobs", jobs)
        peaks[n] = measure((*words, "--out", tmp_path / "t.csv")).peak_bytes
        assert (tmp_path / "t.csv").read_bytes().count(b"\n") == n + 1
    assert peaks[1_600] < LARGEST_RATIO * peaks[400], peaks

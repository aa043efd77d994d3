"""The memory of `bandgap predict` does not grow with the number of structures."""

from pathlib import Path

import pytest

from benchmarks.prediction_speed import measure, write_copies
from tests.transfers import transfer_labelled
from tests.unit.conftest import gaps_of, make_records

MOST_GROWTH = 1.2  # from 1,000 to 8,000 structures
SETTINGS = {"sampler": {"chains": 2, "warmup": 20, "draws": 200, "keep": 400}}


@pytest.mark.slow
def test_peak_memory_is_that_of_a_chunk_at_any_number_of_structures(
    source_folder: Path, tmp_path: Path
) -> None:
    """One chunk of all 8,000 structures, with all draws in memory, shows measured growth."""
    records = make_records(40, seed=7, prefix="labelled")
    settings = {"n": 32, "n_test": 8, "seed": 5, "device": "cpu", "level_of_theory": "made up"}
    gaps = gaps_of(records, seed=8, shift=-0.5)
    out = tmp_path / "run"
    model = transfer_labelled(
        source_folder, records, gaps, method="btl_pcp_pe", settings=SETTINGS, **settings, out=out
    )

    def peak(n: int, *words: object) -> int:
        molecules = tmp_path / f"{n}.extxyz"
        write_copies(molecules, records, n)
        table = tmp_path / "table.csv"
        done = measure(
            ("predict", "--model", model, "--structures", molecules, "--out", table, *words)
        )
        assert table.read_bytes().count(b"\n") == n + 1, done.said
        return done.peak_bytes

    peak(1_000)  # compiles what was not compiled yet
    peak_1000 = peak(1_000)
    many = peak(8_000)
    assert many < MOST_GROWTH * peak_1000
    assert peak(8_000, "--chunk", 8_000) > MOST_GROWTH * peak_1000

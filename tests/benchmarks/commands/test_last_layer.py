"""`python -m benchmarks last-layer`: options, tables and the file of figures."""

import json

import pytest


@pytest.mark.slow
def test_speed_without_accuracy_is_measured_and_written(run, tmp_path):
    """The real design of 512 units, with few sweeps."""
    file = tmp_path / "figures.json"
    result = run(
        "last-layer",
        "--n",
        20,
        "--sweeps",
        20,
        "--repeats",
        2,
        "--no-accuracy",
        "--seed",
        1,
        "--json",
        file,
    )
    assert result.exit_code == 0, result.output
    assert (
        "sweeps/s" in result.output and "plain Gibbs" in result.output and "n x n" in result.output
    )
    assert "20 rows: " in result.output and "factorisations of 512 x 512" in result.output
    written = json.loads(file.read_text())
    assert (
        set(written["sizes"]) == {"20"}
        and written["sizes"]["20"]["methods"] is None
        and written["dead"] is None
    )
    assert written["sweeps"] == 40

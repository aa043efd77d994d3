"""`python -m benchmarks vecchia`: tables and the file of figures."""

import json

import pytest


@pytest.mark.slow
def test_command_prints_costs_and_chains_and_writes_them(run, tmp_path):
    file = tmp_path / "vecchia.json"
    options = (
        "--no-accuracy",
        "--largest",
        1600,
        "--chain-sites",
        60,
        "--chain-draws",
        40,
        "--repeats",
        2,
        "--parts",
        tmp_path / "parts.jsonl",
        "--json",
        file,
    )
    result = run("vecchia", "--data", tmp_path, *options)
    assert result.exit_code == 0, result.output
    text = " ".join(result.output.split())
    assert "Slope of the pass on log-log: " in text and "1,600" in text
    assert "60 sites, step 0.1, 100 sites a batch: SGRLD has" in text
    written = json.loads(file.read_text())
    assert [row["n"] for row in written["costs"]["sizes"]] == [100, 200, 400, 800, 1600]
    assert len(written["chains"]["each"]) == 2 and "accuracy" not in written
    assert [row["n"] for row in written["engines"]["CPU, one core"]] == [100, 200, 100, 200]
    assert "on: CPU, one core. If the ratio is below 1, the tensors are faster." in text
    second = run("vecchia", "--data", tmp_path, *options)  # All four parts are stored.
    assert "4 parts are from an earlier run with --parts" in " ".join(second.output.split())
    assert json.loads(file.read_text()) == written

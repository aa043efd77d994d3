"""The benchmark `serve`: a service with several clients; a soak test with 10,000 requests."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks.__main__ import app
from benchmarks.service import ServiceBenchmark, run_benchmark
from tests.unit.conftest import source_folder, world  # noqa: F401 - fixtures
from tests.unit.jobs.service.conftest import Runs, runs  # noqa: F401 - a fixture


@pytest.mark.slow
def test_figures_of_each_number_of_clients_are_printed_and_written(
    runs: Runs,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    file = tmp_path / "serve.json"
    words = [
        "--model",
        str(runs.conformal),
        "--clients",
        "1",
        "--clients",
        "4",
        "--requests",
        "10",
        "--json",
        str(file),
    ]
    done = CliRunner().invoke(app, ["serve", *words], catch_exceptions=False)
    assert done.exit_code == 0
    written = json.loads(file.read_text())
    assert [(row["clients"], row["requests"], row["errors"]) for row in written["rows"]] == [
        (1, 10, 0),
        (4, 10, 0),
    ]
    for row in written["rows"]:
        assert 0 < row["p50_ms"] <= row["p95_ms"] and row["per_s"] > 0
        assert re.search(
            rf"{row['clients']} +10 +0 +{row['p50_ms']:.0f} +{row['p95_ms']:.0f} ", done.output
        )
    low, high = written["atoms"]
    assert 40 < low <= high < 80
    assert f"Each request has one crystal of {low} to {high} atoms." in done.output


@pytest.mark.soak
def test_ten_thousand_requests_have_no_error_and_memory_stays(runs: Runs) -> None:  # noqa: F811
    result = run_benchmark(
        ServiceBenchmark(clients=(1, 8, 32), requests=3_400), model=runs.bayesian
    )
    assert sum(row["requests"] for row in result["rows"]) == 10_200
    assert all(row["errors"] == 0 for row in result["rows"])
    if result["start_MB"] is not None:
        assert result["rows"][-1]["memory_MB"] < result["start_MB"] + 40

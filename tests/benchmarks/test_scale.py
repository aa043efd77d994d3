"""The benchmark `scale`: rows, slopes, the figure and errors."""

import json
from pathlib import Path

import pytest

from bandgap.structures import read_paths
from bandgap.structures.formats.xyz import extxyz_blocks
from benchmarks.scale import COMMANDS, above


def rows_of(*powers: tuple[str, float, float]) -> list[dict[str, object]]:
    """Rows of tasks whose time and memory grow with these powers."""
    return [
        {
            "task": task,
            "n": n,
            "clock_s": 2.0 * n**time,
            "processor_s": n**time,
            "peak_MB": 90.0 * n**memory,
        }
        for n in (10, 100, 1000)
        for task, time, memory in powers
    ]


def test_only_slopes_above_the_limits_are_reported() -> None:
    assert above(rows_of(("check", 1.04, 0.9), ("predict", 1.0, 0.19))) == []
    assert above(rows_of(("check", 1.2, 0.0), ("predict", 1.0, 0.5))) == [
        "check: time grows with the power 1.2. Accepted: at most 1.05.",
        "predict: memory grows with the power 0.5. Accepted: at most 0.2.",
    ]


@pytest.mark.slow
def test_all_commands_and_pages_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from typer.testing import CliRunner

    from bandgap.cli import app
    from bandgap.datasets.demo import data_folder
    from benchmarks.__main__ import app as benchmarks

    crystals = data_folder() / "crystals.extxyz.gz"
    model = tmp_path / "run"
    labels = ("--labels", str(data_folder() / "crystals.csv"), "--n", "40", "--n-test", "20")
    words = [
        "transfer",
        "--source",
        "demo",
        "--structures",
        str(crystals),
        *labels,
        "--method",
        "last_layer_ridge",
    ]
    assert CliRunner().invoke(app, [*words, "--out", str(model)]).exit_code == 0
    file = tmp_path / "few.extxyz"
    records = [record for record in read_paths([crystals])[:5] if record.atoms is not None]
    file.write_text("".join(extxyz_blocks(records, [{"id": record.id} for record in records])))
    json_file = tmp_path / "scale.json"
    figure = tmp_path / "scale.png"
    command = ["scale", "--model", str(model), "--structures", str(file), "--n", "5", "--n", "10"]
    result = CliRunner().invoke(
        benchmarks, [*command, "--json", str(json_file), "--figure", str(figure)]
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(json_file.read_text())["rows"]
    assert [row["task"] for row in rows] == [*COMMANDS, "page data", "page predict"] * 2
    assert figure.read_bytes().startswith(b"\x89PNG")

"""The benchmark `scale`: rows, slopes, the figure and errors."""

import json
from pathlib import Path

import pytest

from bandgap.foundation.errors import ConfigError
from bandgap.structures import read_paths
from bandgap.structures.formats.xyz import extxyz_blocks
from benchmarks.commands.scale import print_scale
from benchmarks.scale import COMMANDS, ScaleBenchmark, above, draw_scale, run_scale
from tests.unit.conftest import make_records


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


def test_slopes_are_printed_for_each_task_and_rows_are_sorted_by_task(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_scale(rows_of(("check", 1.0, 0.0), ("predict", 0.9, 0.1)))
    out = capsys.readouterr().out
    grows = "CPU time grows with the number of structures to the power"
    assert f"check: {grows} 1, memory to the power 0." in out
    assert f"predict: {grows} 0.9, memory to the power 0.1." in out
    tasks = [
        line.split()[0]
        for line in out.splitlines()
        if line.split()[1:2] and line.split()[1][0].isdigit()
    ]
    assert tasks == ["check"] * 3 + ["predict"] * 3


def test_only_slopes_above_the_limits_are_reported() -> None:
    assert above(rows_of(("check", 1.04, 0.9), ("predict", 1.0, 0.19))) == []
    assert above(rows_of(("check", 1.2, 0.0), ("predict", 1.0, 0.5))) == [
        "check: time grows with the power 1.2. Accepted: at most 1.05.",
        "predict: memory grows with the power 0.5. Accepted: at most 0.2.",
    ]


@pytest.mark.parametrize(("name", "magic"), [("a.png", b"\x89PNG"), ("a.svg", b"<?xml")])
def test_figure_is_a_reproducible_picture(tmp_path: Path, name: str, magic: bytes) -> None:
    rows = rows_of(("check", 1.0, 0.0), ("page data", 0.1, 0.0))
    draw_scale(rows, tmp_path / name)
    first = (tmp_path / name).read_bytes()
    assert first.startswith(magic) and len(first) > 5_000
    if name.endswith("png"):
        draw_scale(rows, tmp_path / name)
        assert (tmp_path / name).read_bytes() == first


def test_unknown_commands_and_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"transfer; sizes 10. Accepted: check, featurize, train-source"
    ):
        ScaleBenchmark(tmp_path, tmp_path, (10,), commands=("transfer",))
    with pytest.raises(ConfigError, match="sizes from 1"):
        ScaleBenchmark(tmp_path, tmp_path, (0,))


@pytest.mark.slow
def test_commands_are_measured_at_each_size(tmp_path: Path) -> None:
    file = tmp_path / "a.extxyz"
    records = make_records(6, seed=1, prefix="m")
    file.write_text("".join(extxyz_blocks(records, [{"id": record.id} for record in records])))
    reported_rows: list[dict[str, object]] = []
    config = ScaleBenchmark(tmp_path / "none", file, (6, 12), commands=("check",))
    rows = run_scale(config, on_row=reported_rows.append)
    assert reported_rows == rows
    assert [(row["task"], row["n"]) for row in rows] == [("check", 6), ("check", 12)]
    for row in rows:
        assert row["peak_MB"] > 50
        assert row["processor_s"] > 0.1


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

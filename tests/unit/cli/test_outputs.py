"""No command overwrites its inputs, however the path is written, and all check outputs first."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from bandgap.cli import app
from bandgap.cli.commands import CheckedCommand, path_parameters
from bandgap.cli.outputs import OUTPUTS
from bandgap.foundation.errors import InputError
from bandgap.storage.result_folders import check_result_folder
from tests.unit.cli.conftest import Run

INPUTS = {
    "baselines",
    "folder",
    "labels",
    "model",
    "new",  # structures
    "oe62",
    "path",
    "paths",
    "predictions",
    "run",
    "runs",
    "source",
    "structures",
}
INPUTS |= {"login", "token_file"}
OUTPUTS_OF_BENCHMARKS = {"parts_file", "figure"}
STRUCTURE = "1\nProperties=species:S:1:pos:R:3\nC 0 0 0\n"


@pytest.fixture
def work_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a run, and with structures of which one file has several names."""
    monkeypatch.chdir(tmp_path)
    for name in ("run", "crystals", "elsewhere"):
        (tmp_path / name).mkdir()
    (tmp_path / "run" / "manifest.json").write_text(json.dumps({"kind": "run"}))
    (tmp_path / "crystals" / "a.xyz").write_text(STRUCTURE)
    (tmp_path / "labels.csv").write_text("id,gap_eV\na,1.0\n")
    os.link(tmp_path / "crystals" / "a.xyz", tmp_path / "hard.xyz")
    (tmp_path / "soft.xyz").symlink_to(tmp_path / "crystals" / "a.xyz")
    (tmp_path / "same").symlink_to(tmp_path / "crystals")
    return tmp_path


def commands(command: Any = None, *names: str) -> Iterator[tuple[str, Any]]:
    command = get_command(app) if command is None else command
    if not hasattr(command, "commands"):
        yield " ".join(names), command
        return
    for name, below in command.commands.items():
        yield from commands(below, *names, name)


def test_every_command_checks_its_outputs_and_every_path_is_input_or_output() -> None:
    path_options = dict(commands())
    assert all(isinstance(command, CheckedCommand) for command in path_options.values())
    paths = {name for command in path_options.values() for name in path_parameters(command)}
    assert paths == INPUTS | (set(OUTPUTS) - OUTPUTS_OF_BENCHMARKS)


PREDICT = "predict --model run --structures"


@pytest.mark.parametrize(
    "command",
    [
        f"{PREDICT} crystals/a.xyz --out crystals/a.xyz",
        f"{PREDICT} crystals/a.xyz --out elsewhere/../crystals/a.xyz",
        f"{PREDICT} crystals/a.xyz --out soft.xyz",
        f"{PREDICT} crystals/a.xyz --out hard.xyz",
        f"{PREDICT} crystals/a.xyz --out same/a.xyz",
        f"{PREDICT} crystals --out crystals/a.xyz",
        f"{PREDICT} crystals --out hard.xyz",
        f"{PREDICT} same --out soft.xyz",
        f"{PREDICT} crystals/a.xyz --out new.csv --extxyz hard.xyz",
        f"{PREDICT} crystals --baselines labels.csv --out labels.csv",
        "featurize --structures crystals --out hard.xyz",
        "evaluate --predictions labels.csv --structures crystals --json labels.csv",
        "evaluate --predictions x.csv --structures crystals --labels labels.csv --json labels.csv",
    ],
)
def test_output_that_is_an_input_is_refused_and_stays(
    command: str, work_folder: Path, run: Run
) -> None:
    before = {path: path.read_bytes() for path in work_folder.rglob("*") if path.is_file()}
    result = run(*command.split())
    assert result.exit_code == 1
    assert "would be overwritten. Give another place to write to." in " ".join(
        result.stderr.split()
    )
    assert {path: path.read_bytes() for path in work_folder.rglob("*") if path.is_file()} == before


def test_file_that_is_written_next_to_an_output_is_no_input_either(
    work_folder: Path, run: Run
) -> None:
    (work_folder / "new.parquet.csv").write_text("id,gap_pbe_eV\na,1.0\n")
    result = run(
        *PREDICT.split(), "crystals", "--baselines", "new.parquet.csv", "--out", "new.parquet"
    )
    assert "new.parquet.csv is also given as --baselines" in " ".join(result.stderr.split())


def test_output_in_the_folder_of_a_run_that_is_read_is_refused(work_folder: Path, run: Run) -> None:
    result = run(*PREDICT.split(), "crystals", "--out", "run/predictions.csv")
    assert "is in" in result.stderr and "the folder of a stored result" in " ".join(
        result.stderr.split()
    )


@pytest.mark.parametrize(
    ("words", "accepted"),
    [
        ("--out new.xlsx", ".csv or .parquet"),
        ("--out new.csv.gz", ".csv or .parquet"),
        ("--out new.tsv", ".csv or .parquet"),
        ("--out new.extxyz", ".csv or .parquet"),
        ("--out new.XYZ", ".csv or .parquet"),
        ("--out new.csv --extxyz new.extxyz.gz", ".extxyz or .xyz"),
        ("--out new.csv --extxyz new-2.csv", ".extxyz or .xyz"),
    ],
)
def test_ending_of_a_format_that_predict_does_not_write_is_refused(
    words: str, accepted: str, run: Run, model: Path, waters: Path, tmp_path: Path
) -> None:
    paths = words.replace("new", str(tmp_path / "new")).split()
    result = run("predict", "--model", model, "--structures", waters, *paths)
    assert result.exit_code == 1
    message = " ".join(result.stderr.split())
    assert "are not written. Accepted: a name that ends in " + accepted in message
    assert not list(tmp_path.glob("new*"))


def test_result_that_contains_the_labels_is_not_replaced(work_folder: Path, run: Run) -> None:
    (work_folder / "run" / "labels.csv").write_text("id,gap_eV\na,1.0\n")
    words = ("--structures", "crystals", "--labels", "run/labels.csv", "--out", "run")
    result = run("transfer", "--source", "none", *words)
    assert "contains --labels run/labels.csv" in " ".join(result.stderr.split())


@pytest.mark.parametrize("out", ["loop", "loop/new.csv"])
def test_output_through_a_link_to_itself_is_refused(out: str, work_folder: Path, run: Run) -> None:
    (work_folder / "loop").symlink_to("loop")
    result = run(*PREDICT.split(), "crystals", "--out", out)
    assert f"Error: {out} is a link that leads to itself." in " ".join(result.stderr.split())
    with pytest.raises(InputError, match="leads to itself"):
        check_result_folder(Path(out), kind="run")


@pytest.mark.parametrize("option", ["--out", "--extxyz"])
def test_output_that_cannot_be_written_is_refused_first(
    option: str, work_folder: Path, run: Run
) -> None:
    words = {"--out": "new.csv", "--extxyz": "new.xyz"} | {option: "labels.csv/below.csv"}
    result = run(*PREDICT.split(), "crystals", *(word for pair in words.items() for word in pair))
    assert "below.csv cannot be written" in " ".join(result.stderr.split())
    assert not (work_folder / "new.csv").exists()

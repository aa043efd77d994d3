"""`bandgap doctor`: its checks, and its messages when something is missing."""

import sys
import tomllib
from pathlib import Path

import pytest

from tests.unit.cli.conftest import Run


def test_doctor_prints_versions_and_checks_descriptors_and_device(run: Run) -> None:
    result = run("doctor")
    assert "torch 2." in result.stdout and "ase 3." in result.stdout
    assert "ok      descriptors: 180 features of a test crystal" in result.stdout
    assert "ok      device: " in result.stdout
    assert "ok      worker: not running; `bandgap app` starts one" in result.stdout
    assert (result.exit_code, result.stdout.splitlines()[-1], result.stderr) == (
        0,
        "All in order.",
        "",
    )


def test_doctor_says_how_to_install_each_extra_and_what_else_is_missing(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandgap.cli.doctor.find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "bandgap.descriptors", None)
    lines = run("doctor").stdout
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    for extra in {*project["optional-dependencies"]} - {"test", "docs", "bench", "datagen"}:
        assert f"run `pip install -c constraints.txt '.[{extra}]'`" in lines
    assert "install Chromium" in lines
    assert "failed  descriptors: import of bandgap.descriptors halted" in lines
    assert "Run `pip install -c constraints.txt .`" in lines


def test_doctor_with_a_data_directory_that_cannot_be_made_fails_and_says_what_to_do(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BANDGAP_HOME", str(tmp_path / "file" / "home"))
    result = run("doctor")
    assert result.exit_code == 1
    assert "failed  data directory: Cannot make the folder" in result.stdout
    assert "Set BANDGAP_HOME" in result.stdout
    assert result.stderr.splitlines()[-1] == "Not in order: data directory, worker."
    assert "All in order." not in result.stdout

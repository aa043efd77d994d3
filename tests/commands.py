"""Commands of a typer application as tests call them, in this process and with a data directory of their own."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

Run = Callable[..., Result]


def run_in_process(app: typer.Typer) -> Run:
    """Return what calls a command of the application; exceptions that are no exit are raised."""

    def call(*words: Any) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return call


def use_own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a data directory of the test's own and a wide terminal; return the directory."""
    folder = tmp_path / "home"
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "200")
    return folder

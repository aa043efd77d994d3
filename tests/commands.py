"""Call commands of a typer application in this process, with a temporary data directory."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

Run = Callable[..., Result]


def run_in_process(app: typer.Typer) -> Run:
    """Return a function that calls a command and raises its exceptions but SystemExit."""

    def call(*words: Any) -> Result:
        return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)

    return call


def use_own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Set a temporary data directory and a wide terminal; return the directory."""
    folder = tmp_path / "home"
    monkeypatch.setenv("BANDGAP_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "200")
    return folder

"""Electron levels are computed without an extra where tblite has wheels."""

import tomllib
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).resolve().parents[3] / "pyproject.toml"


def test_tblite_is_a_dependency_on_x86_64_linux_only() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    requirements = [Requirement(text) for text in project["dependencies"]]
    (tblite,) = [item for item in requirements if item.name == "tblite"]
    assert tblite.marker is not None
    linux = {"sys_platform": "linux", "platform_machine": "x86_64"}
    assert tblite.marker.evaluate(linux)
    assert not tblite.marker.evaluate({**linux, "platform_machine": "aarch64"})
    assert not tblite.marker.evaluate({**linux, "sys_platform": "darwin"})
    assert not tblite.marker.evaluate({**linux, "sys_platform": "win32"})

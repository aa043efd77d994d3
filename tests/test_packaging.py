"""The recipe for conda-forge and the Dockerfile agree with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
CONDA = {"torch": "pytorch", "kaleido": "python-kaleido"}  # names that differ


def test_recipe_has_the_dependencies_of_every_system() -> None:
    yaml = pytest.importorskip("yaml")
    recipe = yaml.safe_load((ROOT / "recipe/recipe.yaml").read_text(encoding="utf-8"))
    pairs = [
        re.fullmatch(r"([\w-]+)(.*)", text) for text in PROJECT["dependencies"] if ";" not in text
    ]
    python = f"python {PROJECT['requires-python']}"
    expected = [f"{CONDA.get(pair[1], pair[1])} {pair[2]}" for pair in pairs if pair]
    assert recipe["requirements"]["run"] == [python, *expected]
    assert recipe["requirements"]["host"][0] == python
    about = recipe["about"]
    assert about["summary"] == PROJECT["description"]
    assert (about["license"], about["license_file"]) == (
        PROJECT["license"],
        PROJECT["license-files"],
    )
    version = re.search(r'__version__ = "(.*)"', (ROOT / "bandgap/__init__.py").read_text())
    assert version and recipe["context"]["version"] == version[1]
    (command,) = (f"{name} = {place}" for name, place in PROJECT["scripts"].items())
    assert recipe["build"]["python"]["entry_points"] == [command]


def test_dockerfile_copies_what_the_wheel_is_built_from_and_installs_the_wheel() -> None:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    build, _, run = text.partition("\nFROM python:3.11-slim\n")
    copied = {
        word.removeprefix("./")
        for line in re.findall(r"^COPY (.*)", build, re.MULTILINE)
        for word in line.split()[:-1]
    }
    folders = {
        place.split("/")[1]
        for place in PYPROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    }
    assert copied >= {"pyproject.toml", PROJECT["readme"], *PROJECT["license-files"], *folders}
    assert re.findall(r"^COPY (.*)", run, re.MULTILINE) == [
        "constraints.txt .",
        "--from=build /dist .",
    ]
    assert "-c constraints.txt bandgap-*.whl" in run

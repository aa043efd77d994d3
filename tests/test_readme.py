"""What the README says is true: its Python runs, its tables and layers are the code's, its links lead somewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.descriptors import PRESETS, n_features
from bandgap.predictions.table import COLUMNS, NEGATIVE_END_NOTE, read_predictions_csv
from bandgap.structures.formats import FORMATS
from bandgap.transfer import METHODS
from tests.test_architecture import LAYERS, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> list[str]:
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_commands_are_the_two_that_a_newcomer_types() -> None:
    environment = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt "
    assert code_blocks("sh") == [f"{environment}. && bandgap app\n", f'{environment}-e ".[test]" && pytest\n']


def test_every_format_of_structure_files_is_named() -> None:
    line = README.partition("- **Structures**: ")[2].partition("- **")[0]
    for form in FORMATS:
        for word in re.split(r"[/, ]+", form.label):
            assert word in line


@pytest.mark.slow
def test_python_of_the_readme_runs_and_leaves_a_table(tmp_path: Path) -> None:
    (script,) = code_blocks("python")
    assert len([line for line in script.splitlines() if line]) <= 12
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=900
    )
    assert result.returncode == 0, result.stderr
    table = read_predictions_csv(tmp_path / "predictions.csv")
    assert tuple(table.columns) == COLUMNS
    assert set(table["status"]) == {"ok", "warning", "refused"}
    predicted = table[table["status"] != "refused"]
    assert (predicted["lower_eV"] < predicted["mean_eV"]).all()
    assert (predicted["mean_eV"] < predicted["upper_eV"]).all()


def test_layers_are_those_that_the_architecture_test_holds() -> None:
    (block,) = code_blocks("text")
    assert tuple(tuple(line.split(", ")) for line in block.splitlines()) == LAYERS


@pytest.mark.parametrize("name", PRESETS)
def test_table_of_presets_has_the_numbers_of_the_code(name: str) -> None:
    config = PRESETS[name]
    elements = " ".join(config.species) or f"{len(config.elements)} elements"
    assert f"| `{name}` | {elements} | {n_features(config):,} |" in README


@pytest.mark.parametrize("family", dict.fromkeys(method.family for method in METHODS.values()))
def test_table_of_methods_has_those_of_the_code(family: str) -> None:
    (row,) = re.findall(rf"^\| {family} \|(.*)\|$", README, flags=re.MULTILINE)
    named = [name for name in re.findall("`([a-z0-9_]+)`", row) if name in METHODS]
    assert sorted(named) == sorted(method.name for method in METHODS.values() if method.family == family)


def test_table_of_terms_has_the_numbers_of_the_code() -> None:
    for config in (preset for preset in PRESETS.values() if preset.terms):
        assert [order for order, _ in config.terms] == [1, 2]
        k1, k2 = config.k1, config.k2
        assert f"| k1 | atomic number | {k1.minimum:g} to {k1.maximum:g} | {k1.n} | {k1.sigma:g} | none |" in README
        assert (
            f"| k2 | inverse distance | {k2.minimum:g} to {k2.maximum:g} per angstrom | {k2.n} "
            f"| {k2.sigma:g} per angstrom | exponential, {k2.threshold:g} at {k2.cutoff_angstrom:g} angstrom |"
        ) in README
        assert config.normalisation == "per_heavy_atom"


def test_columns_of_the_csv_are_listed() -> None:
    assert ", ".join(COLUMNS) in " ".join(README.split())


def test_reading_of_a_negative_lower_end_is_explained() -> None:
    words = NEGATIVE_END_NOTE.split(", and ")[1].rstrip(".")
    assert words.split("below zero means ")[1] in " ".join(README.split())


def test_links_and_folders_of_the_readme_exist() -> None:
    linked = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    named = re.findall(r"`((?:bandgap|app|data|tests)(?:/[\w./-]+)?)`", README)
    missing = [name for name in {*linked, *named} if not (ROOT / name).exists()]
    assert missing == []

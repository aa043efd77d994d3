"""The README: its code runs, its figures are those of the code, and its links exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from bandgap.predictions.table import COLUMNS, DOMAIN_P, read_predictions_csv
from bandgap.sources.proposed import Target, propose

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def code_blocks(language: str) -> list[str]:
    """Return the fenced code blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def check_predictions(path: Path) -> None:
    """Check the predictions of the new crystals of the demo."""
    table = read_predictions_csv(path)
    assert tuple(table.columns) == (*COLUMNS, DOMAIN_P)
    assert set(table["status"]) == {"ok", "warning", "refused"}
    predicted = table[table["status"] != "refused"]
    assert (predicted["lower_eV"] < predicted["mean_eV"]).all()
    assert (predicted["mean_eV"] < predicted["upper_eV"]).all()


def test_readme_shows_the_commands_for_app_and_tests() -> None:
    environment = "python3 -m venv .venv && . .venv/bin/activate && pip install -c constraints.txt "
    app_command = f"{environment}. && bandgap app\n"
    test_command = f'{environment}-e ".[test]" && pytest\n'
    assert code_blocks("sh") == [app_command, test_command]


@pytest.mark.slow
def test_python_of_the_readme_writes_predictions(tmp_path: Path) -> None:
    (script,) = code_blocks("python")
    assert len([line for line in script.splitlines() if line]) <= 12
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert result.returncode == 0, result.stderr
    check_predictions(tmp_path / "predictions.csv")


@pytest.mark.slow
def test_shell_commands_of_the_readme_write_predictions(tmp_path: Path) -> None:
    (script,) = code_blocks("shell")
    assert len(script.splitlines()) == 4
    (tmp_path / "data").symlink_to(ROOT / "data")
    for line in script.splitlines():
        program, *words = line.split()
        assert program == "bandgap"
        result = subprocess.run(
            [sys.executable, "-c", "from bandgap.cli import main; main()", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
        assert result.returncode == 0, result.stderr
    check_predictions(tmp_path / "predictions.csv")
    assert (tmp_path / "next.csv").read_text(encoding="utf-8").startswith("rank,id,")


@pytest.mark.parametrize("has_levels", [True, False])
def test_error_of_organic_crystals_is_that_of_the_proposed_method(has_levels: bool) -> None:
    organic = Target({("C", "H", "N"): 100}, "PBE", n=100)
    proposal = propose(
        organic, transfers=True, levels_installed=has_levels, bonds_installed=has_levels
    )
    row = "organic, PBE" if has_levels else "organic, PBE, without electron levels"
    (cells,) = re.findall(
        rf"^\| {row} \| `demo` \| `(\w+)`[^|]*\| ([^|]*) \|", README, re.MULTILINE
    )
    method, error = cells
    assert method == proposal.method
    assert f"RMSE {error} eV" in proposal.measured


def test_error_without_a_source_is_that_of_the_proposed_method() -> None:
    proposal = propose(Target({("C", "H", "Pb"): 140}, "PBE", n=100), transfers=False)
    assert f"| `none` | `{proposal.method}` | 1.13 |" in README
    assert "100 labelled" in proposal.measured
    assert "RMSE 1.13 eV" in proposal.measured


def test_links_and_folders_of_the_readme_exist() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)\)", README)
    folders = re.findall(r"`((?:bandgap|app|data|docs|tests)(?:/[\w./-]+)?)`", README)
    assert links
    missing = [name for name in {*links, *folders} if not (ROOT / name).exists()]
    assert missing == []


def test_picture_of_the_readme_is_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^]]+\]\(([^)]+)\)", README)
    assert pictures == ["data/pictures/tour-4-predict.png"]

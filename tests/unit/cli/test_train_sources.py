"""Options of `bandgap train-sources`: displaced copies, and what makes no sense."""

from pathlib import Path

from tests.unit.cli.conftest import Run


def test_displaced_copies_can_be_turned_off_and_changed(
    run: Run, waters: Path, tmp_path: Path
) -> None:
    command = f"train-sources near={waters} --label gap_eV --species H O --hidden 4".split()
    for words, text in (
        (("--displacement", "0"), None),
        (("--displacement", "0.1"), "changed by 0.1 angstrom"),
    ):
        result = run(
            *command, "--steps", "5", *words, "--out", tmp_path / "source", "--device", "cpu"
        )
        assert result.exit_code == 0
        assert (text or "near, level of theory") in result.stdout
        assert ("displaced copies" in result.stdout) == bool(text)

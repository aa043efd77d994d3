"""Options of `bandgap train-sources`: displaced copies, and what makes no sense."""

from pathlib import Path

import pytest

from bandgap.cli import sources
from bandgap.structures.displaced import DISPLACEMENT
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


def test_default_of_the_displacement_is_that_of_the_library() -> None:
    assert sources.DISPLACEMENT == DISPLACEMENT


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("qm9.extxyz",), "a set: 'qm9.extxyz'. Write NAME=TEXT"),
        (("a=x", "a=y"), "a set: 'a' is given twice. Give each set a name of its own"),
        (("a=x", "--level", "b=PBE"), "There is no set 'b'. Given: a"),
        (("a=x", "--hidden", "big"), "--hidden 'big'. Write the widths of the hidden layers"),
        (
            ("a=x", "--displacement", "-0.1"),
            "atoms cannot be displaced by -0.1 angstrom. Accepted: a standard deviation",
        ),
        (("a=x", "--displacement", "nan"), "atoms cannot be displaced by nan angstrom"),
        (("a=x", "--displacement", "0.5"), "from 0 (no displaced copies) to 0.3 angstrom"),
    ],
    ids=["no name", "twice", "unknown", "widths", "negative", "no number", "too far"],
)
def test_sets_and_settings_that_make_no_sense_are_refused(
    run: Run, tmp_path: Path, words: tuple[str, ...], text: str
) -> None:
    result = run(
        "train-sources", *words, "--label", "gap_eV", "--species", "H", "--out", tmp_path / "source"
    )
    assert result.exit_code == 1
    assert text in result.stderr

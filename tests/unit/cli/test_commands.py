"""Errors as one plain message, exit codes, help texts and the start-up of the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import bandgap
from bandgap.cli.commands import PlainErrors, join_words
from bandgap.foundation.errors import BudgetError, Cancelled
from tests.unit.cli.conftest import Run

COMMANDS = "check featurize train-source transfer predict evaluate demo app worker doctor".split()


def failing_app(error: BaseException) -> typer.Typer:
    app = typer.Typer(cls=PlainErrors, pretty_exceptions_enable=False)

    @app.callback()
    def root() -> None:
        pass

    @app.command()
    def fail() -> None:
        raise error

    return app


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (BudgetError("5 GB are too much."), 1, "Error: 5 GB are too much.\n"),
        (
            PermissionError(13, "Permission denied", "/root/x"),
            1,
            "Error: /root/x: Permission denied.\n",
        ),
        (OSError(28, "No space left on device"), 1, "Error: No space left on device.\n"),
        (Cancelled("The run was cancelled."), 130, "The run was cancelled.\n"),
    ],
    ids=["ours", "file", "disk", "cancelled"],
)
def test_error_of_a_user_is_one_message_on_stderr(
    error: BaseException, code: int, text: str
) -> None:
    result = CliRunner().invoke(failing_app(error), ["fail"], catch_exceptions=False)
    assert (result.exit_code, result.stderr, result.stdout) == (code, text, "")


def test_error_of_the_program_itself_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        CliRunner().invoke(failing_app(ZeroDivisionError()), ["fail"], catch_exceptions=False)


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["--species", "H", "C", "N"], ["--species", "H,C,N"]),
        (
            ["--species", "H,C", "--out", "x", "--seed", "1"],
            ["--species", "H,C", "--out", "x", "--seed", "1"],
        ),
        (
            ["--out", "x", "--species", "H", "C", "--seed", "1"],
            ["--out", "x", "--species", "H,C", "--seed", "1"],
        ),
        (["--species"], ["--species"]),
        (["--species=H", "--out", "x"], ["--species=H", "--out", "x"]),
        ([], []),
    ],
)
def test_species_with_spaces_become_one_word(words: list[str], joined: list[str]) -> None:
    assert join_words(words, option="--species") == joined


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_every_command_has_an_example(command: str, run: Run) -> None:
    result = run(command, "--help")
    assert result.exit_code == 0
    assert f"Example: bandgap {command}" in result.stdout


def test_module_is_the_command_line_with_exit_codes_and_its_own_name() -> None:
    command = [sys.executable, "-m", "bandgap"]
    version = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"bandgap {bandgap.__version__}\n"
    unknown = subprocess.run([*command, "pretict"], capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "Usage: python -m bandgap" in unknown.stderr
    assert "No such command 'pretict'" in unknown.stderr


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys\nfrom bandgap.cli import main\nsys.argv = ['bandgap', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "slow = {'torch', 'dscribe', 'ase', 'sklearn', 'numpy', 'pandas'}\n"
        "print('LOADED', *(slow & set(sys.modules)))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1].split() == ["LOADED"]


def test_first_errors_of_commands_load_nothing_heavy(waters: Path, tmp_path: Path) -> None:
    """Whatever is wrong with the paths is said before torch and numba are imported (1.5 s)."""
    structures = ("--structures", waters)
    labelled = (*structures, "--label", "gap_eV")
    absent = tmp_path / "absent"
    out = ("--out", tmp_path / "out")
    demo = ("--source", "demo")
    no_such_file = "absent: there is no such file or folder."
    no_manifest = "absent: there is no such folder."
    errors = [
        (("transfer", *demo, *structures, *out), "Neither was given."),
        (("transfer", *demo, "--structures", absent, "--label", "gap_eV", *out), no_such_file),
        (("transfer", *demo, *structures, "--labels", absent, *out), no_such_file),
        (("transfer", "--source", absent, *labelled, *out), no_manifest),
        (
            ("transfer", *demo, *labelled, "--method", "rigde", *out),
            "method 'rigde' does not exist.",
        ),
        (("train-source", "--structures", absent, "--label", "gap_eV", *out), no_such_file),
        (("compare", "--source", absent, *labelled, *out), no_manifest),
        (
            ("compare", *demo, *labelled, "--method", "rigde", *out),
            "method 'rigde' does not exist.",
        ),
        (("refit", absent, *out), no_manifest),
        (("predict", "--model", absent, *structures, *out), no_manifest),
        (("compute-next", "--model", absent, *structures, *out), no_manifest),
        (("propose", "--model", absent, *structures, "--window", "1:2", *out), no_manifest),
    ]
    script = (
        "import json, sys\nfrom typer.testing import CliRunner\nfrom bandgap.cli import app\n"
        "words = json.loads(sys.argv[1])\n"
        "results = [CliRunner().invoke(app, command) for command in words]\n"
        "slow = {'torch', 'dscribe', 'ase', 'sklearn', 'pandas', 'numba', 'scipy.stats'}\n"
        "print(json.dumps([[r.exit_code, ' '.join(r.stderr.split())] for r in results]))\n"
        "print('LOADED', *(slow & set(sys.modules)))"
    )
    commands = json.dumps([[str(word) for word in words] for words, _ in errors])
    result = subprocess.run(
        [sys.executable, "-c", script, commands], capture_output=True, text=True, check=True
    )
    output, loaded = result.stdout.splitlines()[-2:]
    for (words, text), (code, stderr) in zip(errors, json.loads(output), strict=True):
        assert text in stderr, (words, stderr)
        assert code in (1, 2), words
    assert loaded.split() == ["LOADED"]
